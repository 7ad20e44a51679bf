# SPDX-License-Identifier: Apache-2.0
"""What all models share whose loss is a cross entropy."""

from torch import nn
from torch.nn import functional


def cross_entropy(logits, labels):
    """Mean over the labels that are not -1."""
    return functional.cross_entropy(logits.flatten(0, -2), labels.flatten().long(), ignore_index=-1)


class Classifier(nn.Module):
    """A model whose loss is the cross entropy of batch["labels"]."""

    def loss(self, logits, batch):
        return cross_entropy(logits, batch["labels"])
