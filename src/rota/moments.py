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
#: A length with its unit: so long from now, or in the past so long ago.
_LENGTH = re.compile(r"(now)?([+-]?)([0-9][0-9a-z.]*)")
_FORMS = (
    "expected a moment such as now, 2h (from now), 18:00, today, tomorrow 9:00, mon 7:30, "
    "2026-11-15T18:00 or 2026-11-15T18:00:00Z"
)
_PAST_FORMS = (
    "expected a moment such as now, 2h (ago), 18:00, today, yesterday 9:00, mon 7:30, "
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
    """Seconds since the epoch; ``ValueError`` says what is allowed.

    What may be meant twice is to come: ``2h`` is from now, ``18:00`` and ``mon`` are the next.
    """
    try:
        return _read(text, now_s, zone, ahead=True)
    except (ValueError, OverflowError):
        raise ValueError(f"'{text[:60]}' is not valid; {_FORMS}") from None


def parse_past(text: str, now_s: float, zone: tzinfo | None) -> float:
    """A moment as ``parse_last`` reads it, which must have passed."""
    moment_s = parse_last(text, now_s, zone)
    if moment_s > now_s:
        raise ValueError(f"'{text[:60]}' is in the future; expected a moment that has passed")
    return moment_s


def parse_last(text: str, now_s: float, zone: tzinfo | None) -> float:
    """What may be meant twice has passed: ``2h`` is that long ago, ``18:00`` and ``mon`` are the
    last. A date may be to come."""
    try:
        return _read(text, now_s, zone, ahead=False)
    except (ValueError, OverflowError):
        raise ValueError(f"'{text[:60]}' is not valid; {_PAST_FORMS}") from None


def _read(text: str, now_s: float, zone: tzinfo | None, *, ahead: bool) -> float:
    words = text.strip().lower().split()
    if words == ["now"]:
        return now_s
    ago = len(words) == 2 and words[1] == "ago"
    if (len(words) == 1 or ago) and (found := _LENGTH.fullmatch(words[0])):
        now, sign, length = found.groups()
        # A bare number may be anything; behind a sign it is seconds.
        if (now and not sign) or (ago and sign) or not (sign or length[-1].isalpha()):
            raise ValueError
        back = sign == "-" or ago or not (sign or ahead)
        return now_s + parse_duration_ms(length) / 1000 * (-1 if back else 1)
    return _on_the_clock(words, now_s, zone, ahead=ahead)


def _on_the_clock(words: list[str], now_s: float, zone: tzinfo | None, *, ahead: bool) -> float:
    now = _shown(now_s, zone)
    day, *rest = words
    if len(words) > 2:
        raise ValueError
    if found := _CLOCK.fullmatch(day):
        if rest:
            raise ValueError
        return _nearest(_at(now, found), 1, now_s, zone, ahead=ahead)
    clock = _CLOCK.fullmatch(rest[0]) if rest else None
    if rest and clock is None:
        raise ValueError
    if day in _NEAR:
        return _seconds(_at(now + timedelta(days=_NEAR[day]), clock), zone)
    if day in _WEEKDAYS:
        on_day = now + timedelta(days=(_WEEKDAYS[day] - now.weekday()) % 7)
        return _nearest(_at(on_day, clock), 7, now_s, zone, ahead=ahead)
    return _calendar(" ".join(words), zone)


def _nearest(
    moment: datetime, days: int, now_s: float, zone: tzinfo | None, *, ahead: bool
) -> float:
    """Of moments that come every day, or every seven, the next or the last."""
    if ahead and _seconds(moment, zone) <= now_s:
        moment += timedelta(days=days)
    if not ahead and _seconds(moment, zone) > now_s:
        moment -= timedelta(days=days)
    return _seconds(moment, zone)


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
