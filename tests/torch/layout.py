# SPDX-License-Identifier: Apache-2.0
"""Between PyTorch's layouts and the engine's, which puts channels last.

Convolution weights are [O, KH, KW, I/groups] in a file, those of one dimension [O, K, I] (or
[O, 1, K, I]); images [N, H, W, C], frames [N, T, C]; the columns of a linear layer behind a
flattened image go through h, w, c. All else is the same on both sides.
"""

from torch import nn

import models

WEIGHT_AXES = {nn.Conv2d: (0, 2, 3, 1), nn.Conv1d: (0, 2, 1)}
INPUT_AXES = {"images": (0, 3, 1, 2), "frames": (0, 2, 1)}


def inverse(axes):
    return tuple(axes.index(i) for i in range(len(axes)))


def flattened_shape(model, name):
    """Channels, height and width of what a linear layer's columns come from, or None."""
    return (16, 5, 5) if isinstance(model, models.LeNet5) and name == "fc1.weight" else None


def weight_axes(model, name):
    """How PyTorch's axes are ordered in a file, or None where they are not changed."""
    owner, _, last = name.rpartition(".")
    return WEIGHT_AXES.get(type(model.get_submodule(owner))) if last == "weight" else None


def parameter_to_file(model, name, value):
    image = flattened_shape(model, name)
    if image:
        return value.reshape(-1, *image).permute(0, 2, 3, 1).reshape(value.shape)
    axes = weight_axes(model, name)
    return value.permute(axes) if axes else value


def parameter_from_file(model, name, value):
    image = flattened_shape(model, name)
    if image and value.ndim == 2 and value.shape[1] == image[0] * image[1] * image[2]:
        channels, height, width = image
        return value.reshape(-1, height, width, channels).permute(0, 3, 1, 2).reshape(value.shape)
    axes = weight_axes(model, name)
    if axes and len(axes) == 3 and value.ndim == 4 and value.shape[1] == 1:
        value = value.squeeze(1)
    return value.permute(inverse(axes)) if axes and value.ndim == len(axes) else value


def input_from_file(field, value):
    axes = INPUT_AXES.get(field)
    if axes and value.ndim != len(axes):
        raise ValueError("input.%s: %d dimensions, not %d" % (field, value.ndim, len(axes)))
    return value.permute(axes).contiguous() if axes else value


def input_to_file(field, value):
    axes = INPUT_AXES.get(field)
    return value.permute(inverse(axes)) if axes else value
