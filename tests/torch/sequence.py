# SPDX-License-Identifier: Apache-2.0
"""Transformers: RoBERTa and XLM-R, GPT-2, Whisper.

Sources: RoBERTa, arXiv 1907.11692; XLM-R, arXiv 1911.02116; GPT-2, Radford et al. 2019; Whisper,
arXiv 2212.04356.
"""

import math

import torch
from torch import nn
from torch.nn import functional

from classifier import Classifier


class Attention(nn.Module):
    """Multi-head attention; memory: what keys and values are made of, where not of x itself."""

    fused = False  # PyTorch's one-call form, where the version has it

    def __init__(self, width, heads, key_bias=True, dropout=0.0):
        super().__init__()
        if width % heads:
            raise ValueError("a width of %d does not divide into %d heads" % (width, heads))
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=key_bias)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)
        self.heads, self.dropout = heads, dropout

    def split(self, x):
        return x.unflatten(2, (self.heads, x.shape[2] // self.heads)).transpose(1, 2)

    def forward(self, x, memory=None, causal=False):
        memory = x if memory is None else memory
        query = self.split(self.query(x))
        key, value = self.split(self.key(memory)), self.split(self.value(memory))
        dropout = self.dropout if self.training else 0.0
        if self.fused:
            attend = functional.scaled_dot_product_attention
            mixed = attend(query, key, value, dropout_p=dropout, is_causal=causal)
        else:
            scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[3])
            if causal:
                later = torch.ones(scores.shape[2:], dtype=torch.bool, device=x.device).triu(1)
                scores = scores.masked_fill(later, -math.inf)
            mixed = functional.dropout(scores.softmax(3), dropout) @ value
        return self.output(mixed.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, width, inner, gelu="none"):
        super().__init__()
        self.up = nn.Linear(width, inner)
        self.down = nn.Linear(inner, width)
        self.gelu = gelu

    def forward(self, x):
        return self.down(functional.gelu(self.up(x), approximate=self.gelu))


class PostNormLayer(nn.Module):
    """Normalises after each residual sum, as BERT does."""

    def __init__(self, width, heads, inner, dropout):
        super().__init__()
        self.attention = Attention(width, heads, dropout=dropout)
        self.attention_norm = nn.LayerNorm(width, eps=1e-5)
        self.mlp = Mlp(width, inner)
        self.mlp_norm = nn.LayerNorm(width, eps=1e-5)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = self.attention_norm(x + self.dropout(self.attention(x)))
        return self.mlp_norm(x + self.dropout(self.mlp(x)))


class RobertaEmbeddings(nn.Module):
    """Positions count from 2: rows 0 and 1 of the table exist and stay unused."""

    first_position = 2

    def __init__(self, vocab, positions, width, dropout):
        super().__init__()
        self.word = nn.Embedding(vocab, width)
        self.position = nn.Embedding(positions, width)
        self.token_type = nn.Embedding(1, width)
        self.norm = nn.LayerNorm(width, eps=1e-5)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens):
        position = torch.arange(tokens.shape[1], device=tokens.device) + self.first_position
        x = self.word(tokens) + self.position(position) + self.token_type.weight[0]
        return self.dropout(self.norm(x))


class RobertaHead(nn.Module):
    """The decoder's matrix is the word embedding; its bias is the head's own."""

    def __init__(self, vocab, width):
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width, eps=1e-5)
        self.bias = nn.Parameter(torch.empty(vocab))

    def forward(self, x, words):
        return functional.linear(self.norm(functional.gelu(self.dense(x))), words, self.bias)


class Roberta(Classifier):
    """A masked language model; sequences are full: there is no padding and no mask."""

    def __init__(
        self, vocab=50265, positions=514, width=768, layers=12, heads=12, inner=3072, dropout=0.1
    ):
        super().__init__()
        self.embeddings = RobertaEmbeddings(vocab, positions, width, dropout)
        stack = [PostNormLayer(width, heads, inner, dropout) for _ in range(layers)]
        self.layers = nn.ModuleList(stack)
        self.head = RobertaHead(vocab, width)

    def forward(self, batch):
        x = self.embeddings(batch["tokens"])
        for layer in self.layers:
            x = layer(x)
        return self.head(x, self.embeddings.word.weight)


class PreNormLayer(nn.Module):
    """Normalises what enters each branch; with cross_attention a decoder's layer of Whisper."""

    def __init__(
        self, width, heads, inner, dropout=0.0, gelu="none", key_bias=True, cross_attention=False
    ):
        super().__init__()
        self.attention_norm = nn.LayerNorm(width, eps=1e-5)
        self.attention = Attention(width, heads, key_bias, dropout)
        if cross_attention:
            self.cross_norm = nn.LayerNorm(width, eps=1e-5)
            self.cross = Attention(width, heads, key_bias, dropout)
        self.mlp_norm = nn.LayerNorm(width, eps=1e-5)
        self.mlp = Mlp(width, inner, gelu)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, memory=None, causal=False):
        x = x + self.dropout(self.attention(self.attention_norm(x), causal=causal))
        if memory is not None:
            x = x + self.dropout(self.cross(self.cross_norm(x), memory))
        return x + self.dropout(self.mlp(self.mlp_norm(x)))


class Gpt2(Classifier):
    """labels[t] is the token after tokens[t]: the batch is shifted already."""

    def __init__(
        self, vocab=50257, positions=1024, width=768, layers=12, heads=12, inner=3072, dropout=0.1
    ):
        super().__init__()
        self.token = nn.Embedding(vocab, width)
        self.position = nn.Embedding(positions, width)
        stack = [PreNormLayer(width, heads, inner, dropout, "tanh") for _ in range(layers)]
        self.layers = nn.ModuleList(stack)
        self.norm = nn.LayerNorm(width, eps=1e-5)
        self.dropout = nn.Dropout(dropout)

    def forward(self, batch):
        tokens = batch["tokens"]
        x = self.dropout(self.token(tokens) + self.position.weight[: tokens.shape[1]])
        for layer in self.layers:
            x = layer(x, causal=True)
        return functional.linear(self.norm(x), self.token.weight)


class WhisperEncoder(nn.Module):
    def __init__(self, mels, positions, width, layers, heads):
        super().__init__()
        self.conv1 = nn.Conv1d(mels, width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.position = nn.Embedding(positions, width)
        stack = [PreNormLayer(width, heads, 4 * width, key_bias=False) for _ in range(layers)]
        self.layers = nn.ModuleList(stack)
        self.norm = nn.LayerNorm(width, eps=1e-5)

    def forward(self, frames):
        # transposed before GELU: with a contiguous input and a strided gradient the backward
        # pass of PyTorch 1.13's GELU returns garbage
        x = self.conv2(functional.gelu(self.conv1(frames))).transpose(1, 2)
        x = functional.gelu(x)
        x = x + self.position.weight[: x.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class WhisperDecoder(nn.Module):
    def __init__(self, vocab, positions, width, layers, heads):
        super().__init__()
        self.token = nn.Embedding(vocab, width)
        self.position = nn.Embedding(positions, width)
        options = {"key_bias": False, "cross_attention": True}
        stack = [PreNormLayer(width, heads, 4 * width, **options) for _ in range(layers)]
        self.layers = nn.ModuleList(stack)
        self.norm = nn.LayerNorm(width, eps=1e-5)

    def forward(self, tokens, memory):
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x, memory, causal=True)
        return functional.linear(self.norm(x), self.token.weight)


class Whisper(Classifier):
    """frames: log-mel, N x mels x T, T at most twice frame_positions; positions are trained."""

    def __init__(
        self,
        vocab=51865,
        mels=80,
        frame_positions=1500,
        positions=448,
        width=384,
        layers=4,
        heads=6,
    ):
        super().__init__()
        self.encoder = WhisperEncoder(mels, frame_positions, width, layers, heads)
        self.decoder = WhisperDecoder(vocab, positions, width, layers, heads)

    def forward(self, batch):
        return self.decoder(batch["tokens"], self.encoder(batch["frames"]))
