# SPDX-License-Identifier: Apache-2.0
"""inner.py WHO BYTES: ranks of tests/guest/inner.yaml send so many bytes each, all at the same instant.
WHO: round (to the next rank of the node), one (to the node's first), across (to the same of the other
node), ping (single bytes, answered, to the next rank of the node, of rank 0 alone). Receivers say how fast."""
import os
import socket
import sys
import threading
import time

who, n_bytes = sys.argv[1], int(sys.argv[2])
rank = int(os.environ["RANK"])
node, local, size = rank // 3, int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
hosts = os.environ["LONGHAUL_HOSTS"].split()
begin = 12_000_000_000  # all have started long before, and the clock is one
PINGS = 5


def receive(server, t_ends):
    c = server.accept()[0]
    block = bytearray(4 << 20)
    while c.recv_into(block):
        pass
    t_ends.append(time.monotonic_ns())


def serve_pings(server):
    c = server.accept()[0]
    while c.recv(1):
        c.sendall(b"p")


def send(to):
    c = socket.create_connection((hosts[to], 7000))
    time.sleep((begin - time.monotonic_ns()) / 1e9)
    c.sendall(bytes(n_bytes))
    c.close()


def ping(to):
    c = socket.create_connection((hosts[to], 7000))
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(PINGS):
        time.sleep(0.01)
        t = time.monotonic_ns()
        c.sendall(b"p")
        c.recv(1)
        print("rtt_ns", time.monotonic_ns() - t)


if size == 1:
    sys.exit(0)
first = 3 * node
to = {"round": first + (local + 1) % 3, "one": first if local else None, "across": 3 * (1 - node) + local,
      "ping": 1 if rank == 0 else None}[who]
n_from = {"round": 1, "one": 2 if local == 0 else 0, "across": 1, "ping": 0}[who]
server = socket.create_server(("", 7000), backlog=8)
t_ends = []
threads = [threading.Thread(target=receive, args=(server, t_ends)) for _ in range(n_from)]
if who == "ping" and rank == 1:
    threads = [threading.Thread(target=serve_pings, args=(server,))]
for t in threads:
    t.start()
time.sleep(0.5)
if to is not None:
    (ping if who == "ping" else send)(to)
for t in threads:
    t.join()
if t_ends:
    print("bps", n_from * n_bytes * 8e9 / (max(t_ends) - begin))
