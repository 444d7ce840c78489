"""Nobody fills the memory of the controller or its table of connections with half of a thing."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

from tests.attacks.people import SOON_S, Person
from tests.attacks.test_freezing import resident_mib
from tests.journeys.box import Box, UnixConnection

SHAKE = (
    "GET {} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{}\r\n"
)
MIB = 1 << 20
#: What is kept for each of the connections below may weigh so much.
EACH_MIB = 4


@contextlib.contextmanager
def line_of(person: Person) -> Iterator[socket.socket]:
    local = UnixConnection(person.state / "rota.sock", SOON_S, person.user)
    local.connect()
    try:
        yield local.sock
    finally:
        local.close()


def _say(line: socket.socket, body: bytes) -> None:
    with contextlib.suppress(OSError):  # It may hang up at any word.
        line.sendall(body)


def test_messages_that_do_not_end_are_not_kept(town: Box, mallory: Person, alice: Person):
    job = mallory.job("exec sleep 300", pty=True)
    mallory.reach(job, "running")
    before = resident_mib(town.living("controller"))
    length = (60 * MIB).to_bytes(8, "big")

    with contextlib.ExitStack() as stack:
        ways = [f"/api/v1/jobs/{job}/{end}" for end in ("attach", "exec", "forward?port=80")]
        for way in (*ways, f"/web/terminal/{job}"):
            line = stack.enter_context(line_of(mallory))
            line.sendall(SHAKE.format(way, "").encode())
            assert b" 101 " in line.recv(4096)
            _say(line, bytes([0x82, 0xFF]) + length + bytes(4) + b"x" * (40 * MIB))

        alice.is_served_soon()
        assert resident_mib(town.living("controller")) - before < 4 * EACH_MIB + 32


def test_bodies_that_do_not_end_are_bounded_for_one_user(town: Box, mallory: Person, alice: Person):
    """Two of the largest are let in; the others are told to come one after the other."""
    head = f"POST /api/v1/jobs:batch HTTP/1.1\r\nHost: x\r\nContent-Length: {128 * MIB}\r\n\r\n"
    before = resident_mib(town.living("controller"))

    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(line_of(mallory)) for _ in range(5)]
        for line in lines:
            _say(line, head.encode() + b" " * (120 * MIB))
        answers = [_answer(line) for line in lines]

        alice.is_served_soon()
        assert resident_mib(town.living("controller")) - before < 450

    assert [b" 429 " in answer for answer in answers] == [False, False, True, True, True]


def _answer(line: socket.socket) -> bytes:
    line.settimeout(0.5)
    try:
        return line.recv(4096)
    except TimeoutError:
        return b""
    except OSError:
        return b"HTTP/1.1 429 hung up"


def test_a_shake_of_hands_that_cannot_be_understood_is_not_waited_for(mallory: Person):
    """By anybody: the sender need not have a name."""
    host, _, port = mallory.url.partition("://")[2].partition(":")
    more = [f"X-Long: {'x' * 9000}\r\n", "X: y\r\n" * 300, "Sec-WebSocket-Key: y\r\n"]
    for way in ("/api/v1/agent", "/api/v1/jobs/1/attach", "/web/terminal/1"):
        for header in more:
            with socket.create_connection((host, int(port)), SOON_S) as line:
                line.sendall(SHAKE.format(way, header).encode())
                heard = b""
                with contextlib.suppress(ConnectionResetError):
                    while part := line.recv(4096):  # To its end, which comes by itself.
                        heard += part

                assert b" 101 " not in heard.partition(b"\r\n")[0] or b"token" in heard


def test_answers_that_nobody_reads_are_bounded(town: Box, mallory: Person, alice: Person):
    jobs = [{"command": ["true", "x" * 60_000], "hold": True} for _ in range(200)]
    assert mallory.api("POST", "/jobs:batch", {"jobs": jobs})[0] == 201
    before = resident_mib(town.living("controller"))

    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(line_of(mallory)) for _ in range(150)]
        for line in lines:
            line.settimeout(60)
            line.sendall(b"GET /api/v1/jobs?limit=200 HTTP/1.1\r\nHost: x\r\n\r\n")
        heads = [line.recv(12) for line in lines]

        alice.is_served_soon()
        assert resident_mib(town.living("controller")) - before < 800

    assert (heads[0], heads[-1]) == (b"HTTP/1.1 200", b"HTTP/1.1 429")
    assert mallory.api("GET", "/jobs?limit=200")[0] == 200


#: As many connections as one process may have, each with a question that is answered for ever.
EXHAUST = """
import resource, socket, sys
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
held, refused = [], 0
for _ in range(min(most - 50, 21_000)):
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(20)
    try:
        line.connect(sys.argv[1])
        line.sendall(b"GET /api/v1/events HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
        held.append(line)
    except OSError:
        refused += 1
print("all there", len(held), refused, flush=True)
sys.stdin.read()
"""


def test_connections_without_number_of_one_user_keep_nobody_out(
    town: Box, mallory: Person, alice: Person
):
    controller = town.living("controller")
    before = len(os.listdir(f"/proc/{controller}/fd"))

    with mallory.busy(EXHAUST, str(mallory.state / "rota.sock")):
        alice.is_served_soon()
        held = len(os.listdir(f"/proc/{controller}/fd")) - before
        refused = mallory.asks("GET", "/api/v1/jobs")
        town.api("GET", "/status")
        nodes = {node["state"] for node in town.api("GET", "/nodes")[1]["items"]}

    assert held < 700
    assert refused[0] == 429
    assert b"allowed are 500 at one time (limits.connections)" in refused[1]
    assert nodes == {"up"}
    said = (town.state / "controller.log").read_text()
    assert f"uid:{mallory.uid} is refused: connections: " in said
