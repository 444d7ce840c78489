"""What was written in one moment, line by line where that is known; the notes of the order."""

import asyncio
import threading
import time
from pathlib import Path

import pytest

from rota.agent.visits.log_order import LogOrder
from rota.api.jobs.endings import raised
from rota.api.jobs.log_merge import last_of, woven
from rota.core.words.units import format_indices
from rota.log_frames import ERR, OUT, Piece, Unpacker, pack

#: Guards against hanging only.
WAIT_S = 30.0


def test_single_lines_of_one_moment_are_woven_in_the_order_of_their_writes() -> None:
    pieces = woven("oeo", {OUT: b"a\nc\n", ERR: b"b\n"})

    assert [piece.body for piece in pieces] == [b"a\n", b"b\n", b"c\n"]


def test_what_was_written_in_larger_pieces_stays_together() -> None:
    pieces = woven("eoe", {OUT: b"a\n", ERR: b"1\n2\n3\n"})

    assert pieces == [Piece(ERR, b"1\n2\n3\n"), Piece(OUT, b"a\n")]


def test_the_last_lines_are_counted_over_both_streams() -> None:
    pieces = [Piece(OUT, b"1\n2\n"), Piece(ERR, b"3\n"), Piece(OUT, b"4")]

    assert b"".join(piece.body for piece in last_of(pieces, 3)) == b"2\n3\n4"
    assert last_of(pieces, 0) == []


def test_frames_are_taken_out_however_they_were_cut() -> None:
    told = [Piece(OUT, b"hello"), Piece(ERR, b""), Piece(ERR, b"\0" * 300)]
    wire = b"".join(map(pack, told))
    unpacker = Unpacker()

    heard = [piece for at in range(len(wire)) for piece in unpacker.feed(wire[at : at + 1])]

    assert heard == told


@pytest.mark.parametrize(
    ("lines", "exception"),
    [
        (["Traceback:", '  File "a.py", line 1', "    f()", "ValueError: no"], "ValueError: no"),
        (['  File "a.py", line 1', "KeyError", "and more"], "KeyError"),
        (["ValueError: said, not raised"], ""),
        ([], ""),
    ],
)
def test_the_exception_is_the_line_behind_the_last_frame(lines: list[str], exception: str) -> None:
    assert raised(lines) == exception


def test_indices_are_told_as_ranges() -> None:
    assert format_indices([3, 7, 8, 9, 11]) == "3,7-9,11"
    assert format_indices([]) == ""


def until_noted(notes: Path, out: int, err: int) -> None:
    """The two files may be noted one by one, or together."""
    until_s = time.monotonic() + WAIT_S
    while not notes.exists() or f"\n{out} {err} " not in f"\n{notes.read_text()}":
        assert time.monotonic() < until_s, notes.exists()
        time.sleep(0.01)


def test_the_order_of_two_growing_files_is_noted(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    out, err, notes = (tmp_path / "logs" / f"u.0.1.{ending}" for ending in ("out", "err", "ord"))
    loop = asyncio.new_event_loop()
    watching = loop.create_task(LogOrder(tmp_path, frozenset).run())
    thread = threading.Thread(target=lambda: loop.run_until_complete(asyncio.wait([watching])))
    begun = threading.Event()
    loop.call_soon(begun.set)
    thread.start()
    begun.wait(WAIT_S)
    try:
        write(out, "a\n")
        write(err, "b\n")
        until_noted(notes, 2, 2)
        write(out, "c\n")
        until_noted(notes, 4, 2)
    finally:
        loop.call_soon_threadsafe(watching.cancel)
        thread.join(WAIT_S)
        loop.close()

    sizes = [line.split()[:2] for line in notes.read_text().splitlines()]
    assert sizes[-1] == ["4", "2"]
    assert sizes == sorted(sizes)
    assert notes.stat().st_mode & 0o077 == 0


def test_one_stream_alone_needs_no_notes(tmp_path: Path) -> None:
    order = LogOrder(tmp_path, frozenset)
    (tmp_path / "logs").mkdir()
    write(tmp_path / "logs" / "u.0.1.out", "a\n")

    order.note({"u.0.1": "o"})
    order.note({"u.0.1": "o"})

    assert [path.name for path in (tmp_path / "logs").iterdir()] == ["u.0.1.out"]


def test_what_grew_before_the_other_stream_began_is_noted_first(tmp_path: Path) -> None:
    order = LogOrder(tmp_path, frozenset)
    (tmp_path / "logs").mkdir()
    out, err, notes = (tmp_path / "logs" / f"u.0.1.{ending}" for ending in ("out", "err", "ord"))

    write(out, "a\nb\n")
    order.note({"u.0.1": "o"})
    write(err, "c\n")
    write(out, "d\n")
    order.note({"u.0.1": "eo"})

    assert notes.read_text() == "4 0 o\n6 2 eo\n"


def write(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)
