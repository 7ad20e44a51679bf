#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training in a hundred lines, of the standard library alone: each rank fits a
line to samples of its own, and all average their gradients round a ring (reduce-scatter, then
all-gather). It knows nothing of longhaul: it takes the variables that launchers set.

Computing is a sleep, as CPU work takes no time in virtual time; the vector that travels is as
long as a real model's gradients, and its first two numbers are the line's.
"""
import array
import os
import random
import socket
import threading
import time

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
HOSTS = os.environ["LONGHAUL_HOSTS"].split()
PORT = int(os.environ["MASTER_PORT"])
EPOCHS, BATCH = 5, 256  # samples of each rank in an epoch
NUMBERS = int(os.environ.get("NUMBERS", "2000000"))  # of the vector: 8 MB


def connect():
    """A connection to the next rank and one from the rank before."""
    server = socket.create_server(("", PORT))
    while True:
        try:
            after = socket.create_connection((HOSTS[(RANK + 1) % WORLD], PORT))
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    before, _ = server.accept()
    return before, after


def exchange(before, after, chunk):
    """Sends a chunk on and returns as much as comes from before, both at the same time."""
    into = array.array("f", bytes(4 * len(chunk)))
    view = memoryview(into).cast("B")
    sender = threading.Thread(target=after.sendall, args=(chunk,))
    sender.start()
    while len(view):
        n = before.recv_into(view, 0, socket.MSG_WAITALL)
        if n == 0:
            raise ConnectionError("the rank before has gone")
        view = view[n:]
    sender.join()
    return into


def average(before, after, vector):
    """Averages the vector over all ranks, in place. Chunks are equally long."""
    n = len(vector) // WORLD
    for step in range(2 * (WORLD - 1)):
        reduces = step < WORLD - 1
        i = (RANK - step + (0 if reduces else WORLD)) % WORLD
        j = (i - 1) % WORLD
        chunk = exchange(before, after, vector[i * n : (i + 1) * n])
        if reduces and j == 0:  # only the line's numbers are added up: the rest is ballast
            for k in range(2):
                chunk[k] += vector[k]
        vector[j * n : (j + 1) * n] = chunk
    for k in range(2):
        vector[k] /= WORLD


def main():
    random.seed(RANK)
    before, after = connect() if WORLD > 1 else (None, None)
    slope, offset = 0.0, 0.0
    vector = array.array("f", bytes(4 * (NUMBERS // WORLD * WORLD)))
    for epoch in range(EPOCHS):
        time.sleep(2.0)  # computing
        loss, vector[0], vector[1] = 0.0, 0.0, 0.0
        for _ in range(BATCH):
            x = random.uniform(-1, 1)
            error = slope * x + offset - (3 * x - 1 + random.gauss(0, 0.1))
            loss += error * error / BATCH
            vector[0] += 2 * error * x / BATCH
            vector[1] += 2 * error / BATCH
        if WORLD > 1:
            average(before, after, vector)
        slope, offset = slope - 0.5 * vector[0], offset - 0.5 * vector[1]
        print(f"epoch {epoch}: {BATCH} samples, loss {loss:.4f}", flush=True)


main()
