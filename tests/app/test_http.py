"""The HTTP server over real sockets: good requests are answered, and bad ones hurt nobody else."""

from __future__ import annotations

import asyncio
import http.client
import logging
import os
import resource
import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

import pytest

from gpuledger.app import http as server_module
from gpuledger.app.http import MAX_CONNECTIONS, Handler, Request, Response, Server

HUGE = 64 * 2**20
"""More than two sockets' buffers hold."""


def hello(request: Request) -> Response:
    return Response(200, f"{request.method} {request.path}".encode())


def huge(_request: Request) -> Response:
    return Response(200, bytes(HUGE))


@dataclass(frozen=True)
class Running:
    """A server that listens on a free port of loopback, in a thread of its own."""

    server: Server
    loop: asyncio.AbstractEventLoop
    port: int

    def stop(self, grace: float) -> None:
        asyncio.run_coroutine_threadsafe(self.server.stop(grace), self.loop).result(10)


@contextmanager
def serving(handler: Handler = hello) -> Iterator[Running]:
    """Fails where the event loop met an exception that nobody caught."""
    loop, server, faults = asyncio.new_event_loop(), Server(handler), list[dict[str, Any]]()
    loop.set_exception_handler(lambda _loop, context: faults.append(context))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        (address,) = asyncio.run_coroutine_threadsafe(server.start("127.0.0.1", 0), loop).result(5)
        running = Running(server, loop, int(address.rpartition(":")[2]))
        yield running
        running.stop(grace=0.1)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()
    assert not faults


@dataclass(frozen=True)
class Reply:
    status: int
    headers: http.client.HTTPMessage
    body: bytes


class Client:
    """A connection that says exactly what it is told to."""

    def __init__(self, running: Running, *, receive_buffer: int = 0, address: str = "127.0.0.1") -> None:
        self.socket = socket.socket()
        self.socket.settimeout(5)
        self.socket.bind((address, 0))
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(("127.0.0.1", running.port))
        self._stream = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self.socket.close()

    def send(self, text: bytes) -> None:
        self.socket.sendall(text)

    def get(self, path: str = "/", *headers: str) -> Reply:
        self.send(request(path, *headers))
        return self.reply()

    def reply(self, *, to_head: bool = False) -> Reply:
        status = int(self._stream.readline().split()[1])
        headers = http.client.parse_headers(self._stream)
        return Reply(status, headers, b"" if to_head else self._stream.read(int(headers["Content-Length"])))

    def rest(self) -> bytes:
        """Everything up to the end of the connection."""
        return self._stream.read()

    def at_end(self) -> bool:
        """Whether the server closes without a further word."""
        return self.rest() == b""

    def is_cut_off(self, text: bytes) -> bool:
        """Whether nobody takes `text` any more."""
        try:
            self.send(text)
        except OSError:
            return True
        return False

    def reset(self) -> None:
        """Close so that the server sees a reset, not an end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.__exit__()


def request(path: str = "/", *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: node", *headers, "", ""]).encode()


@pytest.fixture
def running() -> Iterator[Running]:
    with serving() as running:
        yield running


@pytest.fixture
def client(running: Running) -> Iterator[Client]:
    with Client(running) as client:
        yield client


def test_an_answer_says_what_it_is(client: Client) -> None:
    reply = client.get("/metrics")

    assert (200, b"GET /metrics") == (reply.status, reply.body)
    assert {
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Length": "12",
        "X-Content-Type-Options": "nosniff",
    } == dict(reply.headers)


def test_a_handler_sees_method_path_and_headers() -> None:
    seen: list[Request] = []

    def look(request: Request) -> Response:
        seen.append(request)
        return Response(200, b"", headers={"X-Own": "kept"})

    with serving(look) as running, Client(running) as client:
        reply = client.get("/metrics?collect=all&x=/y", "ACCEPT: text/plain")

    assert "kept" == reply.headers["X-Own"]
    assert [Request("GET", "/metrics", {"host": "node", "accept": "text/plain"})] == seen


def test_a_connection_is_kept_for_the_next_request(client: Client) -> None:
    assert [b"GET /0", b"GET /1", b"GET /2"] == [client.get(f"/{number}").body for number in range(3)]


def test_requests_in_one_packet_are_answered_in_order(client: Client) -> None:
    client.send(request("/1") + request("/2") + request("/3", "Connection: close"))

    assert [b"GET /1", b"GET /2", b"GET /3"] == [client.reply().body for _ in range(3)]
    assert client.at_end()


def test_a_head_request_gets_the_head_alone(client: Client) -> None:
    client.send(request("/page", method="HEAD"))

    assert "10" == client.reply(to_head=True).headers["Content-Length"]
    assert b"GET /next" == client.get("/next").body


def test_a_client_of_http_1_0_is_answered_and_parted_from(client: Client) -> None:
    client.send(b"GET /old HTTP/1.0\r\n\r\n")

    assert b"GET /old" == client.reply().body
    assert client.at_end()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "BREW"])
def test_other_methods_are_refused_by_name(client: Client, method: str) -> None:
    client.send(request(method=method))
    reply = client.reply()

    assert (405, "GET, HEAD") == (reply.status, reply.headers["Allow"])


@pytest.mark.parametrize(
    ("method", "status"), [("POST", 405), ("GET", 200)], ids=["refused", "useless-but-allowed"]
)
def test_a_body_is_not_read_and_resets_no_answer(client: Client, method: str, status: int) -> None:
    client.send(request("/", "Content-Length: 1000000", method=method) + b"x" * 1_000_000)
    reply = client.reply()

    assert (status, "close") == (reply.status, reply.headers["Connection"])
    client.socket.shutdown(socket.SHUT_WR)
    assert client.at_end()


def test_a_malformed_body_ends_the_connection_after_the_answer(client: Client) -> None:
    client.send(request("/", "Transfer-Encoding: chunked") + b"no number\r\n\r\n")

    assert "close" == client.reply().headers["Connection"]
    assert client.at_end()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(bytes(range(256)) * 8 + b"\r\n\r\n", id="bytes"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\r\n\r\n", id="tls-client-hello"),
        pytest.param(b"GET\r\n\r\n", id="no-target"),
        pytest.param(b"GET / SPDY/1.1\r\nHost: node\r\n\r\n", id="another-protocol"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="no-host"),
        pytest.param(request("/", "no colon"), id="no-header"),
        pytest.param(request("/", "Content-Length: 1", "Content-Length: 2"), id="two-lengths"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: no", id="cut-off"),
    ],
)
def test_garbage_is_refused_and_hurts_nobody_else(running: Running, text: bytes) -> None:
    with Client(running) as client:
        client.send(text)
        client.socket.shutdown(socket.SHUT_WR)
        assert client.reply().status == 400
        assert client.at_end()
    with Client(running) as client:
        assert client.get().status == 200


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(request("/", "X: " + "x" * 2**20), id="a-long-header"),
        pytest.param(request("/", *[f"X-{number}: x" for number in range(80_000)]), id="many-headers"),
        pytest.param(request("/" + "x" * 2**20), id="a-long-path"),
    ],
)
def test_a_head_without_end_is_refused_before_it_is_all_there(client: Client, head: bytes) -> None:
    client.send(head)

    assert client.reply().status == 431
    client.socket.shutdown(socket.SHUT_WR)
    assert client.at_end()


@pytest.mark.parametrize(
    "start", [b"", request("/first")], ids=["on-a-new-connection", "behind-a-whole-request"]
)
def test_a_head_that_dribbles_in_is_cut_off(
    running: Running, monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    monkeypatch.setattr(server_module, "HEADER_SECONDS", 0.3)
    with Client(running) as client:
        began = time.monotonic()
        client.send(start + b"G")
        while not client.is_cut_off(b"x"):
            assert time.monotonic() - began < 2
            time.sleep(0.02)

        assert time.monotonic() - began >= 0.3


def test_a_connection_that_asks_for_nothing_is_closed_in_the_end(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "IDLE_SECONDS", 0.2)
    with Client(running) as silent, Client(running) as client:
        client.get()

        assert silent.at_end()
        assert client.at_end()


def test_sleepers_do_not_lock_a_newcomer_out(running: Running) -> None:
    with ExitStack() as stack:
        sleepers = [stack.enter_context(Client(running)) for _ in range(200)]
        for sleeper in sleepers[-MAX_CONNECTIONS:]:
            assert sleeper.get().status == 200

        assert stack.enter_context(Client(running)).get("/new").body == b"GET /new"
        assert all(sleeper.at_end() for sleeper in sleepers[: 200 - MAX_CONNECTIONS + 1])
        assert all(sleeper.get().status == 200 for sleeper in sleepers[200 - MAX_CONNECTIONS + 1 :])


def test_sleepers_cost_nobody_from_elsewhere_a_connection(running: Running, client: Client) -> None:
    client.get()
    with ExitStack() as stack:
        for _ in range(3 * MAX_CONNECTIONS):
            stack.enter_context(Client(running, address="127.0.0.2"))

        assert client.get("/still").body == b"GET /still"


def test_without_descriptors_it_waits_until_there_are_some_again(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    waiting = socket.socket()
    waiting.settimeout(10)
    with waiting:
        taken: list[int] = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        try:
            with suppress(OSError):
                while True:
                    taken.append(os.dup(waiting.fileno()))
            waiting.connect(("127.0.0.1", running.port))
            waiting.sendall(request("/patient"))
            until_logged(caplog, "cannot accept connections")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for each in taken:
                os.close(each)

        assert waiting.recv(1000).startswith(b"HTTP/1.1 200")


def until_logged(caplog: pytest.LogCaptureFixture, message: str) -> None:
    deadline = time.monotonic() + 5
    while message not in caplog.text:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_readers_that_do_not_read_do_not_lock_a_newcomer_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 3)
    with (
        serving(lambda asked: huge(asked) if asked.path == "/huge" else hello(asked)) as running,
        ExitStack() as stack,
    ):
        for _ in range(6):
            stack.enter_context(Client(running, receive_buffer=4096)).send(request("/huge"))

        assert stack.enter_context(Client(running)).get("/new").body == b"GET /new"


def test_a_reader_that_never_reads_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "SEND_SECONDS", 0.3)
    with serving(huge) as running, Client(running, receive_buffer=4096) as client:
        client.send(request())
        wait_until_nobody_is_connected(running.server)

        assert len(client.rest()) < HUGE


def test_a_client_that_neither_reads_nor_closes_is_parted_from_all_the_same(
    monkeypatch: pytest.MonkeyPatch, running: Running
) -> None:
    monkeypatch.setattr(server_module, "SEND_SECONDS", 0.3)
    with Client(running) as client:
        client.send(request("/", "Connection: close"))

        wait_until_nobody_is_connected(running.server)


def wait_until_nobody_is_connected(server: Server) -> None:
    deadline = time.monotonic() + 3
    while not server._open:
        time.sleep(0.01)
    while server._open:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_handler_that_raises_is_an_error_without_details(caplog: pytest.LogCaptureFixture) -> None:
    def fail(request: Request) -> Response:
        if request.path == "/bad":
            raise ValueError("secret")
        return hello(request)

    with serving(fail) as running, Client(running) as client:
        reply = client.get("/bad")

        assert (500, b"internal error; the log says more\n") == (reply.status, reply.body)
        assert client.get("/good").body == b"GET /good"
    assert ["no answer for /bad"] == [record.getMessage() for record in caplog.records]
    assert "secret" in caplog.text


@pytest.mark.parametrize("text", [b"", b"GET / HT", request()], ids=["at-once", "in-a-head", "at-the-answer"])
def test_a_client_that_resets_the_connection_is_no_event(
    running: Running, caplog: pytest.LogCaptureFixture, text: bytes
) -> None:
    for _ in range(5):
        client = Client(running)
        client.send(text)
        client.reset()

    with Client(running) as client:
        assert client.get().status == 200
    assert [] == [record for record in caplog.records if record.levelno > logging.DEBUG]


def test_many_clients_at_once_get_each_their_own_answer(running: Running) -> None:
    def ask(number: int) -> bool:
        with Client(running) as client:
            return all(client.get(f"/{number}/{n}").body == f"GET /{number}/{n}".encode() for n in range(20))

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(32)))


def test_a_long_pipeline_lets_others_in_between() -> None:
    def slow(request: Request) -> Response:
        time.sleep(0.02 if request.path == "/slow" else 0.0)
        return hello(request)

    with serving(slow) as running, Client(running) as greedy, Client(running) as other:
        greedy.send(request("/slow") * 50)
        began = time.monotonic()
        other.get()

        assert time.monotonic() - began < 0.5


def test_an_address_in_use_is_an_error(running: Running) -> None:
    with pytest.raises(OSError, match="in use"):
        asyncio.run(Server(hello).start("127.0.0.1", running.port))


def test_stopping_closes_the_idle_at_once_and_listens_no_more(running: Running, client: Client) -> None:
    client.get()
    began = time.monotonic()

    running.stop(grace=5)

    assert time.monotonic() - began < 1
    assert client.at_end()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", running.port))


def test_stopping_gives_a_slow_reader_its_grace_and_no_more() -> None:
    with serving(huge) as running, Client(running, receive_buffer=4096) as client:
        client.send(request())
        client.socket.recv(1)
        began = time.monotonic()

        running.stop(grace=0.3)

        assert 0.3 <= time.monotonic() - began < 1
        assert not running.server._open


def test_an_answer_under_way_is_finished_before_the_end() -> None:
    with serving(huge) as running:
        with Client(running) as client:
            client.send(request())
            client.socket.recv(1, socket.MSG_PEEK)
            stopping = threading.Thread(target=running.stop, args=(5.0,))
            stopping.start()

            assert len(client.reply().body) == HUGE
            assert client.at_end()
        stopping.join(1)
        assert not stopping.is_alive()
