#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare.py FILE...: are loss, logits and gradients in a file of the engine PyTorch's?

The difference of a tensor is norm(file - torch) / norm(torch), both in the file's type. A tensor
whose true gradient is zero (in double at most 1e-14 of the whole gradient's norm, such as a key's
bias before a softmax) has only rounding in it: its norm is compared with the whole gradient's.

ReLU's derivative jumps at 0. Where an input of it is within rounding of 0, two right programs
may take different sides, and all gradients before it differ by far more than rounding: such
inputs are counted and told. A batch without any is the remedy.
"""

import argparse
import sys

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

import experiment
import interchange
import layout

# relative differences, by the type of the file
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
ZERO_IN_DOUBLE = 1e-14
ZERO_SHARE = 0.1  # of the tolerance, for the norm of what should be zero
# of a tensor's root mean square; what separates two programs behind a few layers
ROUNDING = {torch.float32: 1e-6, torch.float64: 1e-15}


class KinkCounter(TorchFunctionMode):
    """Counts the inputs of ReLU that are so near 0 that rounding may change their sign."""

    def __init__(self, rounding):
        super().__init__()
        self.rounding, self.n_near, self.n_inputs = rounding, 0, 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is functional.relu:
            size = args[0].detach().abs()
            bound = self.rounding * size.pow(2).mean().sqrt()
            self.n_near += int((size < bound).sum())
            self.n_inputs += size.numel()
        return function(*args, **(kwargs or {}))


def refuse_unknown(tensors, model, outputs):
    known = set(outputs) | {name for name, _ in model.named_parameters()}
    known |= {"state." + name for name, _ in model.named_buffers()}
    known |= {"input." + field for field in experiment.fields_of(model)}
    for name in tensors:
        if name not in known:
            raise ValueError("%s: no such tensor of this model" % name)


def run_torch(metadata, tensors, dtype):
    """Outputs of one forward and backward pass, named and laid out as in a file, in double."""
    model = experiment.build_model(metadata).to(dtype)
    experiment.refuse_randomness(model)
    experiment.load_parameters(model, tensors)
    experiment.load_buffers(model, tensors)
    batch = experiment.read_batch(model, tensors)
    logits = model(batch)
    loss = model.loss(logits, batch)
    loss.backward()
    outputs = {"loss": loss, "logits": logits}
    for name, buffer in model.named_buffers():
        if buffer.is_floating_point():
            outputs["after." + name] = buffer
    for name, parameter in model.named_parameters():
        outputs["grad." + name] = layout.parameter_to_file(model, name, parameter.grad)
    refuse_unknown(tensors, model, outputs)
    return {name: value.detach().double().flatten() for name, value in outputs.items()}


def distance(a, b):
    """norm(a - b) / norm(b); not a number where any of both is not finite."""
    difference, size = (a - b).norm().item(), b.norm().item()
    return difference / size if size > 0 else (0.0 if difference == 0 else float("inf"))


def whole_norm(outputs):
    return sum(v.norm().item() ** 2 for n, v in outputs.items() if n.startswith("grad.")) ** 0.5


def in_file(tensors, name, expected):
    value = torch.from_numpy(tensors[name].copy()).double().flatten()
    if value.shape != expected.shape:
        raise ValueError("%s: %d numbers, expected %d" % (name, len(value), len(expected)))
    return value


def compare(tensors, reference, exact, tolerance):
    """Prints a line for every output; returns how many differ."""
    n_bad, whole = 0, whole_norm(exact)
    print("%-52s %10s %10s %10s %10s" % ("tensor", "norm", "difference", "to double", "torch's"))
    for name, expected in reference.items():
        if name not in tensors:
            if name.startswith("grad.") or name == "loss":
                raise ValueError("%s is missing" % name)
            continue
        value, true = in_file(tensors, name, expected), exact[name]
        is_zero = name.startswith("grad.") and true.norm().item() <= ZERO_IN_DOUBLE * whole
        if is_zero:
            error, bound = value.norm().item() / whole, ZERO_SHARE * tolerance
            own = "(zero: of the whole)"
        else:
            error, bound = distance(value, expected), tolerance
            own = "%10.2e %10.2e" % (distance(value, true), distance(expected, true))
        is_good = error <= bound  # false for not a number
        n_bad += not is_good
        line = "%-52s %10.3e %10.2e %21s" % (name, expected.norm().item(), error, own)
        print(line + ("" if is_good else "  DIFFERS, bound %g" % bound))
    return n_bad


def check(path, is_double, tolerance):
    """Prints how one file compares; the exit status for it."""
    try:
        metadata, tensors = interchange.read(path)
        if "loss" not in tensors:
            raise ValueError("loss is missing")
        dtype = torch.float64 if tensors["loss"].dtype == "float64" else torch.float32
        with KinkCounter(ROUNDING[dtype]) as kinks:
            exact = run_torch(metadata, tensors, torch.float64)
        is_exact = is_double or dtype == torch.float64
        reference = exact if is_exact else run_torch(metadata, tensors, dtype)
        tolerance = tolerance or TOLERANCE[dtype]
        n_bad = compare(tensors, reference, exact, tolerance)
    except experiment.BAD_FILE as error:
        print("compare: %s: %s" % (path, error), file=sys.stderr)
        return 2
    if kinks.n_near:
        numbers = (kinks.n_near, kinks.n_inputs)
        print("%d of %d inputs of ReLU are within rounding of 0: gradients may differ" % numbers)
    verdict = "%d tensors differ" % n_bad if n_bad else "the same within %g" % tolerance
    print("%s, PyTorch %s: %s" % (metadata["model"], torch.__version__, verdict))
    return 1 if n_bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", metavar="file")
    parser.add_argument("--double", action="store_true", help="compare with PyTorch in double")
    parser.add_argument(
        "--tolerance", type=float, help="relative difference allowed [1e-5; in double 1e-10]"
    )
    arguments = parser.parse_args()
    return max(check(path, arguments.double, arguments.tolerance) for path in arguments.files)


if __name__ == "__main__":
    sys.exit(main())
