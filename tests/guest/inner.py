# SPDX-License-Identifier: Apache-2.0
"""inner.py WHO BYTES: ranks of tests/guest/inner.yaml send so many bytes each, all at the same instant, and
receivers say how fast. WHO: round (to the next rank of the node), one (to the node's first), across (to the
same of the other node, while rank 0 measures round trips to rank 3), ping (none; rank 0 measures them to rank 1)."""
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
GAP_S = 0.015


def receive(server, t_ends):
    c = server.accept()[0]
    block = bytearray(4 << 20)
    while c.recv_into(block):
        pass
    t_ends.append(time.monotonic_ns())


def answer(server):
    c = server.accept()[0]
    while c.recv(1):
        c.sendall(b"p")


def wait_for_begin():
    time.sleep((begin - time.monotonic_ns()) / 1e9)


def send(to):
    c = socket.create_connection((hosts[to], 7000))
    block = memoryview(bytes(4 << 20))
    wait_for_begin()
    for done in range(0, n_bytes, len(block)):
        c.sendall(block[:n_bytes - done])
    c.close()


def ping(to):
    c = socket.create_connection((hosts[to], 7001))
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    wait_for_begin()
    for _ in range(PINGS):
        time.sleep(GAP_S)
        t = time.monotonic_ns()
        c.sendall(b"p")
        c.recv(1)
        print("rtt_ns", time.monotonic_ns() - t)


if size == 1:
    sys.exit(0)
first = 3 * node
to = {"round": first + (local + 1) % 3, "one": first if local else None, "across": 3 * (1 - node) + local}.get(who)
n_from = {"round": 1, "one": 2 if local == 0 else 0, "across": 1, "ping": 0}[who]
pinged = {"across": 3, "ping": 1}.get(who)
servers = [socket.create_server(("", port), backlog=8) for port in (7000, 7001)]
t_ends = []
threads = [threading.Thread(target=receive, args=(servers[0], t_ends)) for _ in range(n_from)]
if rank == pinged:
    threads.append(threading.Thread(target=answer, args=(servers[1],)))
time.sleep(0.5)
if to is not None:
    threads.append(threading.Thread(target=send, args=(to,)))
if pinged and rank == 0:
    threads.append(threading.Thread(target=ping, args=(pinged,)))
for t in threads:
    t.start()
for t in threads:
    t.join()
if t_ends:
    print("bps", n_from * n_bytes * 8e9 / (max(t_ends) - begin))
