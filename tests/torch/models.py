# SPDX-License-Identifier: Apache-2.0
"""The models of the training engine in PyTorch, their published sizes and initial values.

Every class takes the size settings that a file of the engine names and has two methods:
forward(batch) gives the logits, loss(logits, batch) the scalar that is differentiated. A batch
is a dict of tensors in PyTorch's own layouts. Nothing here reads files or trains. Run by itself
it counts parameters.
"""

import math

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from clicks import DeepFM
from sequence import Attention, Gpt2, Mlp, Roberta, RobertaHead, Whisper
from vision import ConvNeXt, ConvNeXtBlock, LeNet5, ResNet

FAMILIES = {
    "lenet5": LeNet5,
    "resnet": ResNet,
    "convnext": ConvNeXt,
    "roberta": Roberta,
    "gpt2": Gpt2,
    "whisper": Whisper,
    "deepfm": DeepFM,
}

# name: family, settings that differ from the class's defaults, parameters
PUBLISHED = {
    "lenet5": ("lenet5", {}, 61_706),
    "resnet18": ("resnet", {}, 11_689_512),
    "resnet50": ("resnet", {"block": "bottleneck", "blocks": (3, 4, 6, 3)}, 25_557_032),
    "resnet152": ("resnet", {"block": "bottleneck", "blocks": (3, 8, 36, 3)}, 60_192_808),
    "wide-resnet101-2": (
        "resnet",
        {"block": "bottleneck", "blocks": (3, 4, 23, 3), "inner_ratio": 2},
        126_886_696,
    ),
    "resnet20": (
        "resnet",
        {"blocks": (3, 3, 3), "width": 16, "stem": "cifar", "shortcut": "zero-pad", "classes": 10},
        269_722,
    ),
    "convnext-large": ("convnext", {}, 197_767_336),
    "roberta-base": ("roberta", {}, 124_697_433),
    "roberta-large": (
        "roberta",
        {"width": 1024, "layers": 24, "heads": 16, "inner": 4096},
        355_412_057,
    ),
    "roberta-xlm": (
        "roberta",
        {"vocab": 250002, "width": 1024, "layers": 24, "heads": 16, "inner": 4096},
        560_142_482,
    ),
    "gpt2": ("gpt2", {}, 124_439_808),
    "whisper-tiny": ("whisper", {}, 37_760_640),
    "whisper-base": ("whisper", {"width": 512, "layers": 6, "heads": 8}, 72_593_920),
    "whisper-small": ("whisper", {"width": 768, "layers": 12, "heads": 12}, 241_734_912),
}


class OnMeta(TorchFunctionMode):
    """Inside it modules are built with shapes alone, without memory."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function in (torch.empty, torch.zeros, torch.ones, torch.tensor):
            kwargs["device"] = "meta"
        return function(*args, **kwargs)


def build(family, settings):
    """A model with PyTorch's initial values, undefined where initialise() sets others."""
    if family not in FAMILIES:
        raise ValueError("no model family %r; there are %s" % (family, ", ".join(FAMILIES)))
    return FAMILIES[family](**settings)


def published_shapes(name):
    """Names and shapes of the parameters of a published size, in order."""
    family, settings, _ = PUBLISHED[name]
    with OnMeta():
        model = build(family, settings)
    return [(parameter, tuple(value.shape)) for parameter, value in model.named_parameters()]


# ---- initial values --------------------------------------------------------------------------


def sinusoids(positions, width):
    """Sines in the first half of the channels, cosines in the second (Whisper's encoder)."""
    step = math.log(10000) / (width // 2 - 1)
    angle = torch.arange(positions)[:, None] * torch.exp(-step * torch.arange(width // 2))
    return torch.cat([angle.sin(), angle.cos()], 1)


def initialise_one(module, std, residual_std):
    """std: of linear and embedding weights, or None for PyTorch's own uniform ones."""
    if isinstance(module, Attention):
        module.output.weight.data.normal_(0, residual_std)
    elif isinstance(module, Mlp):
        module.down.weight.data.normal_(0, residual_std)
    elif isinstance(module, ConvNeXtBlock):
        module.layer_scale.data.fill_(module.initial_scale)
    elif isinstance(module, RobertaHead):
        module.bias.data.zero_()
    elif std is not None and isinstance(module, (nn.Linear, nn.Embedding, nn.Conv1d, nn.Conv2d)):
        module.weight.data.normal_(0, std)
        if getattr(module, "bias", None) is not None:
            module.bias.data.zero_()


def initialise(model):
    """Draws initial values from PyTorch's generator, as the model's authors do."""
    if isinstance(model, LeNet5):
        return  # PyTorch's own: uniform within 1/sqrt(fan_in), weights and biases
    if isinstance(model, ResNet):
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        return
    if isinstance(model, DeepFM):
        model.linear.weight.data.zero_()
        model.embedding.weight.data.normal_(0, 0.01)
        return
    std = 0.02
    residual_std = std / math.sqrt(2 * len(model.layers)) if isinstance(model, Gpt2) else std
    # children come before their parents: what a parent sets is not overwritten
    for module in reversed(list(model.modules())):
        initialise_one(module, std, residual_std)
    if isinstance(model, Whisper):
        table = model.encoder.position.weight
        table.data.copy_(sinusoids(*table.shape))


def main():
    """Prints the published sizes and their numbers of parameters; fails if one is another."""
    wrong = 0
    for name, (_, _, wanted) in PUBLISHED.items():
        count = sum(math.prod(shape) for _, shape in published_shapes(name))
        print("%-18s %12d%s" % (name, count, "" if count == wanted else "  NOT %d" % wanted))
        wrong += count != wanted
    return wrong > 0


if __name__ == "__main__":
    raise SystemExit(main())
