#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the comparison itself, with files as the engine writes them, right and spoiled."""

import contextlib
import io
import json
import math
import os
import struct
import sys
import tempfile
import unittest
from unittest import mock

import numpy
import torch

import compare
import compare_steps
import interchange
import layout
import models
import optimizers
import seeds

IMAGE = {"images": (2, 3, 16, 16), "labels": ((2,), 10)}
TEXT = {"tokens": ((2, 6), 40), "labels": ((2, 6), 40)}
SMALL = {
    "lenet5": ("lenet5", {}, {"images": (2, 1, 28, 28), "labels": ((2,), 10)}),
    "resnet basic": (
        "resnet",
        {"blocks": [1, 1], "width": 8, "stem": "cifar", "shortcut": "zero-pad", "classes": 10},
        IMAGE,
    ),
    "resnet bottleneck": (
        "resnet",
        {"block": "bottleneck", "blocks": [1, 1], "width": 8, "inner_ratio": 2, "classes": 10},
        {**IMAGE, "images": (2, 3, 32, 32)},
    ),
    "convnext": (
        "convnext",
        {"blocks": [1, 2], "widths": [8, 12], "classes": 10, "stochastic_depth": 0},
        IMAGE,
    ),
    "roberta": (
        "roberta",
        {
            "vocab": 40,
            "positions": 10,
            "width": 16,
            "layers": 2,
            "heads": 4,
            "inner": 24,
            "dropout": 0,
        },
        TEXT,
    ),
    "gpt2": (
        "gpt2",
        {
            "vocab": 40,
            "positions": 8,
            "width": 16,
            "layers": 2,
            "heads": 4,
            "inner": 24,
            "dropout": 0,
        },
        TEXT,
    ),
    "whisper": (
        "whisper",
        {
            "vocab": 40,
            "mels": 6,
            "frame_positions": 8,
            "positions": 8,
            "width": 16,
            "layers": 2,
            "heads": 4,
        },
        {"frames": (2, 6, 12), **TEXT},
    ),
    "deepfm": (
        "deepfm",
        {"buckets": [5, 7, 40], "numeric": 2, "embedding": 4, "mlp": [8, 6]},
        {"ids": ((3, 3), 5), "numeric": (3, 2), "labels": ((3,), 2)},
    ),
}


def draw_batch(fields, dtype):
    """Numbers where a field is a shape, integers below a bound where it is a shape and a bound."""
    batch = {}
    for field, spec in fields.items():
        if isinstance(spec[0], tuple):
            batch[field] = torch.randint(0, spec[1], spec[0])
        else:
            batch[field] = torch.randn(spec, dtype=dtype)
    return batch


def draw_model(name, dtype=torch.float32):
    family, settings, fields = SMALL[name]
    model = models.build(family, settings).to(dtype)
    models.initialise(model)
    for parameter in model.parameters():  # nothing is at a value that would hide an error
        parameter.data += 0.05 * torch.randn_like(parameter)
    return model, fields, {"model": family, "settings": json.dumps(settings)}


def array(value):
    value = value.detach().clone().contiguous().numpy()
    return value.astype("int32") if value.dtype == "int64" else value


def parameters_to_file(model):
    return {n: array(layout.parameter_to_file(model, n, p)) for n, p in model.named_parameters()}


def batch_to_file(batch, prefix=""):
    prefix += "input."
    return {prefix + field: array(layout.input_to_file(field, v)) for field, v in batch.items()}


def engine_file(name, dtype=torch.float32):
    """Metadata and tensors as the engine writes them for compare.py."""
    torch.manual_seed(1)
    model, fields, metadata = draw_model(name, dtype)
    tensors = parameters_to_file(model)
    batch = draw_batch(fields, dtype)
    batch["labels"].view(-1)[0] = -1
    tensors.update(batch_to_file(batch))
    logits = model(batch)
    loss = model.loss(logits, batch)
    loss.backward()
    tensors.update(loss=array(loss), logits=array(logits))
    for parameter, value in model.named_parameters():
        tensors["grad." + parameter] = array(layout.parameter_to_file(model, parameter, value.grad))
    for buffer, value in model.named_buffers():
        if value.is_floating_point():
            tensors["after." + buffer] = array(value)
    return metadata, tensors


def steps_file(name, optimizer, n_steps):
    torch.manual_seed(2)
    model, fields, metadata = draw_model(name)
    metadata["optimizer"] = json.dumps(optimizer)
    settings = optimizers.complete(optimizer)
    k = settings["accumulate"]
    batches = [draw_batch(fields, torch.float32) for _ in range(n_steps * k)]
    tensors = parameters_to_file(model)
    for i, batch in enumerate(batches):
        tensors.update(batch_to_file(batch, "step.%d." % i))
    algorithm = optimizers.new(model.parameters(), settings)
    groups = [batches[i * k : (i + 1) * k] for i in range(n_steps)]
    losses = optimizers.train(model, groups, algorithm, settings)
    tensors["losses"] = numpy.array(losses, "float32")
    return metadata, tensors


class FileTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "file.safetensors")

    def run_program(self, program, *arguments):
        """Exit status and output of a program on the file."""
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            with mock.patch.object(sys, "argv", ["program", self.path, *arguments]):
                status = program.main()
        return status, output.getvalue()

    def verdict(self, program, metadata, tensors, *arguments):
        interchange.write(self.path, metadata, tensors)
        return self.run_program(program, *arguments)


class CompareTest(FileTest):
    def test_a_right_file_of_every_model_passes(self):
        for name in SMALL:
            for dtype in (torch.float32, torch.float64):
                with self.subTest(name=name, dtype=dtype):
                    status, output = self.verdict(compare, *engine_file(name, dtype))
                    self.assertEqual(status, 0, output)

    def test_every_single_gradient_that_is_off_fails(self):
        for name in SMALL:
            metadata, tensors = engine_file(name)
            gradients = [n for n in tensors if n.startswith("grad.")]
            whole = math.hypot(*[numpy.linalg.norm(tensors[n]) for n in gradients])
            for gradient in gradients[:: max(1, len(gradients) // 8)]:
                with self.subTest(name=name, gradient=gradient):
                    spoiled = dict(tensors)
                    value = tensors[gradient].copy()
                    size = numpy.linalg.norm(value)
                    value.flat[0] += 1e-4 * (size if size > 1e-6 * whole else whole)
                    spoiled[gradient] = value
                    status, output = self.verdict(compare, metadata, spoiled)
                    self.assertEqual(status, 1, output)
                    self.assertIn("1 tensors differ", output)

    def test_key_biases_are_the_tensors_that_should_be_zero(self):
        _, output = self.verdict(compare, *engine_file("gpt2"))
        zero = [line.split()[0] for line in output.splitlines() if "(zero" in line]
        self.assertEqual(zero, ["grad.layers.%d.attention.key.bias" % i for i in range(2)])

    def test_a_small_but_true_gradient_is_not_taken_for_zero(self):
        torch.manual_seed(1)
        metadata, tensors = engine_file("convnext", torch.float64)
        tensors["stages.0.0.layer_scale"] = tensors["stages.0.0.layer_scale"] * 0 + 1e-6
        status, output = self.verdict(compare, metadata, tensors)
        self.assertEqual(status, 1)
        self.assertNotIn("(zero", output)

    def test_weights_in_pytorchs_own_layout_do_not_pass(self):
        metadata, tensors = engine_file("lenet5")
        columns = tensors["fc1.weight"].reshape(120, 5, 5, 16).transpose(0, 3, 1, 2)
        tensors["fc1.weight"] = columns.reshape(120, 400)
        self.assertEqual(self.verdict(compare, metadata, tensors)[0], 1)

    def test_inputs_of_relu_at_its_kink_are_told(self):
        metadata, tensors = engine_file("lenet5")
        self.assertNotIn("within rounding of 0", self.verdict(compare, metadata, tensors)[1])
        tensors["fc2.weight"] = tensors["fc2.weight"].copy()
        tensors["fc2.weight"][5] = 0
        tensors["fc2.bias"] = tensors["fc2.bias"].copy()
        tensors["fc2.bias"][5] = 1e-12
        _, output = self.verdict(compare, metadata, tensors)
        self.assertIn(
            "2 of %d inputs of ReLU" % (2 * (6 * 28 * 28 + 16 * 10 * 10 + 120 + 84)), output
        )

    def test_not_a_number_fails(self):
        metadata, tensors = engine_file("gpt2")
        tensors["loss"] = numpy.float32("nan")
        self.assertEqual(self.verdict(compare, metadata, tensors)[0], 1)

    def test_double_reference_holds_for_a_file_in_single(self):
        status, output = self.verdict(compare, *engine_file("whisper"), "--double")
        self.assertEqual(status, 0, output)

    def test_frames_weights_may_have_a_height_of_one(self):
        metadata, tensors = engine_file("whisper")
        tensors["encoder.conv1.weight"] = tensors["encoder.conv1.weight"][:, None]
        self.assertEqual(self.verdict(compare, metadata, tensors)[0], 0)

    def test_what_is_missing_unknown_or_misshapen_is_named(self):
        def without(name):
            return lambda metadata, tensors: tensors.pop(name)

        def put(name, value):
            return lambda metadata, tensors: tensors.update({name: value})

        def meta(**entries):
            return lambda metadata, tensors: metadata.update(entries)

        small = json.loads(engine_file("gpt2")[0]["settings"])
        cases = [
            (without("grad.norm.bias"), "grad.norm.bias is missing"),
            (without("norm.bias"), "norm.bias is missing"),
            (without("input.labels"), "input.labels is missing"),
            (without("loss"), "loss is missing"),
            (put("norm.bias", numpy.zeros(3, "float32")), "norm.bias: shape [3], expected [16]"),
            (
                put("grad.norm.bias", numpy.zeros(3, "float32")),
                "grad.norm.bias: 3 numbers, expected 16",
            ),
            (put("grad.norn.bias", numpy.zeros(3, "float32")), "grad.norn.bias: no such tensor"),
            (meta(model="gpt3"), "model 'gpt3'; there are"),
            (meta(settings=json.dumps({**small, "depth": 2})), "gpt2 has no 'depth'"),
            (
                meta(settings=json.dumps({**small, "dropout": 0.1})),
                "dropout and stochastic_depth must be 0",
            ),
            (meta(settings="{"), "settings is not JSON"),
            (meta(settings=json.dumps({**small, "layers": "two"})), "gpt2 cannot be built"),
            (meta(settings=json.dumps({**small, "heads": 3})), "does not divide into 3 heads"),
            (
                put("input.tokens", numpy.zeros((2, 6), "float32")),
                "input.tokens: must be I32 or I64",
            ),
            (put("input.tokens", numpy.full((2, 6), 40, "int32")), "compare: "),
            (put("input.tokens", numpy.zeros((2, 9), "int32")), "compare: "),
            (put("input.labels", numpy.full((2, 6), 40, "int32")), "compare: "),
            (put("input.labels", numpy.zeros((2, 5), "int32")), "compare: "),
        ]
        for spoil, message in cases:
            with self.subTest(message):
                metadata, tensors = engine_file("gpt2")
                spoil(metadata, tensors)
                status, output = self.verdict(compare, metadata, tensors)
                self.assertEqual(status, 2)
                self.assertIn(message, output)


class StepsTest(FileTest):
    OPTIMIZERS = (
        {
            "kind": "sgd",
            "lr": 0.05,
            "momentum": 0.9,
            "nesterov": True,
            "weight_decay": 1e-3,
            "clip_norm": 1.0,
        },
        {
            "kind": "adamw",
            "lr": 1e-3,
            "decay_1d": False,
            "schedule": "cosine",
            "warmup_steps": 2,
            "total_steps": 6,
        },
        {
            "kind": "lamb",
            "lr": 1e-2,
            "adapt_1d": False,
            "schedule": "polynomial",
            "total_steps": 6,
            "power": 2,
        },
        {"kind": "lars", "lr": 1.0, "weight_decay": 1e-4, "accumulate": 2},
    )

    def test_the_same_steps_pass_and_another_rate_fails(self):
        for optimizer in self.OPTIMIZERS:
            with self.subTest(optimizer["kind"]):
                metadata, tensors = steps_file("gpt2", optimizer, 6)
                status, output = self.verdict(compare_steps, metadata, tensors)
                self.assertEqual(status, 0, output)
                metadata["optimizer"] = json.dumps({**optimizer, "lr": optimizer["lr"] * 1.3})
                self.assertEqual(self.verdict(compare_steps, metadata, tensors)[0], 1)

    def test_a_number_of_batches_that_does_not_fit_is_named(self):
        metadata, tensors = steps_file("gpt2", self.OPTIMIZERS[0], 3)
        tensors["losses"] = tensors["losses"][:2]
        status, output = self.verdict(compare_steps, metadata, tensors)
        self.assertEqual(status, 2)
        self.assertIn("3 batches for 2 steps of 1", output)

    def test_seeds_are_in_the_range_of_themselves_and_not_of_others(self):
        metadata, tensors = steps_file("deepfm", self.OPTIMIZERS[1], 6)
        options = ("--seeds", "3", "--last", "2")
        status, output = self.verdict(seeds, metadata, tensors, *options)
        self.assertEqual(status, 0, output)
        finals = [line.split()[2] for line in output.splitlines() if line.startswith("seed")]
        for against, wanted in ((",".join(finals), 0), ("9.1,9.2,9.3", 1)):
            status, output = self.run_program(seeds, *options, "--against", against)
            self.assertEqual(status, wanted, output)


class OptimizerTest(unittest.TestCase):
    """One weight tensor, gradients of two steps, against the formulas written out."""

    def updated(self, **settings):
        w = torch.nn.Parameter(torch.tensor([[3.0, 4.0]], dtype=torch.float64))
        optimizer = optimizers.new([w], optimizers.complete(settings))
        for gradient in ([[0.6, 0.8]], [[0.0, 2.0]]):
            w.grad = torch.tensor(gradient, dtype=torch.float64)
            optimizer.step()
        return w.detach().numpy()[0]

    def test_lars(self):
        w, v = numpy.array([3.0, 4.0]), numpy.zeros(2)
        for g in (numpy.array([0.6, 0.8]), numpy.array([0.0, 2.0])):
            size = numpy.sqrt((w**2).sum())
            rate = 0.01 * size / (numpy.sqrt((g**2).sum()) + 0.1 * size)
            v = 0.5 * v + 2 * rate * (g + 0.1 * w)
            w = w - v
        got = self.updated(kind="lars", lr=2, momentum=0.5, trust=0.01, weight_decay=0.1)
        numpy.testing.assert_allclose(got, w, rtol=1e-12)

    def test_lamb(self):
        w, m, v = numpy.array([3.0, 4.0]), numpy.zeros(2), numpy.zeros(2)
        for t, g in ((1, numpy.array([0.6, 0.8])), (2, numpy.array([0.0, 2.0]))):
            m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
            u = m / (1 - 0.9**t) / (numpy.sqrt(v / (1 - 0.99**t)) + 1e-6) + 0.1 * w
            w = w - 0.5 * numpy.sqrt((w**2).sum() / (u**2).sum()) * u
        got = self.updated(kind="lamb", lr=0.5, beta2=0.99, weight_decay=0.1)
        numpy.testing.assert_allclose(got, w, rtol=1e-12)

    def test_a_weight_of_zero_moves_with_a_ratio_of_one(self):
        for kind, moved in (("lars", -0.1), ("lamb", -0.1 / (1 + 1e-6))):
            w = torch.nn.Parameter(torch.zeros(1, 1, dtype=torch.float64))
            optimizer = optimizers.new([w], optimizers.complete({"kind": kind, "lr": 0.1}))
            w.grad = torch.ones(1, 1, dtype=torch.float64)
            optimizer.step()
            self.assertAlmostEqual(w.item(), moved, places=12)

    def test_schedules_begin_warm_and_end_at_the_end(self):
        common = {"kind": "sgd", "lr": 1.0, "warmup_steps": 4, "total_steps": 12, "end_lr": 0.2}
        cosine = optimizers.complete({**common, "schedule": "cosine"})
        square = optimizers.complete({**common, "schedule": "polynomial", "power": 2})
        for step, rates in (
            (0, (0.25, 0.25)),
            (3, (1, 1)),
            (4, (1, 1)),
            (8, (0.6, 0.4)),
            (12, (0.2, 0.2)),
            (99, (0.2, 0.2)),
        ):
            self.assertAlmostEqual(optimizers.learning_rate(cosine, step), rates[0])
            self.assertAlmostEqual(optimizers.learning_rate(square, step), rates[1])

    def test_wrong_settings_are_refused(self):
        for settings in (
            {"kind": "adam", "lr": 1},
            {"kind": "sgd"},
            {"kind": "sgd", "lr": 1, "beta1": 0.9},
            {"kind": "sgd", "lr": 1, "schedule": "cosine"},
        ):
            self.assertRaises(ValueError, optimizers.complete, settings)


class ModelTest(unittest.TestCase):
    def test_published_sizes_have_the_published_number_of_parameters(self):
        for name, (_, _, wanted) in models.PUBLISHED.items():
            with self.subTest(name):
                shapes = models.published_shapes(name)
                self.assertEqual(sum(math.prod(shape) for _, shape in shapes), wanted)

    def test_initial_values_leave_nothing_undefined(self):
        for name, (family, settings, _) in SMALL.items():
            with self.subTest(name):
                model = models.build(family, settings)
                for parameter in model.parameters():
                    if isinstance(model, (models.LeNet5, models.ResNet, models.DeepFM)):
                        break  # theirs start from PyTorch's own
                    parameter.data.fill_(math.nan)
                for module in model.modules():
                    if isinstance(module, torch.nn.LayerNorm):
                        module.reset_parameters()
                models.initialise(model)
                self.assertTrue(all(p.isfinite().all() for p in model.parameters()))

    def test_one_call_attention_is_the_same(self):
        if not hasattr(torch.nn.functional, "scaled_dot_product_attention"):
            self.skipTest("PyTorch %s has none" % torch.__version__)
        model, fields, _ = draw_model("gpt2", torch.float64)
        batch = draw_batch(fields, torch.float64)
        plain = model(batch)
        with mock.patch.object(models.Attention, "fused", True):
            self.assertTrue(torch.allclose(model(batch), plain, rtol=1e-12))


class InterchangeTest(FileTest):
    def spoiled(self, content):
        with open(self.path, "wb") as file:
            file.write(content)
        with self.assertRaises(interchange.FormatError) as caught:
            interchange.read(self.path)
        return str(caught.exception)

    def header(self, data=b"", **entries):
        text = json.dumps(entries).encode()
        return struct.pack("<Q", len(text)) + text + data

    def test_what_is_written_is_read(self):
        tensors = {
            "a": numpy.arange(6, dtype="float32").reshape(2, 3),
            "b": numpy.array(7, "int32"),
            "c": numpy.zeros((0, 4), "float64"),
            "d": numpy.arange(6, dtype="int64").reshape(2, 3).T,
        }
        interchange.write(self.path, {"model": "x"}, tensors)
        metadata, read = interchange.read(self.path)
        self.assertEqual(metadata, {"model": "x"})
        for name, value in tensors.items():
            self.assertEqual(read[name].dtype, value.dtype)
            numpy.testing.assert_array_equal(read[name], value)

    def test_bad_files_are_refused_with_the_reason(self):
        one = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
        cases = [
            (b"", "0 bytes"),
            (b"abc", "3 bytes"),
            (struct.pack("<Q", 1 << 60) + b"{}", "byte 0: a header of"),
            (struct.pack("<Q", 2) + b"{x", "not JSON"),
            (struct.pack("<Q", 2) + b"[]", "not a JSON object"),
            (struct.pack("<Q", 2) + b"\xff\xff", "not UTF-8"),
            (self.header(b"1234", a={**one, "dtype": "F7"}), "a: dtype"),
            (self.header(b"1234", a={**one, "shape": [-1]}), "a: shape"),
            (self.header(b"1234", a={**one, "shape": [2]}), "a: bytes 0 to 4"),
            (self.header(b"123", a=one), "a: bytes 0 to 4 of 3"),
            (self.header(b"12345", a=one), "data: 5 bytes"),
            (self.header(b"12341234", a=one, b=one), "hole or an overlap"),
            (self.header(b"", __metadata__={"a": 1}), "__metadata__"),
            (struct.pack("<Q", 13) + b'{"a":1,"a":2}', "'a' is there twice"),
        ]
        for content, message in cases:
            with self.subTest(message):
                self.assertIn(message, self.spoiled(content))


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
