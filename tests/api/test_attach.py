"""Attaching over the API: who may, what travels, and how it ends."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from websockets.sync.client import ClientConnection

from rota.rpc.messages import encode
from rota.rpc.visits import CloseTerminal, OpenTerminal, TerminalInput, TerminalOutput
from tests.api.running import WAIT_S, Running
from tests.api.visiting import VisitedAgent, end_of, revoke, token_of, visit


class TerminalAgent(VisitedAgent):
    """An agent that keeps what it hears about terminals."""

    def __init__(self, socket_path: str) -> None:
        super().__init__(socket_path, OpenTerminal, TerminalInput, CloseTerminal)

    def show(self, body: bytes, **more: Any) -> None:
        self.socket.send(encode(TerminalOutput(self.heard[0].request, body, **more)))


@pytest.fixture
def terminals(server: Running) -> Iterator[TerminalAgent]:
    agent = TerminalAgent(server.socket_path)
    yield agent
    agent.close()


@pytest.fixture
def job(server: Running, terminals: TerminalAgent) -> int:
    ann = server.as_user("ann")
    made = ann.submit("bash", pty=True)
    terminals.report_start(terminals.launched(made))
    ann.until(made, "running")
    return made


def attached(
    server: Running, job: object, token: str = "", query: str = ""
) -> AbstractContextManager[ClientConnection]:
    return visit(server, f"{job}/attach{query}", token)


def test_bytes_and_sizes_travel_both_ways_until_the_terminal_is_gone(
    server: Running, terminals: TerminalAgent, job: int
):
    with attached(server, job, token_of(server, "ann")) as wire:
        opened = terminals.wait(1)[0]
        wire.send(b"ls\r")
        wire.send('{"rows": 40, "columns": 120}')
        typed, sized = terminals.wait(3)[1:]
        terminals.show(b"\x1b[1mhi")

        assert opened.uid == terminals.launched(job)
        assert (typed.body, sized.rows, sized.columns) == (b"ls\r", 40, 120)
        assert wire.recv(WAIT_S) == b"\x1b[1mhi"
        terminals.show(b"", over=True)
        assert end_of(wire) == (1000, "")


def test_output_that_was_seen_is_acknowledged_so_that_more_may_come(
    server: Running, terminals: TerminalAgent, job: int
):
    with attached(server, job, token_of(server, "olga", "operator")) as wire:
        terminals.wait(1)
        terminals.show(b"x" * 20_000)

        assert len(wire.recv(WAIT_S)) == 20_000
        assert terminals.wait(2)[1].taken == 20_000


def test_one_who_leaves_is_taken_off_the_terminal(
    server: Running, terminals: TerminalAgent, job: int
):
    with attached(server, job, token_of(server, "ann"), "?read_only=1") as wire:
        opened = terminals.wait(1)[0]
        wire.send(b"not to be heard")

    assert terminals.wait(2)[1] == CloseTerminal(opened.request)


def test_an_agent_that_goes_away_ends_it_with_the_reason(
    server: Running, terminals: TerminalAgent, job: int
):
    with attached(server, job, token_of(server, "ann")) as wire:
        terminals.wait(1)
        terminals.close()

        assert end_of(wire) == (1013, "the node's agent is gone; attach again when it is back")


def test_one_whose_token_is_revoked_is_taken_off_the_terminal(
    server: Running, terminals: TerminalAgent, job: int
):
    token = token_of(server, "ann")
    with attached(server, job, token) as wire:
        opened = terminals.wait(1)[0]
        revoke(server, token)
        ended = end_of(wire)

    assert ended == (1008, "the token that was shown is not valid any more")
    assert terminals.wait(2)[1] == CloseTerminal(opened.request)


@pytest.mark.parametrize(
    ("user", "access"), [("bob", "user"), ("vera", "viewer"), ("ann", "viewer"), ("", "")]
)
def test_a_terminal_is_for_its_owner_and_operators_only(
    server: Running, terminals: TerminalAgent, job: int, user: str, access: str
):
    with attached(server, job, token_of(server, user, access) if user else "") as wire:
        code, reason = end_of(wire)

    assert code == 1008
    assert reason == (
        f"job {job} belongs to ann; so does its terminal"
        if user
        else "a token is needed over the network"
    )
    assert terminals.heard == []


@pytest.mark.parametrize(
    ("name", "code", "reason"),
    [
        (lambda job: 999, 1008, "999"),
        (lambda job: f"{job}", 1008, "has no task 3"),
        (lambda job: "nonsense", 1008, "nonsense"),
    ],
)
def test_what_cannot_be_attached_to_is_refused_with_the_reason(
    server: Running, job: int, name: Callable[[int], object], code: int, reason: str
):
    with attached(server, name(job), token_of(server, "ann"), "?task=3") as wire:
        ended = end_of(wire)

    assert ended[0] == code
    assert reason in ended[1]


def test_a_message_that_is_no_size_ends_the_connection(
    server: Running, terminals: TerminalAgent, job: int
):
    for text in ("{}", '{"rows": 0, "columns": 1}', "x", '{"rows": 1, "columns": 1, "z": 1}'):
        with attached(server, job, token_of(server, "ann")) as wire:
            wire.send(text)

            assert end_of(wire)[0] == 1003


def test_who_went_into_a_terminal_is_in_the_audit_with_the_token(
    server: Running, terminals: TerminalAgent, job: int
):
    token = token_of(server, "ann")

    with attached(server, job, token):
        terminals.wait(1)

    (record,) = server.local().get("/audit?action=attach").json["items"]
    assert (record["user"], record["object"]) == ("ann", f"job {job}")
    assert record["via"] == f"token {token.split('_')[1]}"
