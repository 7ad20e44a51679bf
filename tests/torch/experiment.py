# SPDX-License-Identifier: Apache-2.0
"""What a file of the engine describes: a model, its weights, batches, an optimizer.

Metadata: model (a family of models.py), settings (JSON, the arguments of its class), optimizer
(JSON, see optimizers.py). Tensors: parameters by name, input.<field> of one batch,
step.<i>.input.<field> of many.
"""

import inspect
import json
import re

import torch

import layout
import models

# what a file that is no good raises, here or inside PyTorch
BAD_FILE = (OSError, ValueError, TypeError, LookupError, RuntimeError, ArithmeticError)

FIELDS = {
    models.LeNet5: ("images", "labels"),
    models.ResNet: ("images", "labels"),
    models.ConvNeXt: ("images", "labels"),
    models.Roberta: ("tokens", "labels"),
    models.Gpt2: ("tokens", "labels"),
    models.Whisper: ("frames", "tokens", "labels"),
    models.DeepFM: ("ids", "numeric", "labels"),
}
FLOAT_FIELDS = ("images", "frames", "numeric")


def json_object(metadata, key):
    if key not in metadata:
        raise ValueError("__metadata__: %s is missing" % key)
    try:
        value = json.loads(metadata[key])
    except json.JSONDecodeError as error:
        raise ValueError("__metadata__: %s is not JSON: %s" % (key, error))
    if not isinstance(value, dict):
        raise ValueError("__metadata__: %s is not a JSON object" % key)
    return value


def build_model(metadata):
    family, settings = metadata.get("model"), json_object(metadata, "settings")
    if family not in models.FAMILIES:
        there = ", ".join(models.FAMILIES)
        raise ValueError("__metadata__: model %r; there are %s" % (family, there))
    known = list(inspect.signature(models.FAMILIES[family]).parameters)
    for key in settings:
        if key not in known:
            there = ", ".join(known)
            raise ValueError("settings: %s has no %r; there are %s" % (family, key, there))
    try:
        return models.build(family, settings)
    except (TypeError, LookupError, RuntimeError, ArithmeticError) as error:
        raise ValueError("settings: %s of %s cannot be built: %s" % (settings, family, error))


def refuse_randomness(model):
    """Two programs draw different masks: comparing them needs every probability at 0."""
    for module in model.modules():
        for attribute in ("p", "dropout", "drop"):
            probability = getattr(module, attribute, 0)
            if isinstance(probability, (int, float)) and probability > 0:
                raise ValueError("settings: dropout and stochastic_depth must be 0 to be compared")


def load_parameters(model, tensors):
    for name, parameter in model.named_parameters():
        if name not in tensors:
            raise ValueError("%s is missing" % name)
        value = layout.parameter_from_file(model, name, torch.from_numpy(tensors[name].copy()))
        if value.shape != parameter.shape:
            wanted = list(layout.parameter_to_file(model, name, parameter).shape)
            shape = list(tensors[name].shape)
            raise ValueError("%s: shape %s, expected %s" % (name, shape, wanted))
        parameter.data = value.to(parameter.dtype)


def load_buffers(model, tensors):
    """Running statistics, where the file has them."""
    for name, buffer in model.named_buffers():
        if "state." + name in tensors:
            value = torch.from_numpy(tensors["state." + name].copy())
            if value.shape != buffer.shape:
                raise ValueError(
                    "state.%s: shape %s, expected %s"
                    % (name, list(value.shape), list(buffer.shape))
                )
            buffer.data = value.to(buffer.dtype)


def fields_of(model):
    """The fields of a batch of this model."""
    fields = FIELDS[type(model)]
    if isinstance(model, models.DeepFM):
        absent = {"numeric": not model.numeric, "ids": not model.first_rows}
        fields = tuple(field for field in fields if not absent.get(field))
    return fields


def read_batch(model, tensors, prefix=""):
    """The batch of prefix + input.<field>, in PyTorch's layout, floats in the model's type."""
    batch = {}
    dtype = next(model.parameters()).dtype
    for field in fields_of(model):
        name = prefix + "input." + field
        if name not in tensors:
            raise ValueError("%s is missing" % name)
        value = layout.input_from_file(field, torch.from_numpy(tensors[name].copy()))
        if value.is_floating_point() != (field in FLOAT_FIELDS):
            wanted = "F32 or F64" if field in FLOAT_FIELDS else "I32 or I64"
            raise ValueError("%s: must be %s" % (name, wanted))
        batch[field] = value.to(dtype) if field in FLOAT_FIELDS else value.long()
    return batch


def read_steps(model, tensors):
    """All batches step.<i>.input.<field>, in order of i."""
    matches = [re.match(r"step\.(\d+)\.input\.", name) for name in tensors]
    numbers = sorted({int(match.group(1)) for match in matches if match})
    if not numbers or numbers != list(range(len(numbers))):
        raise ValueError(
            "step.<i>.input.<field>: i must be 0, 1, ... without a gap, not %s" % numbers
        )
    return [read_batch(model, tensors, "step.%d." % i) for i in numbers]
