"""What a terminal prints, as clean text for the log."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.keeper.terminal import LINE_BYTES_MAX, CleanText, clean_line


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"plain\r", b"plain"),
        (b"\x1b[31mred\x1b[0m and \x1b[1;38;5;200mpink\x1b[m", b"red and pink"),
        (b"10%\r50%\r100%\r", b"100%"),
        (b"\x1b]0;a title\x07text", b"text"),
        (b"\x1b]8;;https://x.org\x1b\\link\x1b]8;;\x1b\\", b"link"),
        (b"typo\x08\x08\x08\x08word", b"word"),
        (b"\x1b[2K\x1b[1Gdone\x07", b"done"),
        ("grün\t1".encode(), "grün\t1".encode()),
    ],
)
def test_a_line_is_kept_as_it_ended_up_on_the_screen(line, text):
    assert clean_line(line) == text


def test_a_prompt_without_an_end_is_written_and_then_only_continued():
    text = CleanText()

    pieces = [text.feed(b"one\r\nname? "), text.flush(), text.feed(b"ann\r\ntwo\r\n")]

    assert pieces == [b"one\n", b"name? ", b"ann\ntwo\n"]


def test_a_line_that_is_rewritten_after_it_was_written_begins_again():
    text = CleanText()

    pieces = [text.feed(b"10%"), text.flush(), text.feed(b"\r100%\r\n")]

    assert b"".join(pieces) == b"10%\n100%\n"


def test_a_line_without_end_does_not_fill_the_memory():
    text = CleanText()

    written = text.feed(b"x" * (LINE_BYTES_MAX + 1))

    assert len(written) == LINE_BYTES_MAX + 1
    assert not text.waits


@given(st.lists(st.binary(max_size=30), max_size=10))
def test_whatever_is_printed_leaves_no_control_characters_in_the_log(pieces):
    text = CleanText()

    written = b"".join(text.feed(piece) for piece in pieces) + text.flush()

    assert not [byte for byte in written if byte < 32 and byte not in b"\n\t"]
