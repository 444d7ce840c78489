"""Terminals of jobs as the agent reaches them: bytes between the wire and sockets."""

import asyncio
import socket
from pathlib import Path

import pytest

from rota.agent.attempts.launch import terminal_path
from rota.agent.visits.terminals import UNTAKEN_BYTES_MAX, Terminals
from rota.rpc.visits import OpenTerminal, TerminalInput, TerminalOutput

PIECE = b"y\n" * 32_768


@pytest.fixture
def stuck(open_folder: Path):
    """The terminal of a program that reads nothing."""
    (open_folder / "scripts").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(terminal_path(str(open_folder / "scripts"), "u1"))
        listener.listen()
        yield open_folder


def test_one_who_types_into_a_program_that_does_not_read_is_sent_away(stuck: Path):
    said: list[TerminalOutput] = []

    async def flood() -> int:
        terminals = Terminals(stuck, said.append, lambda _: None)
        terminals.take(OpenTerminal(7, "u1"))
        sent = 0
        while not said and sent < 4 * UNTAKEN_BYTES_MAX:
            await asyncio.sleep(0)
            terminals.take(TerminalInput(7, PIECE))
            sent += len(PIECE)
        terminals.close()
        return sent

    sent = asyncio.run(flood())

    assert said == [TerminalOutput(7, over=True, error="the job does not read what is typed to it")]
    assert sent > UNTAKEN_BYTES_MAX


def test_what_is_typed_before_there_is_a_terminal_is_bounded(open_folder: Path):
    """The program may never begin; who types meanwhile has as much room as later."""
    (open_folder / "scripts").mkdir()
    said: list[TerminalOutput] = []

    async def flood() -> int:
        terminals = Terminals(open_folder, said.append, lambda _: None)
        terminals.take(OpenTerminal(7, "u1", ("sh",), "ann"))
        sent = 0
        while not said and sent < 4 * UNTAKEN_BYTES_MAX:
            await asyncio.sleep(0)
            terminals.take(TerminalInput(7, PIECE))
            sent += len(PIECE)
        terminals.close()
        return sent

    sent = asyncio.run(flood())

    assert sent < 2 * UNTAKEN_BYTES_MAX
    assert [(one.request, one.over) for one in said] == [(7, True)]
    assert "too much was typed" in said[0].error
