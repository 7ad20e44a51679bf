#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""seeds.py FILE: trains the file's model from five seeds on its batches; prints the final losses.

The seed gives the initial values and the dropout; the batches and their order are the file's, gone
through --epochs times. The final loss is the mean of the last --last steps'. With --against, the
engine's final losses, the exit status says whether both are in the same range: whether the means
are within three standard errors of their difference.
"""

import argparse
import statistics
import sys

import torch

import experiment
import interchange
import models
import optimizers

N_STANDARD_ERRORS = 3


def train(metadata, tensors, seed, n_epochs):
    """Losses of all steps."""
    torch.manual_seed(seed)
    model = experiment.build_model(metadata)
    models.initialise(model)
    batches = experiment.read_steps(model, tensors) * n_epochs
    settings = optimizers.complete(experiment.json_object(metadata, "optimizer"))
    optimizer = optimizers.new(model.parameters(), settings)
    k = settings["accumulate"]
    if len(batches) < k:
        raise ValueError("%d batches are not a step of %d" % (len(batches), k))
    groups = [batches[i : i + k] for i in range(0, len(batches) - k + 1, k)]
    return optimizers.train(model, groups, optimizer, settings)


def summary(name, losses):
    mean, spread = statistics.mean(losses), statistics.stdev(losses)
    numbers = (name, mean, spread, min(losses), max(losses))
    print("%-8s mean %.5f, standard deviation %.5f, %.5f to %.5f" % numbers)
    return mean, spread**2 / len(losses)


def at_least_two(text):
    losses = [float(part) for part in text.split(",")]
    if len(losses) < 2:
        raise argparse.ArgumentTypeError("needs at least two losses, separated by commas")
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--seeds", type=int, default=5, help="how many, from 0 [%(default)s]")
    parser.add_argument(
        "--epochs", type=int, default=1, help="times through the batches [%(default)s]"
    )
    parser.add_argument(
        "--last",
        type=int,
        default=10,
        help="steps that the final loss is the mean of [%(default)s]",
    )
    parser.add_argument("--threads", type=int, help="PyTorch's threads")
    parser.add_argument(
        "--against", type=at_least_two, help="final losses of the engine, with commas"
    )
    arguments = parser.parse_args()
    if min(arguments.seeds - 1, arguments.epochs, arguments.last) < 1:
        parser.error("two seeds, one epoch and one last step are the least")
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    finals = []
    try:
        metadata, tensors = interchange.read(arguments.file)
        for seed in range(arguments.seeds):
            losses = train(metadata, tensors, seed, arguments.epochs)
            finals.append(statistics.mean(losses[-arguments.last :]))
            numbers = (seed, finals[-1], losses[0], len(losses))
            print("seed %d: %.5f (first step %.5f, %d steps)" % numbers, flush=True)
    except experiment.BAD_FILE as error:
        print("seeds: %s: %s" % (arguments.file, error), file=sys.stderr)
        return 2
    mean, variance = summary("PyTorch", finals)
    if arguments.against is None:
        return 0
    other_mean, other_variance = summary("engine", arguments.against)
    bound = N_STANDARD_ERRORS * (variance + other_variance) ** 0.5
    is_good = abs(mean - other_mean) <= bound
    print(
        "the means differ by %.5f, bound %.5f: %s range"
        % (abs(mean - other_mean), bound, "the same" if is_good else "NOT the same")
    )
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
