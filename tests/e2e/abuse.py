"""What strangers do to a port: `abuse.py KIND PORT AUTHORIZATION`.

It writes a line once it is in full swing, and goes on until its input ends.
"""

from __future__ import annotations

import os
import resource
import select
import socket
import sys
from contextlib import ExitStack, suppress

ADDRESS = "127.0.0.2"
"""Where they come from: not where Prometheus does."""
CONNECTIONS = 10_000


def connect(port: int) -> socket.socket:
    """A connection from the strangers' address."""
    return socket.create_connection(("127.0.0.1", port), 5, source_address=(ADDRESS, 0))


def report() -> None:
    """Say that from now on it is as bad as it gets."""
    sys.stdout.write("\n")
    sys.stdout.flush()


def is_told_to_stop(seconds: float = 0.0) -> bool:
    """Whether the input has ended, within so many seconds."""
    return bool(select.select([sys.stdin], [], [], seconds)[0])


def idle(port: int, _authorization: bytes) -> None:
    """Ten thousand connections that say nothing."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            stack.enter_context(connect(port))
        report()
        is_told_to_stop(60)


def slow_loris(port: int, _: bytes) -> None:
    """Hundreds of requests that come in byte by byte."""
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(port)) for _ in range(300)]
        report()
        while not is_told_to_stop(0.02):
            for client in clients:
                with suppress(OSError):
                    client.send(b"G")


def huge_headers(port: int, _: bytes) -> None:
    """Headers of a mebibyte, one after the other."""
    report()
    while not is_told_to_stop():
        with connect(port) as client, suppress(OSError):
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 2**20)
            client.recv(1000)


def pipelined_garbage(port: int, authorization: bytes) -> None:
    """Good requests without a pause, whose answers nobody reads, and then noise."""
    request = b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: " + authorization + b"\r\n\r\n"
    report()
    while not is_told_to_stop():
        with connect(port) as client, suppress(OSError):
            client.settimeout(0.2)
            client.sendall(request * 200 + os.urandom(100_000))


def guesses(port: int, _: bytes) -> None:
    """Passwords, one after the other."""
    request = b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Basic YWxpY2U6eA==\r\n\r\n"
    report()
    while not is_told_to_stop():
        with connect(port) as client, suppress(OSError):
            client.sendall(request)
            client.recv(1000)


KINDS = {kind.__name__: kind for kind in (idle, slow_loris, huge_headers, pipelined_garbage, guesses)}

if __name__ == "__main__":
    KINDS[sys.argv[1]](int(sys.argv[2]), sys.argv[3].encode())
