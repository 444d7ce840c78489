"""The screen of a job's terminal, as a page gets it."""

import json

from rota.web.screen import COLUMNS_MAX, ROWS_MAX, Display


def text_of(runs):
    return "".join(run[0] for run in runs).rstrip()


def test_only_lines_that_changed_are_told():
    display = Display()
    display.news()

    display.feed(b"one\r\ntwo")
    first = json.loads(display.news())
    display.feed(b"!")
    second = json.loads(display.news())

    assert {row: text_of(runs) for row, runs in first["lines"].items()} == {"0": "one", "1": "two"}
    assert {row: text_of(runs) for row, runs in second["lines"].items()} == {"1": "two!"}
    assert second["cursor"] == [1, 4]


def test_runs_of_equal_looks_are_told_together():
    display = Display()

    display.feed(b"a \x1b[31;1mred\x1b[0m b\x1b[7m<i>\x1b[0m")

    runs = json.loads(display.news())["lines"]["0"]
    assert [run[0].rstrip() for run in runs] == ["a", "red", " b", "<i>", ""]
    assert runs[1][1:] == ["red", "default", True, False]
    assert runs[3][4] is True


def test_another_size_is_drawn_anew_and_bounded():
    display = Display()
    display.feed(b"here")
    display.news()

    display.resize(9999, 9999)

    news = json.loads(display.news())
    assert news["size"] == [ROWS_MAX, COLUMNS_MAX]
    assert len(news["lines"]) == ROWS_MAX
    assert text_of(news["lines"]["0"]) == "here"


def test_a_hidden_cursor_is_not_shown():
    display = Display()

    display.feed(b"\x1b[?25l")

    assert json.loads(display.news())["cursor"] is None
