# SPDX-License-Identifier: Apache-2.0
"""Models of images: LeNet-5, ResNet and Wide ResNet, ConvNeXt.

Sources: LeNet-5, LeCun et al. 1998, with ReLU and max pooling; ResNet, He et al. 2015 (arXiv
1512.03385), the stride in the 3x3 convolution; Wide ResNet, arXiv 1605.07146; ConvNeXt, arXiv
2201.03545.
"""

import torch
from torch import nn
from torch.nn import functional

from classifier import Classifier


class LeNet5(Classifier):
    """Two convolutions and three linear layers; 28x28 images are padded to 32x32."""

    def __init__(self, image=28, channels=1, classes=10):
        super().__init__()
        if image not in (28, 32):
            raise ValueError("LeNet-5 takes images of 28 or 32 pixels, not %s" % image)
        self.conv1 = nn.Conv2d(channels, 6, 5, padding=(32 - image) // 2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, batch):
        x = functional.max_pool2d(functional.relu(self.conv1(batch["images"])), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        x = functional.relu(self.fc1(x.flatten(1)))
        return self.fc3(functional.relu(self.fc2(x)))


class ZeroPadShortcut(nn.Module):
    """He et al.'s option A: every stride-th pixel, zero channels before and behind."""

    def __init__(self, new_channels, stride):
        super().__init__()
        self.new_channels, self.stride = new_channels, stride

    def forward(self, x):
        x = x[:, :, :: self.stride, :: self.stride]
        before = self.new_channels // 2
        return functional.pad(x, (0, 0, 0, 0, before, self.new_channels - before))


class Projection(nn.Module):
    """Option B: a 1x1 convolution and its normalisation."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
        self.bn = nn.BatchNorm2d(outputs)

    def forward(self, x):
        return self.bn(self.conv(x))


def shortcut(kind, inputs, outputs, stride):
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    if kind == "zero-pad":
        return ZeroPadShortcut(outputs - inputs, stride)
    return Projection(inputs, outputs, stride)


class BasicBlock(nn.Module):
    def __init__(self, inputs, inner, outputs, stride, kind):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, inner, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = shortcut(kind, inputs, outputs, stride)

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class Bottleneck(nn.Module):
    def __init__(self, inputs, inner, outputs, stride, kind):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, inner, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3 = nn.Conv2d(inner, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.shortcut = shortcut(kind, inputs, outputs, stride)

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)))
        y = functional.relu(self.bn2(self.conv2(y)))
        return functional.relu(self.bn3(self.conv3(y)) + self.shortcut(x))


class ResNet(Classifier):
    """stem "imagenet": 7x7 stride 2 and 3x3 max pooling stride 2; "cifar": 3x3 stride 1.

    blocks: how many in each stage; width: channels of the first stage, doubled in each next one;
    inner_ratio: a bottleneck's inner channels over its stage's width (2 in WideResNet-101-2).
    """

    def __init__(
        self,
        block="basic",
        blocks=(2, 2, 2, 2),
        width=64,
        inner_ratio=1,
        stem="imagenet",
        shortcut="projection",
        channels=3,
        classes=1000,
    ):
        super().__init__()
        if stem == "imagenet":
            self.conv1 = nn.Conv2d(channels, width, 7, stride=2, padding=3, bias=False)
        else:
            self.conv1 = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.pooled = stem == "imagenet"
        kind, expansion = {"basic": (BasicBlock, 1), "bottleneck": (Bottleneck, 4)}[block]
        inputs = width
        for stage, count in enumerate(blocks):
            outer = width * 2**stage
            layer = nn.Sequential()
            for i in range(count):
                stride = 2 if stage > 0 and i == 0 else 1
                layer.append(kind(inputs, outer * inner_ratio, outer * expansion, stride, shortcut))
                inputs = outer * expansion
            self.add_module("layer%d" % (stage + 1), layer)
        self.n_stages = len(blocks)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, batch):
        x = functional.relu(self.bn1(self.conv1(batch["images"])))
        if self.pooled:
            x = functional.max_pool2d(x, 3, stride=2, padding=1)
        for stage in range(self.n_stages):
            x = getattr(self, "layer%d" % (stage + 1))(x)
        return self.fc(x.mean((2, 3)))


class ChannelNorm(nn.LayerNorm):
    """Layer normalisation over the channels of N, C, H, W."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNeXtBlock(nn.Module):
    def __init__(self, width, layer_scale, drop):
        super().__init__()
        self.dwconv = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.layer_scale = nn.Parameter(torch.empty(width))
        self.initial_scale, self.drop = layer_scale, drop

    def forward(self, x):
        y = self.norm(self.dwconv(x).permute(0, 2, 3, 1))
        y = self.layer_scale * self.down(functional.gelu(self.up(y)))
        if self.training and self.drop > 0:
            keep = 1 - self.drop
            y = y * torch.bernoulli(y.new_full((len(y), 1, 1, 1), keep)) / keep
        return x + y.permute(0, 3, 1, 2)


class ConvNeXt(Classifier):
    """stochastic_depth: the last block's probability; it grows linearly from 0 at the first."""

    def __init__(
        self,
        blocks=(3, 3, 27, 3),
        widths=(192, 384, 768, 1536),
        patch=4,
        layer_scale=1e-6,
        stochastic_depth=0.5,
        channels=3,
        classes=1000,
    ):
        super().__init__()
        stem = nn.Conv2d(channels, widths[0], patch, patch)
        self.stem = nn.Sequential(stem, ChannelNorm(widths[0], eps=1e-6))
        self.downsample, self.stages = nn.ModuleList(), nn.ModuleList()
        n_blocks, n_before = sum(blocks), 0
        for stage, (count, width) in enumerate(zip(blocks, widths)):
            if stage > 0:
                before = widths[stage - 1]
                norm, conv = ChannelNorm(before, eps=1e-6), nn.Conv2d(before, width, 2, 2)
                self.downsample.append(nn.Sequential(norm, conv))
            drops = [stochastic_depth * (n_before + i) / max(n_blocks - 1, 1) for i in range(count)]
            stage_blocks = [ConvNeXtBlock(width, layer_scale, drop) for drop in drops]
            self.stages.append(nn.Sequential(*stage_blocks))
            n_before += count
        self.norm = nn.LayerNorm(widths[-1], eps=1e-6)
        self.head = nn.Linear(widths[-1], classes)

    def forward(self, batch):
        x = self.stages[0](self.stem(batch["images"]))
        for downsample, stage in zip(self.downsample, self.stages[1:]):
            x = stage(downsample(x))
        return self.head(self.norm(x.mean((2, 3))))
