"""Moments as people name them, on the clock of a place: ``18:00``, ``tomorrow 9:00``, ``mon 7:30``.

A zone of None is the zone of this machine. The clock of a zone jumps twice a year, so a day is
never taken for 24 hours here.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rota.core.words.units import parse_duration_ms

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAYS = {name: n for n, day in enumerate(_DAYS) for name in (day, day[:3])}
_NEAR = {"yesterday": -1, "today": 0, "tomorrow": 1}
_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")
_FORMS = (
    "expected a moment such as now, now+2h, 18:00, today, tomorrow 9:00, mon 7:30, "
    "2026-11-15T18:00 or 2026-11-15T18:00:00Z"
)


def zone_named(name: str) -> tzinfo | None:
    """The zone of that name (``Europe/Berlin``); an empty name or ``local`` is this machine's."""
    if name in ("", "local"):
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(
            f"'{name[:60]}' is not a known time zone; expected a name such as Europe/Berlin or UTC"
        ) from None


def parse_moment(text: str, now_s: float, zone: tzinfo | None) -> float:
    """Seconds since the epoch; ``ValueError`` says what is allowed."""
    words = text.strip().lower().split()
    if words == ["now"]:
        return now_s
    try:
        if len(words) == 1 and words[0].startswith(("now+", "+")):
            length = words[0].removeprefix("now").removeprefix("+")
            return now_s + parse_duration_ms(length) / 1000
        return _on_the_clock(words, now_s, zone)
    except (ValueError, OverflowError):
        raise ValueError(f"'{text[:60]}' is not valid; {_FORMS}") from None


def _on_the_clock(words: list[str], now_s: float, zone: tzinfo | None) -> float:
    now = _shown(now_s, zone)
    day, *rest = words
    if len(words) > 2:
        raise ValueError
    if found := _CLOCK.fullmatch(day):
        moment = _at(now, found)
        if not rest and _seconds(moment, zone) <= now_s:
            moment += timedelta(days=1)
        return _seconds(moment, zone)
    clock = _CLOCK.fullmatch(rest[0]) if rest else None
    if rest and clock is None:
        raise ValueError
    if day in _NEAR:
        return _seconds(_at(now + timedelta(days=_NEAR[day]), clock), zone)
    if day in _WEEKDAYS:
        ahead = (_WEEKDAYS[day] - now.weekday()) % 7
        moment = _at(now + timedelta(days=ahead), clock)
        if _seconds(moment, zone) <= now_s:
            moment += timedelta(days=7)
        return _seconds(moment, zone)
    return _calendar(" ".join(words), zone)


def _calendar(text: str, zone: tzinfo | None) -> float:
    if not re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:$|[t ])", text):
        raise ValueError
    return _seconds(datetime.fromisoformat(text.upper()), zone)


def _at(day: datetime, clock: re.Match[str] | None) -> datetime:
    """That day at a time of the clock; without one at midnight."""
    hour, minute, second = (int(part or 0) for part in clock.groups()) if clock else (0, 0, 0)
    return day.replace(hour=hour, minute=minute, second=second, microsecond=0)


def _shown(moment_s: float, zone: tzinfo | None) -> datetime:
    """The clock of the zone, without a zone of its own: adding days keeps the time of day."""
    if zone is None:
        return datetime.fromtimestamp(moment_s, UTC).astimezone().replace(tzinfo=None)
    return datetime.fromtimestamp(moment_s, zone).replace(tzinfo=None)


def _seconds(moment: datetime, zone: tzinfo | None) -> float:
    if moment.tzinfo is None and zone is not None:
        moment = moment.replace(tzinfo=zone)
    # Without any zone this is the machine's own clock.
    return moment.timestamp()


def show(moment_s: float, zone: tzinfo | None) -> str:
    """``2026-11-15 18:00`` on the clock of the zone."""
    return _shown(moment_s, zone).strftime("%Y-%m-%d %H:%M")
