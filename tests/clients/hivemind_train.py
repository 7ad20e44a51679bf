#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small model with hivemind.Optimizer, one peer in each node of `longhaul exec --all`.

Rank 0 gives the others its address over TCP at MASTER_PORT; everything else is Hivemind's: DHT,
progress, matchmaking, averaging of gradients. A step stands for a fixed computing time by
sleeping. Prints a JSON line per epoch, then the peer's throughput as Hivemind measures it; rank 0
that of the group, too.
"""
import json
import os
import socket
import sys
import time

import hivemind
import torch

PARAMETERS = int(os.environ.get("PARAMETERS", "1000000"))
EPOCHS = int(os.environ.get("EPOCHS", "3"))
TARGET_BATCH = 512
BATCH = 16
STEP_S = 0.25

# Its sockets have random names in /tmp, which in a guest are the same each time; /dev/shm is the
# node's own and new in every run.
hivemind.p2p.P2P._UNIX_SOCKET_PREFIX = "/unix/dev/shm/hivemind-"

rank, n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
name = os.environ["LONGHAUL_NODE"]
own_address = socket.gethostbyname(socket.gethostname())


def connect(port):
    while True:
        try:
            return socket.create_connection((os.environ["MASTER_ADDR"], port))
        except OSError:
            time.sleep(0.5)


def wait_for_all(port, said=""):
    """Everybody comes here; returns what rank 0 says."""
    if rank:
        with connect(port) as master:
            return master.makefile().read()
    with socket.create_server(("", port)) as server:
        peers = [server.accept()[0] for _ in range(n - 1)]
    for peer in peers:
        peer.sendall(said.encode())
        peer.close()
    return said


def start_dht(port):
    own = [f"/ip4/{own_address}/tcp/0"]
    if rank == 0:
        dht = hivemind.DHT(start=True, host_maddrs=own)
        wait_for_all(port, "\n".join(map(str, dht.get_visible_maddrs())))
        return dht
    return hivemind.DHT(start=True, host_maddrs=own, initial_peers=wait_for_all(port).split())


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    port = int(os.environ["MASTER_PORT"])
    dht = start_dht(port)
    model = torch.nn.Linear(1000, PARAMETERS // 1000, bias=False)
    optimizer = hivemind.Optimizer(
        dht=dht, run_id="clients", target_batch_size=TARGET_BATCH, batch_size_per_step=BATCH,
        optimizer=lambda params: torch.optim.SGD(params, lr=1e-3), params=model.parameters(),
        matchmaking_time=5.0, averaging_timeout=60.0, next_chunk_timeout=30.0,
        averager_opts={"target_group_size": n, "request_timeout": 1.0},
        grad_compression=hivemind.compression.Float16Compression(),
        tracker_opts={"min_refresh_period": 0.5, "default_refresh_period": 1.0},
        verbose=True, # says how many took part in each average
    )
    x = torch.ones(BATCH, 1000) * (1 + rank) / n
    wait_for_all(port + 1)
    start = begin = time.monotonic()
    epoch, samples = 0, 0
    while optimizer.local_epoch < EPOCHS:
        time.sleep(STEP_S)
        model(x).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        samples += BATCH
        if optimizer.local_epoch != epoch:
            epoch, now = optimizer.local_epoch, time.monotonic()
            print(json.dumps({"node": name, "epoch": epoch, "wall_s": round(now - begin, 3),
                              "own_samples": samples,
                              "peers": optimizer.tracker.global_progress.num_peers}), flush=True)
            begin, samples = now, 0
    said = {"node": name, "samples_per_s": round(optimizer.tracker.performance_ema.samples_per_second, 1)}
    if rank == 0:
        said["group_samples_per_s"] = round(EPOCHS * TARGET_BATCH / (time.monotonic() - start), 1)
    print(json.dumps(said), flush=True)
    wait_for_all(port + 2)
    optimizer.shutdown()
    dht.shutdown()


if __name__ == "__main__":
    sys.exit(main())
