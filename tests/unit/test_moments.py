"""Moments and lengths as people name them: one grammar for every command, option and field."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.words.units import format_when
from rota.moments import parse_last, parse_moment, parse_past

#: A Sunday.
NOW_S = datetime(2026, 11, 15, 12, 0, tzinfo=UTC).timestamp()


def utc(day: int, hour: int = 0, minute: int = 0, second: int = 0) -> float:
    return datetime(2026, 11, day, hour, minute, second, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "moment_s"),
    [
        ("18:00", utc(15, 18)),
        ("18:00:30", utc(15, 18, 0, 30)),
        ("11:59", utc(16, 11, 59)),
        ("12:00", utc(16, 12)),
        ("2026-11-15T18:00", utc(15, 18)),
        ("2026-11-16", utc(16)),
        ("2026-11-15T18:00:00+02:00", utc(15, 16)),
        ("2h", utc(15, 14)),
        ("1d12h", utc(17)),
        ("1.5h", utc(15, 13, 30)),
        ("now+2h", utc(15, 14)),
        ("+90", utc(15, 12, 1, 30)),
        ("now-1h", utc(15, 11)),
        ("1h ago", utc(15, 11)),
        ("NOW", utc(15, 12)),
        ("yesterday 9:00", utc(14, 9)),
        ("sun 12:00", utc(22, 12)),
    ],
)
def test_a_moment_that_may_be_meant_twice_is_to_come(text: str, moment_s: float) -> None:
    assert parse_moment(text, NOW_S, UTC) == moment_s


@pytest.mark.parametrize(
    ("text", "moment_s"),
    [
        ("18:00", utc(14, 18)),
        ("11:59", utc(15, 11, 59)),
        ("2h", utc(15, 10)),
        ("2h ago", utc(15, 10)),
        ("now-2h", utc(15, 10)),
        ("yesterday", utc(14)),
        ("mon 9:00", utc(9, 9)),
        ("sun", utc(15)),
        ("today 9:00", utc(15, 9)),
    ],
)
def test_where_the_past_is_asked_for_it_is_the_last_one(text: str, moment_s: float) -> None:
    assert parse_past(text, NOW_S, UTC) == moment_s


def test_the_clock_is_the_one_of_the_asker() -> None:
    east = timezone(timedelta(hours=8))

    assert parse_moment("18:00", NOW_S, east) == utc(16, 10)
    assert parse_past("18:00", NOW_S, east) == utc(15, 10)


@pytest.mark.parametrize("text", ["now+1h", "tomorrow", "2026-11-16", "today 18:00"])
def test_what_is_to_come_has_not_passed(text: str) -> None:
    with pytest.raises(ValueError, match=f"'{text[:3]}.*' is in the future"):
        parse_past(text, NOW_S, UTC)


@pytest.mark.parametrize(
    "text",
    [
        "", "soon", "25:00", "12:60", "1:2", "2026-13-01", "2026-11-31T10:00", "2026-11-15X10:00",
        "now+", "now2h", "now+soon", "+2h ago", "90", "5x", "1700000000", "20261115", "18:00 ago",
    ],
)  # fmt: skip
def test_a_moment_that_cannot_be_read_is_refused_by_its_own_words(text: str) -> None:
    for read in (parse_moment, parse_past):
        with pytest.raises(ValueError, match=r"'.*' is not valid; expected a moment such as"):
            read(text, NOW_S, UTC)


@given(st.integers(0, 4_000_000_000))
def test_a_printed_moment_reads_back_as_the_same_moment(moment_s: int) -> None:
    assert parse_moment(format_when(moment_s), NOW_S, UTC) == moment_s


def test_an_end_may_be_named_that_is_to_come() -> None:
    assert parse_last("2026-11-20", NOW_S, UTC) == utc(20)
    with pytest.raises(ValueError, match="is in the future"):
        parse_past("2026-11-20", NOW_S, UTC)
