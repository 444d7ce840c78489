"""Reaching into a job over the API: who may, what travels, how it ends, what is on record."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from websockets.sync.client import ClientConnection

from rota.controller.agents.visit_lines import WINDOW_BYTES
from rota.rpc.messages import encode
from rota.rpc.visits import CloseTunnel, OpenTunnel, TunnelInput, TunnelOutput
from tests.api.running import WAIT_S, Running
from tests.api.visiting import VisitedAgent, end_of, revoke, token_of, visit


class TunnelAgent(VisitedAgent):
    """An agent that keeps what it hears about tunnels."""

    def __init__(self, socket_path: str) -> None:
        super().__init__(socket_path, OpenTunnel, TunnelInput, CloseTunnel)

    def say(self, body: bytes = b"", **more: Any) -> None:
        self.socket.send(encode(TunnelOutput(self.heard[0].request, body, **more)))


@pytest.fixture
def tunnels(server: Running) -> Iterator[TunnelAgent]:
    agent = TunnelAgent(server.socket_path)
    yield agent
    agent.close()


@pytest.fixture
def job(server: Running, tunnels: TunnelAgent) -> int:
    ann = server.as_user("ann")
    made = ann.submit("jupyter")
    tunnels.report_start(tunnels.launched(made))
    ann.until(made, "running")
    return made


def reach(
    server: Running, job: object, token: str = "", query: str = "?port=8888"
) -> AbstractContextManager[ClientConnection]:
    return visit(server, f"{job}/forward{query}", token)


def test_bytes_and_half_closed_ends_travel_both_ways(
    server: Running, tunnels: TunnelAgent, job: int
):
    with reach(server, job, token_of(server, "ann")) as wire:
        opened = tunnels.wait(1)[0]
        wire.send(b"GET /")
        wire.send("end")
        sent, ended = tunnels.wait(3)[1:]
        tunnels.say(b"200 OK")
        tunnels.say(end=True)

        assert (opened.uid, opened.port) == (tunnels.launched(job), 8888)
        assert (sent.body, ended.end) == (b"GET /", True)
        assert wire.recv(WAIT_S) == b"200 OK"
        assert wire.recv(WAIT_S) == "end"
        tunnels.say(over=True)
        assert end_of(wire) == (1000, "")


def test_a_caller_who_sends_more_than_the_port_takes_is_held_up(
    server: Running, tunnels: TunnelAgent, job: int
):
    piece = b"x" * 65536
    with reach(server, job, token_of(server, "ann")) as wire:
        for _ in range(8):
            wire.send(piece)
        inside = tunnels.wait(1 + WINDOW_BYTES // len(piece))
        assert sum(len(message.body) for message in inside[1:]) == WINDOW_BYTES

        tunnels.say(taken=WINDOW_BYTES)
        everything = tunnels.wait(9)

        assert sum(len(message.body) for message in everything[1:]) == 8 * len(piece)


def test_a_caller_who_leaves_while_the_port_is_stuck_is_taken_off_it(
    server: Running, tunnels: TunnelAgent, job: int
):
    with reach(server, job, token_of(server, "ann")) as wire:
        for _ in range(1 + WINDOW_BYTES // 65536):
            wire.send(b"x" * 65536)
        tunnels.wait(1 + WINDOW_BYTES // 65536)

    assert isinstance(tunnels.wait(2 + WINDOW_BYTES // 65536)[-1], CloseTunnel)


def test_output_that_was_handed_on_is_acknowledged_so_that_more_may_come(
    server: Running, tunnels: TunnelAgent, job: int
):
    with reach(server, job, token_of(server, "olga", "operator")) as wire:
        tunnels.wait(1)
        tunnels.say(b"x" * 20_000)

        assert len(wire.recv(WAIT_S)) == 20_000
        assert tunnels.wait(2)[1].taken == 20_000


def test_a_closed_port_and_an_agent_that_goes_away_end_it_with_the_reason(
    server: Running, tunnels: TunnelAgent, job: int
):
    ann = token_of(server, "ann")
    with reach(server, job, ann) as wire:
        tunnels.wait(1)
        tunnels.say(over=True, error="nothing listens on port 8888 of the job's node")
        assert end_of(wire) == (1013, "nothing listens on port 8888 of the job's node")
    with reach(server, job, ann) as wire:
        tunnels.wait(3)
        tunnels.close()
        assert end_of(wire) == (1013, "the node's agent is gone; try again when it is back")


@pytest.mark.parametrize("number", [str(1 << 70), "9" * 5000, "-1", "x"])
def test_a_socket_of_the_caller_that_no_kernel_has_is_none(
    server: Running, tunnels: TunnelAgent, job: int, number: str
):
    query = f"?port=8888&boot=b&own=7,{number}"
    with reach(server, job, token_of(server, "ann"), query):
        assert tunnels.wait(1)[0].own == (7,)


def test_one_who_leaves_is_taken_off_the_port(server: Running, tunnels: TunnelAgent, job: int):
    with reach(server, job, token_of(server, "ann")):
        opened = tunnels.wait(1)[0]

    assert tunnels.wait(2)[1] == CloseTunnel(opened.request)


def test_one_whose_token_is_revoked_is_taken_off_the_port(
    server: Running, tunnels: TunnelAgent, job: int
):
    first, second = token_of(server, "ann"), token_of(server, "ann")
    with reach(server, job, first) as wire:
        opened = tunnels.wait(1)[0]
        with reach(server, job, second) as other:
            tunnels.wait(2)
            revoke(server, first)
            ended = end_of(wire)
            closed = tunnels.wait(3)[2]
            other.send(b"still here")

            assert ended == (1008, "the token that was shown is not valid any more")
            assert closed == CloseTunnel(opened.request)
            assert tunnels.wait(4)[3].body == b"still here"


def test_one_whose_token_runs_out_is_taken_off_the_port(
    server: Running, tunnels: TunnelAgent, job: int
):
    made = server.local().post("/tokens", {"user": "ann", "access": "user", "expires_s": 1}).json
    with reach(server, job, made["token"]) as wire:
        tunnels.wait(1)

        assert end_of(wire) == (1008, "the token that was shown is not valid any more")


@pytest.mark.parametrize(("user", "access"), [("bob", "user"), ("ann", "viewer"), ("", "")])
def test_ports_are_for_the_owner_and_operators_only(
    server: Running, tunnels: TunnelAgent, job: int, user: str, access: str
):
    with reach(server, job, token_of(server, user, access) if user else "") as wire:
        code, reason = end_of(wire)

    assert code == 1008
    assert reason == (
        f"job {job} belongs to ann; so does what listens in it"
        if user
        else "a token is needed over the network"
    )
    assert tunnels.heard == []


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("", "port: '' is not valid; a number from 1 to 65535"),
        ("?port=0", "port: 0 is not valid"),
        ("?port=65536", "port: 65536 is not valid"),
        ("?port=8888&task=7", "has no task 7"),
    ],
)
def test_what_cannot_be_reached_is_refused_by_name(
    server: Running, job: int, query: str, reason: str
):
    with reach(server, job, token_of(server, "ann"), query) as wire:
        code, said = end_of(wire)

    assert code == 1008
    assert reason in said


def test_a_job_that_does_not_run_cannot_be_entered(server: Running, tunnels: TunnelAgent):
    ann = server.as_user("ann")
    waiting = ann.submit(hold=True)

    with reach(server, waiting, str(ann.token)) as wire:
        ended = end_of(wire)

    assert ended == (1013, f"job {waiting} is held; only a running job can be entered")


def test_who_went_in_is_on_record_once_for_many_connections(
    server: Running, tunnels: TunnelAgent, job: int
):
    olga = token_of(server, "olga", "operator")
    for number in (1, 2, 3):
        with reach(server, job, olga):
            tunnels.wait(2 * number - 1)
        tunnels.wait(2 * number)

    events = server.local().get(f"/jobs/{job}/events").json["items"]

    entered = [event for event in events if event["kind"] == "job-entered"]
    assert [event["actor"] for event in entered] == ["olga"]
    assert entered[0]["detail"]["way"] == "forward 8888"
