"""Hours of the week at which something is open: ``mon-fri 8:00-18:00, sat 10:00-14:00``.

Read on the clock of a place. That clock jumps twice a year, so spans are worked out day by day
and never taken for a number of seconds since Monday.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rota.moments import zone_named

if TYPE_CHECKING:
    from datetime import tzinfo

    from rota.core.facts.tenant import Queue

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
#: Days ahead that are searched for turns: every day of the week, and one that a clock jumps over.
AHEAD = 9
FORMS = "expected hours such as 22:00-6:00, or mon-fri 8:00-18:00, sat 10:00-14:00"
_SPAN = re.compile(
    r"(?:([a-z]{3})(?:-([a-z]{3}))? +)?([0-9]{1,2}):([0-9]{2})-([0-9]{1,2}):([0-9]{2})"
)


class Span(NamedTuple):
    """On these days of the week from one minute of the day to another; that may be tomorrow's."""

    days: frozenset[int]
    start_min: int
    end_min: int


def parse_hours(text: str) -> tuple[Span, ...]:
    """``ValueError`` says what is allowed. An empty text has no spans: it means always."""
    parts = [part.strip().lower() for part in text.split(",")]
    try:
        return tuple(_span(part) for part in parts) if text.strip() else ()
    except (ValueError, AttributeError):
        raise ValueError(f"'{text[:80]}' is not valid; {FORMS}") from None


def _span(text: str) -> Span:
    found = _SPAN.fullmatch(text)
    if found is None:
        raise ValueError(text)
    first, last, *clock = found.groups()
    start, end = _minute(*clock[:2]), _minute(*clock[2:])
    if start == 1440:
        raise ValueError(text)
    days = frozenset(range(7))
    if first:
        low, high = DAYS.index(first), DAYS.index(last or first)
        days = frozenset(day % 7 for day in range(low, high + 1 + 7 * (high < low)))
    return Span(days, start, end if end > start else end + 1440)


def _minute(hour: str, minute: str) -> int:
    found = 60 * int(hour) + int(minute)
    if int(minute) > 59 or found > 1440:
        raise ValueError(hour)
    return found


def parse_zone(name: str) -> tzinfo:
    """The zone of a queue. Machines differ in their own, so none is taken for granted."""
    zone = zone_named(name or "UTC")
    if zone is None:
        raise ValueError(f"'{name}' is not known everywhere; expected a name such as Europe/Berlin")
    return zone


def turn(spans: tuple[Span, ...], zone: tzinfo, now_s: float) -> tuple[bool, float]:
    """Whether it is open now, and when that changes; 0: never."""
    times = _times(spans, zone, now_s)
    is_open = not spans or any(start_s <= now_s < end_s for start_s, end_s in times)
    # What follows on the last day is not known.
    last_s = max((start_s for start_s, _ in times), default=0.0)
    for edge_s in sorted({edge for span in times for edge in span if edge <= last_s}):
        if edge_s > now_s and is_open != any(a <= edge_s < b for a, b in times):
            return is_open, edge_s
    return is_open, 0.0


def _times(spans: tuple[Span, ...], zone: tzinfo, now_s: float) -> list[tuple[float, float]]:
    """The spans of the days around now, as moments."""
    today = datetime.fromtimestamp(now_s, zone).date()
    found = []
    for ahead in range(-1, AHEAD):
        day = today + timedelta(days=ahead)
        midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
        for span in spans:
            if day.weekday() in span.days:
                # Minutes are added on the clock of the place, not to the moment.
                start, end = (midnight + timedelta(minutes=m) for m in span[1:])
                found.append((start.timestamp(), end.timestamp()))
    return found


def standing(queue: Queue, now_s: float) -> Queue:
    """The queue as it stands now: whether it is outside its hours, and until when."""
    is_open, turns_s = turn(parse_hours(queue.hours), parse_zone(queue.zone), now_s)
    return msgspec.structs.replace(queue, outside=not is_open, turns_s=turns_s)
