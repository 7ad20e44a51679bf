#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small model with PyTorch's DistributedDataParallel over Gloo, one rank in each node of
`longhaul exec --all`. A step stands for a fixed computing time by sleeping. Rank 0 prints every
loss, and samples per second.
"""
import json
import os
import time

import torch
import torch.distributed as dist

PARAMETERS = int(os.environ.get("PARAMETERS", "1000000"))
STEPS = int(os.environ.get("STEPS", "10"))
BATCH = 64
STEP_S = 0.5


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1000, PARAMETERS // 1000, bias=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    draws = torch.Generator().manual_seed(1 + dist.get_rank())
    losses, begin = [], time.monotonic()
    for _ in range(STEPS):
        x = torch.randn(BATCH, 1000, generator=draws)
        time.sleep(STEP_S)
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    took = time.monotonic() - begin
    if dist.get_rank() == 0:
        samples = STEPS * BATCH * dist.get_world_size()
        print(json.dumps({"losses": losses, "seconds": round(took, 3), "samples_per_s": round(samples / took, 2)}),
              flush=True)
    dist.barrier()
    # Gloo polls without sleeping once a peer is gone: all end at one instant
    time.sleep(20 - time.time() % 10)


if __name__ == "__main__":
    main()
