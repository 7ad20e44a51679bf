# SPDX-License-Identifier: Apache-2.0
"""DeepFM (arXiv 1703.04247), which tells whether something shown is clicked."""

import torch
from torch import nn
from torch.nn import functional


class DeepFM(nn.Module):
    """First order + pairs (factorisation machine) + a multi-layer perceptron, one logit a sample.

    buckets: the number of ids of each categorical field; numeric: fields that are one number x,
    whose row of the tables is multiplied by x. One table holds the rows of all fields: those of
    the categorical ones in order, then one row for each numeric one.
    """

    def __init__(self, buckets=(1000,) * 26, numeric=13, embedding=10, mlp=(400, 400, 400)):
        super().__init__()
        rows, fields = sum(buckets) + numeric, len(buckets) + numeric
        self.linear = nn.Embedding(rows, 1)
        self.embedding = nn.Embedding(rows, embedding)
        self.mlp = nn.ModuleList()
        inputs = fields * embedding
        for width in mlp:
            self.mlp.append(nn.Linear(inputs, width))
            inputs = width
        self.output = nn.Linear(inputs, 1)
        first_rows = [sum(buckets[:i]) for i in range(len(buckets))]
        self.first_rows, self.rows, self.numeric = first_rows, rows, numeric

    def looked_up(self, table, batch):
        """Rows of a table for every field: N x fields x width."""
        parts = []
        if self.first_rows:
            first = torch.tensor(self.first_rows, device=table.weight.device)
            parts.append(table(batch["ids"] + first))
        if self.numeric:
            parts.append(table.weight[self.rows - self.numeric :] * batch["numeric"].unsqueeze(2))
        return torch.cat(parts, 1)

    def forward(self, batch):
        first_order = self.looked_up(self.linear, batch).sum((1, 2))
        vectors = self.looked_up(self.embedding, batch)
        pairs = 0.5 * (vectors.sum(1) ** 2 - (vectors**2).sum(1)).sum(1)
        x = vectors.flatten(1)
        for layer in self.mlp:
            x = functional.relu(layer(x))
        return first_order + pairs + self.output(x).squeeze(1)

    def loss(self, logits, batch):
        known = batch["labels"] >= 0
        target = batch["labels"].to(logits.dtype)
        return functional.binary_cross_entropy_with_logits(logits[known], target[known])
