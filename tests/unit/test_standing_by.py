"""Which head takes over, and how long one that stands by has for an answer."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from rota.api.heads import standby, waiting_room
from rota.api.heads.waiting_room import WaitingRoom
from rota.controller.chores import reign as reigning
from rota.controller.chores.reign import Reign
from rota.core.facts.errors import Conflict, Unavailable
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


class Words(Heads):
    """What one that stands by sees: also what the leader has said last."""

    def __init__(self, leader: HeadRecord, *heads: HeadRecord) -> None:
        super().__init__(*heads)
        self.said: HeadRecord | None = leader
        self.reigns = 0

    def leader(self) -> HeadRecord | None:
        return self.said

    def epoch(self) -> int:
        # The better one takes the lead again and again, and fails before its first word.
        self.reigns += 1
        return self.reigns

    def say(self, head: HeadRecord) -> None:
        """Nobody listens."""

    def bookmark(self, name: str) -> str:
        return ""


def test_nobody_waits_for_ever_for_a_better_head_that_does_not_come_to_lead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    leader = replace(READY, url="https://leader", epoch=1)
    words = Words(leader, READY)
    plan = SimpleNamespace(database="postgresql://u@127.0.0.1:1/x", secrets_key_file="")
    waits = standby.Standby(plan, tmp_path, (), lambda beat, epoch: OLDER)  # type: ignore[arg-type]
    monkeypatch.setattr(waits, "_lookout", words)

    waits._see()
    words.said = None
    for _ in range(standby.LOOKS_MAX):
        assert waits._stands_aside()
        waits._see()
    assert not waits._stands_aside()

    words.said = replace(leader, epoch=2)
    waits._see()
    assert waits._stands_aside()


class Away:
    """A host whose database went away after the first word."""

    def __init__(self) -> None:
        self.words = 0

    async def write(self, work: object) -> None:
        self.words += 1
        if self.words > 1:
            raise Unavailable("no route")


@pytest.mark.parametrize(("others", "ends"), [((UNFIT, READY), True), ((UNFIT,), False)])
def test_a_leader_without_a_database_makes_room_only_for_one_that_can_lead(
    others: tuple[HeadRecord, ...], ends: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reigning, "SILENT_S", 0.05)
    monkeypatch.setattr(reigning, "BEAT_S", 0.01)
    ended: list[str] = []
    monkeypatch.setattr(reigning, "step_down", ended.append)

    async def lead() -> None:
        heads, host = Heads(*others), Away()
        monkeypatch.setattr(heads, "epoch", lambda: 1, raising=False)
        leader = replace(READY, url="https://leader", epoch=1)
        reign = Reign(host, heads, lambda beat, epoch: leader, asyncio.Event())  # type: ignore[arg-type]
        running = asyncio.create_task(reign.run())
        while host.words < 20 and not ended:  # noqa: ASYNC110 - it goes on by itself
            await asyncio.sleep(0.01)
        running.cancel()

    asyncio.run(lead())

    assert bool(ended) is ends


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
