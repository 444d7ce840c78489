"""The controller's end of the agents' wire, against peers that do not keep to the protocol."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from websockets.exceptions import ConnectionClosed

from rota.api.door import agents as api_agents
from rota.api.door import server as api_server
from rota.controller.agents import links as controller_links
from rota.controller.agents.visit_lines import UNSEEN_BYTES_MAX, TerminalLine, TunnelLine
from rota.core.changes.invariants import check
from rota.core.facts.node import Device, ForeignUse, NodeSpec
from rota.rpc.frames import bodies_of, frame_of
from rota.rpc.messages import (
    PROTOCOL,
    Beat,
    CheckpointAnswer,
    DeviceUse,
    Hello,
    Observed,
    ReadBundle,
    Seen,
    SessionRefused,
    Sighting,
    Welcome,
    decode_to_agent,
    encode,
)
from rota.rpc.visits import LogPart, ReadLog, TerminalOutput, TunnelOutput
from tests.api.pretended import PretendedAgent, connect
from tests.api.running import WAIT_S, Caller, Running
from tests.network.traffic import HEAD_END, Recording, Vandal

CASES = int(os.environ.get("ROTA_FUZZ_CASES", "250"))
#: How long a case waits for the other side to end it; most are ended at once.
PATIENCE_S = 0.02
UPGRADE = (
    b"GET /api/v1/agent HTTP/1.1\r\nHost: rota\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
SPEC = NodeSpec("n", 1000, 100)


def others(session: int) -> list[bytes]:
    """What the recorded agent had no occasion to say."""
    use = (ForeignUse(0, 77, "eve", 100),)
    return [
        encode(message)
        for message in (
            Beat(session, 1),
            DeviceUse(session, use),
            LogPart(1, 0, b"text", 4),
            TerminalOutput(1, b"text"),
            CheckpointAnswer(1),
            ReadBundle(1, "0" * 64, 0),
        )
    ]


class Peer:
    """A connection on which anything can be said."""

    def __init__(self, socket_path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(WAIT_S)
        self.socket.connect(socket_path)
        self.socket.sendall(UPGRADE)
        self._unread = b""
        while HEAD_END not in self._unread:
            self._unread += self.socket.recv(1 << 16)
        self._unread = self._unread.partition(HEAD_END)[2]

    def say(self, body: bytes) -> None:
        self.socket.sendall(frame_of(body, masked=True))

    def welcome(self) -> int:
        """The number of the session; 0: the hello was refused."""
        while not (bodies := bodies_of(self._unread, masked=False, most=1 << 26)):
            chunk = self.socket.recv(1 << 16)
            if not chunk:
                return 0
            self._unread += chunk
        first = decode_to_agent(bodies[0])
        return first.session if isinstance(first, Welcome) else 0

    def finish(self, stream: bytes) -> None:
        """Say it, and listen until the other side has had enough, or a moment has passed."""
        try:
            self.socket.sendall(stream)
            self.socket.settimeout(PATIENCE_S)
            while self.socket.recv(1 << 16):
                pass
        except OSError:
            pass
        finally:
            self.socket.close()


def with_session(body: bytes, session: int, **changes: Any) -> bytes:
    """A recorded message as one of another session."""
    said = msgspec.msgpack.decode(body)
    if "session" in said:
        said["session"] = session
    return msgspec.msgpack.encode(said | changes)


def check_state(server: Running) -> None:
    """The invariants hold, asked in the thread that owns the state."""

    async def look() -> None:
        await server.host.on_disk()
        check(server.host.cluster)

    asyncio.run_coroutine_threadsafe(look(), server.loop).result(WAIT_S)


def spoil_one(server: Running, recording: Recording, seed: int) -> None:
    vandal = Vandal(seed)
    peer = Peer(server.socket_path)
    hello = msgspec.msgpack.decode(recording.from_agent[0])
    if vandal.chance.random() < 0.3:
        # Nothing runs on it: a node that really shrank may be over its capacity for a while.
        hello["node"]["name"] = f"new{seed}"
        peer.finish(frame_of(vandal.message(msgspec.msgpack.encode(hello)), masked=True))
        return
    hello["node"]["name"] = f"n{seed % 5}"
    hello["incarnation"] = f"i{seed % 5}"
    peer.say(msgspec.msgpack.encode(hello))
    session = peer.welcome()
    told = [with_session(item, session) for item in recording.from_agent[1:]]
    # Attempts that are really there: an end of theirs is believed.
    live = [encode(Observed(session, 2, (Seen(uid, Sighting.RUNNING, pid=9, started_s=1.0),)))
            for uid in list(server.host.cluster.live.where)[:1]]  # fmt: skip
    told = [told[0], *live, *told[1:], *others(session)]
    for _ in range(vandal.chance.randrange(1, 3)):
        told = vandal.session(told)
    peer.finish(vandal.frames(told, masked=True))


def test_spoilt_traffic_is_refused_and_neither_the_state_nor_other_agents_suffer(
    server: Running,
    caller: Caller,
    agent: PretendedAgent,
    recording: Recording,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    jobs = [caller.submit("sleep 100", resources={"cpus": 1}) for _ in range(8)]
    uid = agent.launched(jobs[0])
    agent.report_start(uid)

    for seed in range(CASES):
        spoil_one(server, recording, seed)
        check_state(server)

    assert [r for r in caplog.records if r.exc_info or r.levelno >= logging.ERROR] == []
    assert f"refused the agent at uid:{os.getuid()}:{os.getpid()}" in caplog.text
    agent.report_end(uid, 3)
    # On a connection of its own: the one of the beginning may have been idle for too long.
    assert server.local().until(jobs[0], "failed")["exit_code"] == 3


def refusal(socket_path: str, *bodies: bytes) -> tuple[str, str]:
    """What an agent that says this is told: in a message, and as the reason of the close."""
    told = ""
    with connect(socket_path) as connection:
        try:
            for body in bodies:
                connection.send(body)
            while True:
                message = decode_to_agent(connection.recv(timeout=WAIT_S))
                told = message.reason if isinstance(message, SessionRefused) else told
        except ConnectionClosed as closed:
            return told, closed.rcvd.reason if closed.rcvd is not None else ""


def hello(protocol: int = PROTOCOL, **spec: Any) -> bytes:
    return encode(Hello(protocol, msgspec.structs.replace(SPEC, **spec), "i", "boot", "test"))


def test_an_agent_of_another_version_is_told_both_versions_whatever_its_hello_looks_like(
    server: Running,
) -> None:
    strange = msgspec.msgpack.encode({"type": "hello", "protocol": 99, "machine": {"cores": 4}})

    known, _ = refusal(server.socket_path, hello(protocol=99))
    unknown, reason = refusal(server.socket_path, strange)

    expected = f"this controller speaks protocol {PROTOCOL}, the agent 99"
    assert known == unknown
    assert known.startswith(expected)
    assert reason.startswith(expected)


@pytest.mark.parametrize(
    ("bodies", "words"),
    [
        ([encode(Beat(1, 1))], "the hello comes first"),
        ([hello(), hello()], "a second hello on one connection"),
        ([hello(name="a/b")], "node.name: 'a/b' is not valid"),
        ([hello(name="")], "node.name: '' is not valid"),
        ([hello(cpu_milli=-1)], "node.cpu_milli: -1 is not valid; from 0"),
        ([hello(memory_mib=2**60)], "node.memory_mib: 1152921504606846976 is not valid"),
        ([hello(devices=(Device(1, "a"), Device(1, "b")))], "node.devices: [1, 1] is not valid"),
        ([hello(cpus=(0, 0))], "node.cpus: (0, 0) is not valid; different numbers from 0"),
        ([hello(), encode(Observed(1, 1, (Seen("u", Sighting.ENDED, ended_s=float("nan")),)))],
         "started_s, ended_s: (0.0, nan) is not valid"),
        ([hello(), encode(Observed(1, 1, (Seen("u", Sighting.ENDED, exit_code=2**63),)))],
         "exit_code: 9223372036854775808 is not valid"),
        ([hello(), encode(Observed(1, 1, (Seen("u", Sighting.RUNNING, pid=-5),)))],
         "pid: -5 is not valid"),
        ([hello(), encode(Observed(1, 1, (Seen("", Sighting.RUNNING),)))],
         "uid: '' is not valid; 1 to 255 characters"),
        ([hello(), encode(DeviceUse(1, (ForeignUse(0, -1, "eve", 1),)))],
         "foreign: (0, -1) is not valid"),
    ],
)  # fmt: skip
def test_what_cannot_be_true_is_refused_with_the_field_the_value_and_what_is_allowed(
    server: Running, bodies: list[bytes], words: str
) -> None:
    told, reason = refusal(server.socket_path, *bodies)

    assert told.startswith(words)
    assert reason.startswith(words[:100])


def test_a_message_that_claims_to_be_huge_is_refused_before_it_is_read(server: Running) -> None:
    peer = Peer(server.socket_path)
    peer.say(hello())
    assert peer.welcome()

    peer.socket.sendall(b"\x82\xff" + (2**40).to_bytes(8, "big") + bytes(4) + bytes(100))
    said = b""
    while chunk := peer.socket.recv(1 << 16):
        said += chunk
    peer.socket.close()

    assert b"frame with 1099511627776 bytes" in said


def test_an_agent_that_takes_nothing_off_its_connection_is_cut_off(
    server: Running, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_server, "UNSENT_BYTES_MAX", 1 << 20)
    peer = Peer(server.socket_path)
    peer.say(hello(cpu_milli=100_000))
    assert peer.welcome()

    for _ in range(40):
        caller.submit("true", env={"LARGE": "x" * 100_000}, resources={"cpus": 1})

    while (node := caller.get("/nodes/n").json)["state"] == "up":
        pass
    assert node["note"] == "its agent is not connected"
    peer.socket.close()


def test_a_connection_that_takes_nothing_ends_all_the_same_when_it_has_to(
    server: Running, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_agents, "CLOSE_S", 0.05)
    peer = Peer(server.socket_path)
    peer.say(hello(cpu_milli=100_000))
    assert peer.welcome()
    for _ in range(20):
        caller.submit("true", env={"LARGE": "x" * 100_000}, resources={"cpus": 1})

    server.loop.call_soon_threadsafe(server.host.links.hang_up_all)

    while (node := caller.get("/nodes/n").json)["state"] == "up":
        pass
    assert node["note"] == "its agent is not connected"
    peer.socket.close()


def test_an_agent_that_says_more_than_can_be_heard_is_cut_off(
    server: Running, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_links, "WAITING_BYTES_MAX", 10_000)
    peer = Peer(server.socket_path)
    peer.say(hello())
    session = peer.welcome()
    server.store.may_commit.clear()
    stalled = caller.connection
    stalled.request("POST", "/api/v1/jobs", b'{"command": "true"}')

    flood = b"".join(frame_of(encode(Beat(session, n)), masked=True) for n in range(2000))
    peer.socket.sendall(flood)
    said = b""
    while b"this agent says more than can be heard" not in said:
        chunk = peer.socket.recv(1 << 16)
        assert chunk, said
        said += chunk
    peer.socket.close()
    server.store.may_commit.set()

    assert stalled.getresponse().read()


class SlowAgent(PretendedAgent):
    """Lets something happen before it answers."""

    before: Callable[[ReadLog], None]

    def _read(self, message: ReadLog) -> None:
        self.before(message)
        super()._read(message)


def test_only_the_agent_that_was_asked_can_answer(server: Running, caller: Caller) -> None:
    asked = SlowAgent(server.socket_path)
    job = caller.submit("true")
    uid = asked.launched(job)
    asked.report_start(uid)
    asked.write(uid, b"the truth")
    with connect(server.socket_path) as other:
        other.send(hello())
        assert isinstance(decode_to_agent(other.recv(timeout=WAIT_S)), Welcome)

        def lie(message: ReadLog) -> None:
            other.send(encode(LogPart(message.request, 0, b"a lie", 5)))
            other.send(hello())  # It ends the connection, once the lie was heard.
            with suppress(ConnectionClosed):
                while other.recv(timeout=WAIT_S):
                    pass

        asked.before = lie
        answer = caller.get(f"/jobs/{job}/logs").body
    asked.close()

    assert answer == b"the truth"


@pytest.mark.parametrize(
    ("line", "output"), [(TerminalLine, TerminalOutput), (TunnelLine, TunnelOutput)]
)
def test_output_that_nobody_asked_for_ends_its_line_instead_of_filling_the_memory(
    line: Any, output: Any
) -> None:
    opened = line(1, 7, lambda _: None)

    for _ in range(1000):
        opened.heard(output(7, b"x" * 100_000))

    kept = [opened.output.get_nowait() for _ in range(opened.output.qsize())]
    assert sum(len(item.body) for item in kept) <= UNSEEN_BYTES_MAX
    assert kept[-1].over
    assert kept[-1].error == "the node's agent sends more than was asked for"
