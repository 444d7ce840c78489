"""The agents' WebSocket: who may connect, and what garbage does."""

import os
import time
from collections.abc import Callable

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection

from rota.core.facts.node import NodeSpec
from rota.rpc.frames import frame_of
from rota.rpc.messages import (
    PROTOCOL,
    Desired,
    Hello,
    Observed,
    Seen,
    Sighting,
    Welcome,
    decode_to_agent,
    encode,
)
from tests.api.pretended import PretendedAgent, connect
from tests.api.running import WAIT_S, Caller, Running


def hello(name: str = "n", protocol: int = PROTOCOL, incarnation: str = "i") -> bytes:
    spec = NodeSpec(name=name, cpu_milli=1000, memory_mib=100)
    return encode(Hello(protocol, spec, incarnation, "boot", "test"))


def test_an_agent_registers_and_leaves(server: Running, caller: Caller) -> None:
    agent = PretendedAgent(server.socket_path, cpus=3)

    node = caller.get("/nodes/box").json
    assert (node["state"], node["total"]["cpus"]) == ("up", 3)
    assert caller.get("/status").json["agent"] == {"pid": os.getpid(), "node": "box"}

    agent.close()
    while (node := caller.get("/nodes/box").json)["state"] == "up":
        pass
    assert node["note"] == "its agent is not connected"


@pytest.mark.parametrize(
    "frames",
    [
        [b"\xff\xff garbage"],
        [b""],
        ["text instead of bytes"],
        [os.urandom(5000)],
        [hello(), b"\x81\xa4type\xa5hello"],
        [hello(), b"\x93\x01\x02\x03"],
        [encode(Observed(1, 1, ()))],
        [hello(), encode(Observed(12345, 99, ()))],
        [hello(protocol=99)],
        [b"\xdc\xff\xff" * 1000],
    ],
)
def test_garbage_ends_the_connection_and_nothing_else(
    server: Running, caller: Caller, frames: list[bytes | str]
) -> None:
    with connect(server.socket_path) as socket:
        for frame in frames:
            socket.send(frame)
        with pytest.raises(ConnectionClosed):
            _listen(socket)

    assert caller.submit() == 1
    assert PretendedAgent(server.socket_path).close() is None


def test_reports_in_pieces_and_several_at_once_are_heard_in_their_order(
    server: Running, caller: Caller
) -> None:
    with connect(server.socket_path) as socket:
        greeting = hello()
        socket.send([greeting[:10], greeting[10:]])
        welcome = decode_to_agent(socket.recv(timeout=WAIT_S))
        assert isinstance(welcome, Welcome)
        assert isinstance(decode_to_agent(socket.recv(timeout=WAIT_S)), Desired)
        job = caller.submit()
        order = decode_to_agent(socket.recv(timeout=WAIT_S))
        assert isinstance(order, Desired)
        uid = order.attempts[0].uid
        full = encode(Observed(welcome.session, 1, (), full=True))
        started = encode(
            Observed(welcome.session, 2, (Seen(uid, Sighting.RUNNING, pid=1, started_s=1.0),))
        )
        ended = encode(
            Observed(welcome.session, 3, (Seen(uid, Sighting.ENDED, ended_s=2.0, exit_code=3),))
        )
        report = b"".join(frame_of(body, masked=True) for body in (full, started, ended))
        socket.socket.sendall(report[:-5])
        socket.socket.sendall(report[-5:])

        done = caller.get(f"/jobs/wait?ids={job}&timeout_s=10").json

    assert [(one["id"], one["exit_code"]) for one in done["done"]] == [(job, 3)]


def _listen(socket: ClientConnection) -> None:
    while True:
        socket.recv(timeout=WAIT_S)


def test_a_name_in_use_is_refused_with_a_reason(
    server: Running, make_agent: Callable[..., PretendedAgent]
) -> None:
    make_agent(name="box")

    with connect(server.socket_path) as socket:
        socket.send(hello("box", incarnation="another"))
        refusal = decode_to_agent(socket.recv(timeout=WAIT_S))

    assert "node name box is in use" in getattr(refusal, "reason", "")


def test_only_one_path_is_an_agents(server: Running) -> None:
    with pytest.raises(InvalidStatus), connect(server.socket_path, "/api/v1/jobs"):
        pass


def test_a_connection_that_ends_late_ends_for_the_host_that_it_was_opened_for(
    server: Running,
) -> None:
    old = PretendedAgent(server.socket_path, name="old")
    links = server.host.links
    server.renew()
    new = PretendedAgent(server.socket_path, name="new")

    old.close()
    deadline_s = time.monotonic() + WAIT_S
    while links._links:
        assert time.monotonic() < deadline_s, "the old host has not heard of it"

    assert server.local().get("/nodes/new").json["state"] == "up"
    new.close()
