# SPDX-License-Identifier: Apache-2.0
"""transfer.py BYTES PINGS: the node west/0 sends so many bytes to east/0 over one connection,
then so many single bytes, each answered, over another. It says what it has sent and how fast."""
import json
import os
import socket
import sys
import time

n_bytes, n_pings = map(int, sys.argv[1:])
node = os.environ["LONGHAUL_NODE"]


def receive(port):
    with socket.create_server(("", port), backlog=1) as server:
        return server.accept()[0]


if node == "east/0":
    with receive(7000) as c:
        while c.recv(1 << 20):
            pass
    with receive(7001) as c:
        while c.recv(1):
            c.sendall(b"p")
elif node == "west/0":
    time.sleep(1)
    begin = time.monotonic_ns()
    with socket.create_connection(("east-0", 7000)) as c:
        c.sendall(bytes(n_bytes))
        c.shutdown(socket.SHUT_WR)
        c.recv(1)
    duration = time.monotonic_ns() - begin
    time.sleep(1)
    with socket.create_connection(("east-0", 7001)) as c:
        c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(n_pings):
            c.sendall(b"p")
            c.recv(1)
    print(json.dumps({"sent_bytes": n_bytes, "duration_ns": duration, "bps": n_bytes * 8e9 / duration}))
