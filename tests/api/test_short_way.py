"""Submits that came whole are answered the short way; the caller cannot tell the difference."""

import fcntl
import json
import socket
import struct
import termios
import time
from collections.abc import Callable

import pytest

from rota.api import errors
from rota.api.door import server as server_module
from rota.api.door.short_way import whole_submit
from tests.api.running import WAIT_S, Running, running

BODY = b'{"command": ["true"]}'
LINE = b"POST /api/v1/jobs HTTP/1.1\r\n"
PLAIN = LINE + b"Host: x\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY


def with_field(field: bytes) -> bytes:
    return PLAIN.replace(b"Host: x", b"Host: x\r\n" + field)


def test_a_plain_submit_is_read_with_the_headers_that_matter():
    sent = with_field(b"IDEMPOTENCY-key:  k1 \r\nConnection: Keep-Alive\r\nAuthorization: Bearer t")

    assert whole_submit(sent) == (
        [(b"idempotency-key", b"k1"), (b"authorization", b"Bearer t")],
        BODY,
    )


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        PLAIN[:-1],
        PLAIN[:40],
        PLAIN + b"x",
        PLAIN + PLAIN,
        PLAIN.replace(b"POST", b"PUT"),
        PLAIN.replace(b"/jobs", b"/jobs:batch"),
        PLAIN.replace(b"/jobs", b"/jobs?x=1"),
        PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0"),
        PLAIN.replace(b"Content-Length", b"Content-Len"),
        PLAIN.replace(b"Content-Length: ", b"Content-Length: +"),
        PLAIN.replace(b"Content-Length: ", b"Content-Length: " + b"9" * 5000),
        PLAIN.replace(b"Host: x\r\n", b"Host: x\nTransfer-Encoding: chunked\r\n"),
        with_field(b"Transfer-Encoding: chunked"),
        with_field(b"Content-Length: 3"),
        with_field(b"Expect: 100-continue"),
        with_field(b"Connection: close"),
        with_field(b"Connection: Upgrade\r\nUpgrade: websocket"),
        with_field(b" folded: line"),
        with_field(b"Host : x"),
        with_field(b"Accept"),
        with_field(b"Accept: x\rTransfer-Encoding: chunked"),
        with_field(b"Authorization: Bearer a\0b"),
    ],
)
def test_anything_else_goes_the_long_way(sent):
    assert whole_submit(sent) is None


class Line:
    """A connection on which a test says exactly which bytes go out, and when."""

    def __init__(self, server: Running) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(WAIT_S)
        self._socket.connect(server.socket_path)
        self._read = self._socket.makefile("rb")

    def send(self, sent: bytes) -> None:
        self._socket.sendall(sent)

    def answer(self) -> tuple[int, dict[str, object]]:
        status = int(self._read.readline().split()[1])
        length = 0
        while (field := self._read.readline()) != b"\r\n":
            name, _, value = field.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        return status, json.loads(self._read.read(length))

    def is_heard(self) -> bool:
        """Whether the server takes what was sent, and does not leave it lying for a while."""
        deadline_s = time.monotonic() + 0.3
        while struct.unpack("i", fcntl.ioctl(self._socket, termios.TIOCOUTQ, b"    "))[0]:
            if time.monotonic() > deadline_s:
                return False
        return True

    def is_over(self) -> bool:
        return self._read.read(1) == b""

    def close(self) -> None:
        self._read.close()
        self._socket.close()


def until(answer: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not answer():
        assert time.monotonic() < deadline_s, f"waited in vain for {what}"
        time.sleep(0.001)


def await_job(server: Running) -> None:
    """Until a submit has been taken; its commit may be held up."""
    until(lambda: server.host.cluster.jobs, "the submit to be taken")


@pytest.fixture
def line(server: Running):
    opened = Line(server)
    yield opened
    opened.close()


def test_requests_that_come_before_the_answer_are_answered_in_their_order(server, line):
    server.store.may_commit.clear()
    line.send(PLAIN)
    await_job(server)
    line.send(PLAIN + b"GET /api/v1/jobs/2 HTTP/1.1\r\nHost: x\r\n\r\n")
    line.send(PLAIN)

    server.store.may_commit.set()
    answers = [line.answer() for _ in range(4)]

    assert [status for status, _ in answers] == [201, 201, 200, 201]
    assert [body["id"] for _, body in answers] == [1, 2, 2, 3]


def test_a_request_in_pieces_and_a_whole_one_share_a_connection(line):
    line.send(PLAIN[:50])
    line.send(PLAIN[50:])
    first = line.answer()
    line.send(PLAIN)
    second = line.answer()

    assert (first[1]["id"], second[1]["id"]) == (1, 2)


def test_what_is_refused_is_a_problem_and_the_connection_goes_on(line):
    bad = PLAIN.replace(BODY, b'{"command": ["true"]x')

    line.send(bad)
    refused = line.answer()
    line.send(PLAIN)

    assert refused[0] == 400
    assert refused[1]["status"] == 400
    assert line.answer()[0] == 201


def test_what_breaks_is_not_waited_for(line, monkeypatch):
    def broken(_problem: object) -> bytes:
        raise RuntimeError("the words fail us")

    monkeypatch.setattr(errors, "encode_problem", broken)
    line.send(PLAIN.replace(BODY, b'{"command": ["true"]x'))

    assert line.is_over()


def test_a_submit_that_comes_while_one_is_at_work_is_answered_too(server, line):
    server.store.may_commit.clear()
    line.send(PLAIN)
    await_job(server)

    line.send(PLAIN)
    server.store.may_commit.set()

    assert [line.answer()[0] for _ in range(2)] == [201, 201]


def test_a_token_that_is_not_valid_is_refused(line):
    line.send(with_field(b"Authorization: Bearer nonsense"))

    status, problem = line.answer()

    assert (status, problem["code"]) == (401, "unauthenticated")


def test_a_caller_who_takes_no_answers_is_not_heard_any_more(line):
    refused = with_field(b"Authorization: Bearer nonsense")

    def send() -> bool:
        line.send(refused)
        return line.is_heard()

    assert not all(send() for _ in range(5000))
    assert line.answer()[0] == 401


def test_a_caller_who_hangs_up_early_leaves_his_job_and_no_trouble(server, line):
    server.store.may_commit.clear()
    line.send(PLAIN)
    await_job(server)
    line.close()

    server.store.may_commit.set()

    assert server.local().job(1)["state"] == "queued"


def test_a_submit_that_is_under_way_is_answered_before_the_server_stops(socket_folder):
    with running(socket_folder) as server:
        line = Line(server)
        server.store.may_commit.clear()
        line.send(PLAIN)
        await_job(server)

        server.begin_stop()
        until(server.context.closing.is_set, "the server to begin to stop")
        server.store.may_commit.set()

        assert line.answer()[0] == 201
        assert line.is_over()
        line.close()


KEEP_ALIVE_S = 0.3
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


def is_open_after_use(line: Line) -> bool:
    """Use it for longer than it may be idle, the long way and the short one.

    One that is closed meanwhile must have been idle for too long: the machine stood still.
    """
    began_s = asked_s = time.monotonic()
    while asked_s < began_s + 2 * KEEP_ALIVE_S:
        for request, status in ((PLAIN, 201), (HEALTH, 200)):
            before_s, asked_s = asked_s, time.monotonic()
            try:
                line.send(request)
                answer = line.answer()
            except (OSError, IndexError):
                assert time.monotonic() - before_s >= KEEP_ALIVE_S, "closed although it was in use"
                return False
            assert answer[0] == status
    return True


@pytest.mark.slow
def test_a_connection_that_nobody_uses_is_closed_and_one_in_use_is_not(socket_folder, monkeypatch):
    monkeypatch.setattr(server_module, "KEEP_ALIVE_S", KEEP_ALIVE_S)
    with running(socket_folder) as server:
        line = Line(server)
        while not is_open_after_use(line):
            line.close()
            line = Line(server)

        assert line.is_over()
        line.close()
