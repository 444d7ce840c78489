"""Times, durations and sizes in the words that Slurm prints them with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rota.digits import is_digits

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_UNITS = "KMGTP"
#: What Slurm holds for "no such index"; it shows through in the file names of waiting arrays.
NO_INDEX = 4294967294


def short_duration(seconds: int | None) -> str:
    """``1:08``, ``1:00:00``, ``1-00:00:00``: squeue and sinfo leave out what is zero."""
    if seconds is None:
        return "UNLIMITED"
    if seconds < 0:
        return "INVALID"
    days, rest = divmod(seconds, _DAY)
    hours, rest = divmod(rest, _HOUR)
    minutes, rest = divmod(rest, _MINUTE)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{rest:02}"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def full_duration(seconds: int | None) -> str:
    """``00:01:08`` and ``1-00:00:00``: scontrol and sacct print every part."""
    if seconds is None:
        return "UNLIMITED"
    days, rest = divmod(max(seconds, 0), _DAY)
    hours, rest = divmod(rest, _HOUR)
    clock = f"{hours:02}:{rest // _MINUTE:02}:{rest % _MINUTE:02}"
    return f"{days}-{clock}" if days else clock


def cpu_time(seconds: float) -> str:
    """``00:00.019``: with thousandths as long as it is less than an hour."""
    whole = int(seconds)
    if whole >= _HOUR:
        return full_duration(whole)
    milli = round((seconds - whole) * 1000) % 1000
    return f"{whole // _MINUTE:02}:{whole % _MINUTE:02}.{milli:03}"


def size_text(mib: int, *, convert: bool = True, unit: str = "") -> str:
    """A number of MiB: ``500M``, ``4G``. Only what stays whole moves up to a larger unit."""
    return _unit_text(mib, 1, convert=convert, unit=unit)


def count_text(count: int, *, convert: bool = True) -> str:
    """A plain number; Slurm writes 1024 as ``1K`` unless it is told not to convert."""
    return _unit_text(count, -1, convert=convert, unit="")


def _unit_text(amount: int, at: int, *, convert: bool, unit: str) -> str:
    if unit and unit in _UNITS:
        return _in_unit(amount, at, unit)
    while convert and amount and amount % 1024 == 0 and at < len(_UNITS) - 1:
        amount //= 1024
        at += 1
    return f"{amount}{_UNITS[at]}" if at >= 0 else str(amount)


def _in_unit(amount: int, at: int, unit: str) -> str:
    value = amount * 1024.0 ** (at - _UNITS.index(unit))
    return f"{value:.0f}{unit}" if value == int(value) else f"{value:.2f}{unit}"


def zone_of(name: str) -> tzinfo | None:
    """The zone that a caller's ``TZ`` names; None: that of the machine we are on."""
    if not name:
        return None
    try:
        return ZoneInfo(name.removeprefix(":"))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return _fixed_zone(name)


def _fixed_zone(name: str) -> tzinfo:
    """``UTC+3`` of POSIX, which is three hours *behind* UTC; anything odd is UTC, as in libc."""
    tail = name.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz<>")
    sign, digits = (tail[:1], tail[1:]) if tail[:1] in "+-" else ("+", tail)
    if not is_digits(digits) or int(digits) > 24 or int(digits) == 0:
        return UTC
    hours = int(digits) % 24
    return timezone(timedelta(hours=-hours if sign == "+" else hours))


class Moments:
    """Prints moments as one caller wants them: in its zone, by its ``SLURM_TIME_FORMAT``."""

    def __init__(self, now_s: float, zone: tzinfo | None = None, pattern: str = "") -> None:
        self.now_s = now_s
        self.zone = zone
        self._pattern = "" if pattern == "standard" else pattern

    def text(self, moment_s: float, absent: str = "Unknown") -> str:
        """``2026-11-15T01:34:17``; ``absent`` for a moment that never came."""
        if moment_s <= 0:
            return absent
        there = datetime.fromtimestamp(int(moment_s), self.zone)
        if not self._pattern:
            return there.isoformat(timespec="seconds")[:19]
        if self._pattern == "relative":
            return self._relative(there)
        try:
            return there.strftime(self._pattern)
        except (ValueError, UnicodeError):
            return there.isoformat(timespec="seconds")[:19]

    def _relative(self, there: datetime) -> str:
        today = datetime.fromtimestamp(int(self.now_s), self.zone).date()
        away = (there.date() - today).days
        if away == 0:
            return there.strftime("%H:%M:%S")
        if away in (-1, 1):
            return there.strftime("Ystday %H:%M" if away < 0 else "Tomorr %H:%M")
        if 0 < away < 7:
            return there.strftime("%a %H:%M")
        return there.strftime("%-d %b %H:%M")

    def date_line(self) -> str:
        """``Sun Nov 15 01:34:11 2026``: the first line of long listings."""
        return self.long_text(self.now_s)

    def long_text(self, moment_s: float) -> str:
        return datetime.fromtimestamp(int(moment_s), self.zone).strftime("%a %b %d %H:%M:%S %Y")
