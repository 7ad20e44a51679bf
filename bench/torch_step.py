#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times training steps of PyTorch on the CPU, eagerly: forward, backward, optimizer.

The settings that PyTorch leaves to its user are tried before (memory format for images, one-call
attention for the transformer), and the fastest is timed. Prints one JSON object a workload.
Models: tests/torch/models.py. Nothing is read from disk: a batch is drawn once.

The transformer is a stack of RoBERTa layers without embeddings and head; its loss is half the sum
of the squares of what comes out, over their number.
"""

import argparse
import itertools
import json
import os
import statistics
import sys
import time

import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "torch"))
import models  # noqa: E402
import sequence  # noqa: E402

N_TRIAL_STEPS = 5
WORKLOADS = {
    "resnet18": {"batch": 16, "image": 224},
    "resnet20": {"batch": 128, "image": 32},
    "roberta-layers": {
        "batch": 8,
        "tokens": 128,
        "layers": 12,
        "width": 768,
        "heads": 12,
        "inner": 3072,
    },
}


class LayerStack(nn.Module):
    def __init__(self, layers, width, heads, inner):
        super().__init__()
        self.layers = nn.ModuleList(
            [sequence.PostNormLayer(width, heads, inner, 0.0) for _ in range(layers)]
        )

    def forward(self, batch):
        x = batch["vectors"]
        for layer in self.layers:
            x = layer(x)
        return x

    def loss(self, outputs, batch):
        return 0.5 * outputs.pow(2).mean()


def new_workload(name, sizes):
    """A model and a batch for it."""
    torch.manual_seed(0)
    n = sizes["batch"]
    if name == "roberta-layers":
        model = LayerStack(sizes["layers"], sizes["width"], sizes["heads"], sizes["inner"])
        batch = {"vectors": torch.randn(n, sizes["tokens"], sizes["width"], requires_grad=True)}
        return model, batch
    family, settings, _ = models.PUBLISHED[name]
    model = models.build(family, settings)
    models.initialise(model)
    batch = {
        "images": torch.randn(n, 3, sizes["image"], sizes["image"]),
        "labels": torch.randint(0, model.fc.out_features, (n,)),
    }
    return model, batch


def new_optimizer(kind, parameters):
    """The fused form, one pass over memory, where the version has it for the CPU."""
    make, settings = {
        "sgd": (torch.optim.SGD, {"lr": 1e-4, "momentum": 0.9, "weight_decay": 1e-4}),
        "adamw": (torch.optim.AdamW, {"lr": 1e-6}),
    }[kind]
    parameters = list(parameters)
    try:
        return make(parameters, fused=True, **settings), "fused"
    except (TypeError, RuntimeError):
        return make(parameters, **settings), "default"


def settings_of(name):
    """What a user may choose, all combinations."""
    if name != "roberta-layers":
        return [{"memory_format": value} for value in ("contiguous", "channels_last")]
    has_fused = hasattr(nn.functional, "scaled_dot_product_attention")
    return [{"attention": value} for value in (["fused"] if has_fused else []) + ["composed"]]


def apply(settings, model, batch):
    sequence.Attention.fused = settings.get("attention") == "fused"
    if settings.get("memory_format") == "channels_last":
        model.to(memory_format=torch.channels_last)
        batch["images"] = batch["images"].contiguous(memory_format=torch.channels_last)


def time_steps(model, batch, optimizer, n_steps):
    """Seconds of each step; the last one's loss is checked, so that nothing ran wild."""
    seconds = []
    for _ in range(n_steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = model.loss(model(batch), batch)
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
        for value in batch.values():
            value.grad = None
    if not loss.isfinite():
        raise RuntimeError("the loss is %g" % loss.item())
    return seconds


def prepared(name, sizes, settings, optimizer):
    model, batch = new_workload(name, sizes)
    apply(settings, model, batch)
    optimizer, form = new_optimizer(optimizer, model.parameters())
    return (model, batch, optimizer), form


def try_settings(name, sizes, optimizer):
    """The least seconds of a step with each of the settings; taken in turns, so that what else the
    machine does meets all of them."""
    trials = {json.dumps(settings): [] for settings in settings_of(name)}
    runs = {key: prepared(name, sizes, json.loads(key), optimizer)[0] for key in trials}
    for _ in range(1 + N_TRIAL_STEPS):
        for key, run in runs.items():
            apply(json.loads(key), *run[:2])
            trials[key] += time_steps(*run, 1)
    return {key: min(seconds[1:]) for key, seconds in trials.items()}


def measure(name, sizes, arguments):
    trials = try_settings(name, sizes, arguments.optimizer)
    best = min(trials, key=trials.get)
    run, form = prepared(name, sizes, json.loads(best), arguments.optimizer)
    time_steps(*run, arguments.warm_up)
    seconds = time_steps(*run, arguments.steps)
    n = sizes["batch"]
    return {
        "workload": name,
        **sizes,
        "optimizer": arguments.optimizer,
        "used": {**json.loads(best), "optimizer": form},
        "tried_s": {", ".join(json.loads(key).values()): value for key, value in trials.items()},
        "threads": torch.get_num_threads(),
        "steps": len(seconds),
        "min_s": min(seconds),
        "median_s": statistics.median(seconds),
        "max_s": max(seconds),
        "samples_per_s": n / statistics.median(seconds),
    }


def take_turns(name, sizes, arguments):
    """A step for every line that is read, its seconds printed; before that, what is used."""
    trials = try_settings(name, sizes, arguments.optimizer)
    best = min(trials, key=trials.get)
    run, form = prepared(name, sizes, json.loads(best), arguments.optimizer)
    time_steps(*run, 1)
    print(json.dumps({**json.loads(best), "optimizer": form}), flush=True)
    for _ in sys.stdin:
        print("%.6f" % time_steps(*run, 1)[0], flush=True)


def library_lines():
    """The lines of PyTorch's configuration about the libraries that compute."""
    lines = [line.strip(" -") for line in torch.__config__.show().splitlines()]
    marks = ("MKL", "OpenMP", "CPU capability", "BLAS_INFO")
    return [
        next(part for part in line.split(", ") if any(m in part for m in marks))[:100]
        for line in lines
        if any(m in line for m in marks)
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("workload", nargs="*", help="of %s [all]" % ", ".join(WORKLOADS))
    parser.add_argument("--threads", type=int, default=2, help="[%(default)s]")
    parser.add_argument("--steps", type=int, default=10, help="steps that are timed [%(default)s]")
    parser.add_argument("--warm-up", type=int, default=2, help="steps before [%(default)s]")
    parser.add_argument(
        "--optimizer", choices=("sgd", "adamw"), default="sgd", help="[%(default)s]"
    )
    parser.add_argument(
        "--turns", action="store_true", help="one workload; a step for each line of the input"
    )
    for size in sorted(set(itertools.chain(*WORKLOADS.values()))):
        parser.add_argument("--" + size, type=int, help="of a workload that has it")
    arguments = parser.parse_args()
    unknown = set(arguments.workload) - set(WORKLOADS)
    if unknown:
        parser.error(
            "no workload %s; there are %s" % (", ".join(sorted(unknown)), ", ".join(WORKLOADS))
        )
    if arguments.steps < 1 or arguments.warm_up < 0 or arguments.threads < 1:
        parser.error("at least one step and one thread")
    torch.set_num_threads(arguments.threads)
    print(
        json.dumps(
            {"torch": torch.__version__, "libraries": library_lines(), "load": os.getloadavg()[0]}
        )
    )
    for name in arguments.workload or WORKLOADS:
        sizes = {
            size: getattr(arguments, size) or default for size, default in WORKLOADS[name].items()
        }
        if arguments.turns:
            take_turns(name, sizes, arguments)
        else:
            print(json.dumps(measure(name, sizes, arguments)), flush=True)


if __name__ == "__main__":
    main()
