"""Both ends of the link between agent and keeper, against lines that neither would write."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from rota.agent.keeper_link import KeeperLink
from rota.keeper.orders import NotAnOrder, read_order
from rota.session.instructions import KeeperAll
from tests.agent import support
from tests.network.traffic import Vandal

CASES = 400


@pytest.fixture
def own_keeper() -> Iterator[support.Keeper]:
    with support.keeper() as keeper:
        yield keeper


def orders(folder: str) -> list[dict[str, Any]]:
    spawn = {
        "op": "spawn", "uid": "a", "argv": ["true"], "env": ["A=1"], "cwd": folder, "stdin": None,
        "stdout": f"{folder}/logs/a.out", "stderr": f"{folder}/logs/a.err", "umask": 18,
        "user": None, "cpus": [], "ulimits": {}, "cgroup": None, "keep": {"grace_s": 1.0},
    }  # fmt: skip
    return [
        spawn,
        {"op": "signal", "uid": "steady", "signal": 0, "note": "", "asks": False},
        {"op": "forget", "uids": ["a"]},
        {"op": "seek", "uid": "sought", "cgroup": None, "keep": {"grace_s": 1.0}},
        {"op": "give_up", "uid": "a"},
        # Never a number: one of the past is a good order, and ends all work.
        {"op": "lease", "until_s": None},
        {"op": "lease", "until_s": "soon"},
        {"op": "lease", "until_s": [1]},
    ]


def test_a_keeper_survives_whatever_it_is_told_and_loses_no_job(own_keeper: support.Keeper) -> None:
    gate = own_keeper.folder / "gate"
    own_keeper.shell("steady", f"until [ -e {gate} ]; do sleep 0.05; done; exit 7")
    own_keeper.started("steady")
    known, pid = orders(str(own_keeper.folder)), own_keeper.pid

    for seed in range(CASES):
        vandal = Vandal(seed)
        order = vandal.spoil_value(vandal.chance.choice(known))
        if isinstance(order, dict) and isinstance(order.get("until_s"), int | float):
            continue
        line = json.dumps(order, default=repr).encode()
        line = vandal.spoil_bytes(line) if vandal.chance.random() < 0.3 else line
        _say(own_keeper, line.replace(b"steady", b"nobody") + b"\n")
    own_keeper.connect()

    own_keeper.shell("after", "exit 5")
    assert own_keeper.ended("after")["code"] == 5
    gate.touch()
    assert own_keeper.ended("steady")["code"] == 7
    assert own_keeper.pid == pid


def _say(keeper: support.Keeper, line: bytes) -> None:
    """On a connection of its own: whoever comes last is listened to."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(keeper.folder / "keeper.sock"))
        assert connection.recv(1), "the keeper is there and has begun its list"
        connection.sendall(line)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not an object"),
        (b'{"op": "dance"}', "op: 'dance' is not one of spawn, seek, give_up, beside"),
        (b'{"op": ["spawn"]}', "op: ['spawn'] is not one of"),
        (b'{"op": "spawn", "uid": ""}', "uid: a word"),
        (b'{"op": "spawn", "uid": "\\ud800"}', "uid: a word"),
        (b'{"op": "spawn", "uid": "a", "keep": [1]}', "keep: an object"),
        (b'{"op": "spawn", "uid": "a", "keep": {"grace_s": "x"}}', "keep.grace_s: seconds from 0"),
        (b'{"op": "spawn", "uid": "a", "keep": {"grace_s": NaN}}', "keep.grace_s: seconds from 0"),
        (b'{"op": "seek", "uid": "a", "keep": {"grace_s": -1}}', "keep.grace_s: seconds from 0"),
        (b'{"op": "give_up"}', "uid: a word"),
        (b'{"op": "beside", "uid": "a", "argv": "x"}', "argv: a list of words"),
        (b'{"op": "signal", "uid": "a", "signal": 1e9}', "signal: 0 to 64"),
        (b'{"op": "signal", "uid": "a", "signal": 99999999999999999999}', "signal: 0 to 64"),
        (b'{"op": "forget", "uids": "abc"}', "uids: a list of words"),
        (b'{"op": "lease", "until_s": "soon"}', "until_s: seconds, or null"),
        (b'{"op": "lease"}', "until_s: seconds, or null"),
    ],
)
def test_a_line_that_is_no_order_is_named_with_what_is_allowed(line: bytes, words: str) -> None:
    with pytest.raises(NotAnOrder, match="^" + words.translate({91: r"\[", 93: r"\]"})):
        read_order(line)


def test_an_agent_leaves_a_keeper_that_says_what_cannot_be_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[object] = []

    async def listen(line: bytes) -> None:
        link = KeeperLink(lambda _, listing: heard.append(listing), heard.extend)
        agent_end, keeper_end = socket.socketpair()
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: link, sock=agent_end)
        with keeper_end:
            keeper_end.setblocking(False)
            await loop.sock_sendall(keeper_end, b'{"ev":"all","attempts":[]}\n' + line + b"\n")
            async with asyncio.timeout(60):
                await link.closed

    caplog.set_level(logging.ERROR)
    vandal = Vandal(1)
    lines = [b"{}", b'{"ev":"ended"}', b"[" * 100_000, b"\xff\xfe"]
    lines += [b"!" + vandal.chance.randbytes(20).replace(b"\n", b"") for _ in range(50)]

    for line in lines:
        asyncio.run(listen(line))

    assert heard == [KeeperAll(())] * len(lines)
    assert len(caplog.records) == len(lines)
    assert {r.exc_info for r in caplog.records} == {None}
