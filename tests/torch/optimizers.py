# SPDX-License-Identifier: Apache-2.0
"""Optimizers and schedules by the engine's settings.

SGD and AdamW are PyTorch's. LAMB is algorithm 2 of arXiv 1904.00962 with phi(x) = x, LARS
algorithm 1 of arXiv 1708.03888; both take a ratio of 1 where a norm is 0. decay_1d and adapt_1d
say whether weight decay and the trust ratio hold for parameters of one dimension, too.
"""

import math

import torch

COMMON = {
    "kind": None,
    "lr": None,
    "weight_decay": 0.0,
    "decay_1d": True,
    "clip_norm": None,
    "accumulate": 1,
    "schedule": "constant",
    "warmup_steps": 0,
    "total_steps": None,
    "end_lr": 0.0,
    "power": 1.0,
}
ADAM = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01}
DEFAULTS = {
    "sgd": {"momentum": 0.0, "nesterov": False},
    "adamw": ADAM,
    "lamb": {**ADAM, "eps": 1e-6, "adapt_1d": True},
    "lars": {"momentum": 0.9, "trust": 0.001, "adapt_1d": True},
}


def complete(settings):
    """Settings with the defaults filled in; unknown or missing ones are refused."""
    kind = settings.get("kind")
    if kind not in DEFAULTS:
        raise ValueError("optimizer: kind %r; there are %s" % (kind, ", ".join(DEFAULTS)))
    known = {**COMMON, **DEFAULTS[kind]}
    for key in settings:
        if key not in known:
            there = ", ".join(known)
            raise ValueError("optimizer %s: no setting %r; there are %s" % (kind, key, there))
    full = {**known, **settings}
    if full["lr"] is None:
        raise ValueError("optimizer %s: lr is missing" % kind)
    if full["schedule"] not in ("constant", "cosine", "polynomial"):
        raise ValueError("optimizer: schedule must be constant, cosine or polynomial")
    if full["schedule"] != "constant" and not full["total_steps"]:
        raise ValueError("optimizer: schedule %s needs total_steps" % full["schedule"])
    return full


def learning_rate(settings, step):
    """Of one step, counted from 0: linear warm-up, then the schedule down to end_lr."""
    peak, end, warmup = settings["lr"], settings["end_lr"], settings["warmup_steps"]
    if step < warmup:
        return peak * (step + 1) / warmup
    if settings["schedule"] == "constant":
        return peak
    progress = min(1.0, (step - warmup) / max(settings["total_steps"] - warmup, 1))
    if settings["schedule"] == "cosine":
        return end + (peak - end) * 0.5 * (1 + math.cos(math.pi * progress))
    return end + (peak - end) * (1 - progress) ** settings["power"]


class Lamb(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                self.update(w, group, self.state[w])

    def update(self, w, group, state):
        beta1, beta2 = group["beta1"], group["beta2"]
        if not state:
            state.update(t=0, m=torch.zeros_like(w), v=torch.zeros_like(w))
        state["t"] += 1
        state["m"].mul_(beta1).add_(w.grad, alpha=1 - beta1)
        state["v"].mul_(beta2).addcmul_(w.grad, w.grad, value=1 - beta2)
        m = state["m"] / (1 - beta1 ** state["t"])
        v = state["v"] / (1 - beta2 ** state["t"])
        update = m / (v.sqrt() + group["eps"]) + group["weight_decay"] * w
        ratio = 1.0
        if group["adapt"] and w.norm() > 0 and update.norm() > 0:
            ratio = w.norm() / update.norm()
        w -= group["lr"] * ratio * update


class Lars(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                self.update(w, group, self.state[w])

    def update(self, w, group, state):
        if not state:
            state["v"] = torch.zeros_like(w)
        ratio, decay = 1.0, group["weight_decay"]
        if group["adapt"] and w.norm() > 0 and w.grad.norm() > 0:
            ratio = group["trust"] * w.norm() / (w.grad.norm() + decay * w.norm())
        state["v"].mul_(group["momentum"]).add_(group["lr"] * ratio * (w.grad + decay * w))
        w -= state["v"]


def new(parameters, settings):
    """The optimizer of completed settings."""
    parameters = list(parameters)
    groups = []
    for is_1d in (False, True):
        members = [p for p in parameters if (p.ndim == 1) == is_1d]
        decay = settings["weight_decay"] if settings["decay_1d"] or not is_1d else 0.0
        if members:
            adapt = not is_1d or settings.get("adapt_1d")
            groups.append({"params": members, "weight_decay": decay, "adapt": adapt})
    kind, lr = settings["kind"], settings["lr"]
    if kind == "sgd":
        return torch.optim.SGD(groups, lr, settings["momentum"], nesterov=settings["nesterov"])
    if kind == "adamw":
        betas = (settings["beta1"], settings["beta2"])
        return torch.optim.AdamW(groups, lr, betas, settings["eps"])
    return {"lamb": Lamb, "lars": Lars}[kind](groups, settings)


def train_step(model, batches, optimizer, settings, step):
    """One update from the mean gradient of some batches; returns their mean loss before it."""
    optimizer.zero_grad()
    total = 0.0
    for batch in batches:
        loss = model.loss(model(batch), batch) / len(batches)
        loss.backward()
        total += loss.item()
    if settings["clip_norm"] is not None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings["clip_norm"])
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(settings, step)
    optimizer.step()
    return total


def train(model, groups, optimizer, settings):
    """One step for each group of batches; returns the losses."""
    return [train_step(model, group, optimizer, settings, i) for i, group in enumerate(groups)]
