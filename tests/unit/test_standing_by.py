"""Which head takes over, and how long one that stands by has for an answer."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
from msgspec.structs import replace

from rota.api.heads import waiting_room
from rota.api.heads.waiting_room import WaitingRoom
from rota.controller.chores.reign import Reign
from rota.core.facts.errors import Conflict
from rota.heads import clock_remark
from rota.store.heads import HeadRecord, own_record

READY = replace(own_record("https://b", "1.2.0", 1, 0), lag_s=0.4)
UNREAD = replace(READY, url="https://c", lag_s=None)
OLDER = replace(READY, url="https://a", version="1.1.9")
OLDER_ROWS = replace(READY, url="https://d", rows=READY.rows - 1)
UNFIT = replace(READY, url="https://e", unfit="cannot take over: no key")
#: Of a version that tells nothing of its database.
OLDEST = HeadRecord("https://f", "0.9", lag_s=0.1)


class Heads:
    """What a leader sees of the others."""

    def __init__(self, *heads: HeadRecord) -> None:
        self._heads = heads

    def heads(self) -> list[HeadRecord]:
        return [*self._heads]

    def ahead_s(self) -> float:
        return 0.0


def chosen(*heads: HeadRecord) -> str:
    """Whom a leader of version 1.2.0 hands over to."""

    async def hand_over() -> str:
        leader = replace(READY, url="https://leader", epoch=1)
        reign = Reign(None, Heads(*heads), lambda beat, epoch: leader, asyncio.Event())  # type: ignore[arg-type]
        reign._look()
        return reign.hand_over().url

    return asyncio.run(hand_over())


def test_the_lead_goes_to_a_head_that_is_as_new_and_has_read_the_state():
    assert chosen(OLDER, OLDER_ROWS, UNREAD, UNFIT, OLDEST, READY) == READY.url


def test_a_newer_head_is_taken_first_though_it_cannot_read_the_older_schema():
    newer = replace(UNREAD, version="1.10.0", schema=READY.schema + 1)

    assert chosen(READY, newer) == newer.url


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (OLDER, "runs an older Rota (1.1.9)"),
        (OLDER_ROWS, "runs an older Rota (1.2.0)"),
        (OLDEST, "runs an older Rota (0.9)"),
        (UNREAD, "has not read the state yet"),
        (UNFIT, "cannot take over: no key"),
    ],
)
def test_a_hand_over_to_nobody_but_a_head_that_cannot_lead_is_refused(head: HeadRecord, why: str):
    with pytest.raises(Conflict) as refused:
        chosen(head)

    assert f"no head can take over: {head.url} {why}" in str(refused.value)


def test_a_head_stands_beside_the_line_while_a_better_one_stands_in_it():
    assert [
        head.url
        for head in (READY, UNREAD, OLDER, OLDEST)
        if head.gives_way([READY, UNREAD, UNFIT])
    ] == [UNREAD.url, OLDER.url, OLDEST.url]
    assert not OLDER.gives_way([UNFIT])


@pytest.mark.parametrize(
    ("ahead_s", "said"),
    [
        (None, ""),
        (-0.9, ""),
        (3600.2, ", its clock 3600 s ahead of the database's"),
        (-2.0, ", its clock 2 s behind the database's"),
    ],
)
def test_a_clock_that_is_off_is_worth_a_word(ahead_s: float | None, said: str):
    assert clock_remark({"ahead_s": ahead_s}) == said


class SlowReader:
    """Finds its answers in more time than a silent caller is given."""

    def answers(self, asked: object) -> bool:
        return True

    async def answer(self, asked: object, client: object) -> bytes:
        await asyncio.sleep(3 * waiting_room.LINGER_S)
        return b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlist"


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    monkeypatch.setattr(waiting_room, "LINGER_S", 0.1)
    with closing(socket.create_server(("127.0.0.1", 0))) as sock:
        yield sock


def heard(door: socket.socket, said: bytes) -> bytes:
    """All that a caller hears who says this and then waits."""

    async def call() -> bytes:
        room = WaitingRoom([door], SlowReader())  # type: ignore[arg-type]
        await room.open(None, encrypted=False)
        reader, writer = await asyncio.open_connection(*door.getsockname())
        writer.write(said)
        answer = await reader.read()
        writer.close()
        await room.close()
        return answer

    return asyncio.run(call())


def test_an_answer_that_takes_longer_than_a_caller_may_be_silent_arrives(door: socket.socket):
    assert heard(door, b"GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n").endswith(b"list")


def test_a_caller_that_never_finishes_its_request_is_hung_up_on(door: socket.socket):
    assert heard(door, b"GET /api/v1/jobs HTTP/1.1\r\n") == b""
