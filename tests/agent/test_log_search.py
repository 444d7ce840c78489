"""Looking for lines in logs: as grep would find them, in bounded answers, in bounded time."""

import asyncio
import io
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.agent.visits.logs import Logs
from rota.as_user import scan as log_scan
from rota.as_user.scan import ANSWER_BYTES_MAX, Scan
from rota.rpc.visits import FoundLine, LogFound, SearchLog

TEXT = b"".join(b"step %d loss %d\n" % (n, 100 - n) for n in range(1, 101))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "u1.out").write_bytes(TEXT)
    return tmp_path


def search(folder: Path, pattern: str, limit_s: float = 60.0, **fields: Any) -> LogFound:
    asked = {"request": 9, "uid": "u1", "stream": "stdout", "pattern": pattern} | fields
    logs = Logs(folder, limit_s)
    try:
        return asyncio.run(logs.search(SearchLog(**asked)))
    finally:
        logs.close()


def test_lines_with_a_text_are_found_with_their_numbers(folder: Path):
    found = search(folder, "step 42 ")

    assert found.lines == (FoundLine(42, True, b"step 42 loss 58\n"),)
    assert found.over


def test_an_expression_finds_lines_whatever_their_case_and_brings_their_neighbours(folder: Path):
    found = search(folder, r"^STEP (7|9) .*\d$", regex=True, ignore_case=True, context=1)

    assert [(line.number, line.hit) for line in found.lines] == [
        (6, False),
        (7, True),
        (8, False),
        (9, True),
        (10, False),
    ]


def test_a_text_is_no_expression_and_bytes_that_are_no_text_are_passed_on(folder: Path):
    (folder / "logs" / "u1.out").write_bytes(b"a.c\nabc\n\xff a.c\xfe\n")

    assert [line.body for line in search(folder, "a.c").lines] == [b"a.c\n", b"\xff a.c\xfe\n"]


def test_a_search_stops_at_so_many_hits_and_goes_on_from_there(folder: Path):
    first = search(folder, "loss", hits=3)
    rest = search(
        folder, "loss", hits=1000, offset=first.offset, line=first.line, fresh=first.fresh
    )

    assert [line.number for line in first.lines] == [1, 2, 3]
    assert not first.over
    assert [line.number for line in rest.lines] == list(range(4, 101))
    assert rest.over


def test_an_expression_that_is_none_is_named(folder: Path):
    found = search(folder, "(", regex=True)

    assert found.error.startswith("regex: '(' is no regular expression: missing )")


def test_an_expression_that_takes_for_ever_is_ended_and_named(folder: Path):
    (folder / "logs" / "u1.out").write_bytes(b"a" * 60 + b"!\n")

    found = search(folder, "(a+)+$", limit_s=0.4, regex=True)

    assert found.error == "regex: '(a+)+$' takes too long on this log"


def test_a_log_that_does_not_exist_yet_has_no_lines(folder: Path):
    assert search(folder, "x", uid="u2") == LogFound(9)
    assert search(folder, "x", path=str(folder / "gone"), user="root").error.endswith(
        "gone: no such file"
    )


def test_an_answer_is_bounded_however_many_lines_are_hits():
    text = b"x" * 999 + b"\n"

    found = scan(text * 1000, "x", hits=10_000)

    assert not found["over"]
    assert sum(len(line[2]) for line in found["lines"]) < ANSWER_BYTES_MAX + 2000


def scan(text: bytes, pattern: str, **fields: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {"pattern": pattern, "regex": False, "ignore_case": False}
    asked |= {"context": 0, "hits": 1000, "offset": 0, "line": 1, "fresh": 0, "size": len(text)}
    return Scan(io.BytesIO(text), asked | fields).run()


@given(
    lines=st.lists(st.sampled_from(["hit", "miss", ""]), max_size=30),
    context=st.integers(0, 4),
    portion=st.integers(1, 5),
    block_bytes=st.integers(6, 40),
)
def test_a_search_in_portions_and_blocks_finds_what_one_look_finds(
    lines: list[str], context: int, portion: int, block_bytes: int
):
    text = "".join(line + "\n" for line in lines).encode()
    near = {
        number
        for number, line in enumerate(lines, 1)
        if any(
            re.search("hit", lines[other - 1])
            for other in range(max(1, number - context), min(len(lines), number + context) + 1)
        )
    }

    told, place = [], {"offset": 0, "line": 1, "fresh": 0}
    while True:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(log_scan, "BLOCK_BYTES", block_bytes)
            found = scan(text, "hit", context=context, hits=portion, **place)
        told += [(number, bool(hit)) for number, hit, _ in found["lines"]]
        place = {name: found[name] for name in place}
        if found["over"]:
            break

    assert [number for number, _ in told] == sorted(near)
    assert [n for n, hit in told if hit] == [n for n, line in enumerate(lines, 1) if line == "hit"]


def test_a_line_that_is_longer_than_what_is_looked_at_at_once_keeps_its_number(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(log_scan, "BLOCK_BYTES", 16)

    found = scan(b"short\n" + b"y" * 50 + b"needle\nend needle\n", "needle")

    assert [line[0] for line in found["lines"]] == [2, 3]


def test_lines_end_as_people_think_whatever_the_system_that_wrote_them():
    found = scan(b"one\r\nstep 1\r\n\x0cstep 2\r\n", r"^step \d$", regex=True)

    assert [(number, text) for number, _, text in found["lines"]] == [(2, "step 1\r\n")]
