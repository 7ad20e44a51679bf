#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_steps.py FILE...: has PyTorch, from the file's weights and batches, the same losses?

Both sides take as many steps as `losses` has numbers, with the optimizer that the file names;
a loss is that before its step's update.
"""

import argparse
import sys

import torch

import experiment
import interchange
import optimizers

TOLERANCE = 1e-4


def run_torch(metadata, tensors, n_steps):
    model = experiment.build_model(metadata)
    if tensors["losses"].dtype == "float64":
        model = model.double()
    experiment.refuse_randomness(model)
    experiment.load_parameters(model, tensors)
    experiment.load_buffers(model, tensors)
    batches = experiment.read_steps(model, tensors)
    settings = optimizers.complete(experiment.json_object(metadata, "optimizer"))
    k = settings["accumulate"]
    if len(batches) != n_steps * k:
        raise ValueError("%d batches for %d steps of %d" % (len(batches), n_steps, k))
    optimizer = optimizers.new(model.parameters(), settings)
    groups = [batches[i * k : (i + 1) * k] for i in range(n_steps)]
    return optimizers.train(model, groups, optimizer, settings)


def check(path, tolerance):
    """Prints how one file compares; the exit status for it."""
    try:
        metadata, tensors = interchange.read(path)
        if "losses" not in tensors or tensors["losses"].size == 0:
            raise ValueError("losses are missing")
        losses = tensors["losses"].flatten().tolist()
        expected = run_torch(metadata, tensors, len(losses))
    except experiment.BAD_FILE as error:
        print("compare_steps: %s: %s" % (path, error), file=sys.stderr)
        return 2
    n_bad = 0
    print("step       loss    PyTorch difference")
    for step, (loss, reference) in enumerate(zip(losses, expected)):
        difference = abs(loss - reference) / abs(reference)
        is_good = difference <= tolerance
        n_bad += not is_good
        line = "%4d %10.6f %10.6f %10.2e" % (step, loss, reference, difference)
        print(line + ("" if is_good else "  DIFFERS"))
    verdict = "%d steps differ" % n_bad if n_bad else "the same within %g" % tolerance
    print("%s, PyTorch %s: %s" % (metadata["model"], torch.__version__, verdict))
    return 1 if n_bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", metavar="file")
    parser.add_argument(
        "--tolerance", type=float, default=TOLERANCE, help="relative difference [%(default)g]"
    )
    arguments = parser.parse_args()
    return max(check(path, arguments.tolerance) for path in arguments.files)


if __name__ == "__main__":
    sys.exit(main())
