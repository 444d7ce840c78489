"""The values of Slurm's options: times, sizes, counts. What cannot be read gives ``ValueError``."""

from __future__ import annotations

import re
import signal as signals
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rota.digits import is_digits

if TYPE_CHECKING:
    from datetime import tzinfo

#: Larger numbers are a typing error, whatever they stand for.
NUMBER_MAX = 2**31 - 1
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_UNITS_S = {"second": 1, "minute": _MINUTE, "hour": _HOUR, "day": _DAY, "week": 7 * _DAY}
_DAYS = {"today": 0, "tomorrow": 1}
_CLOCK = {"midnight": "00:00", "noon": "12:00", "fika": "15:00", "teatime": "16:00"}


def minutes(text: str) -> int:
    """``M``, ``M:S``, ``H:M:S``, ``D-H``, ``D-H:M``, ``D-H:M:S``, rounded up; 0 for no limit."""
    if text.upper() in {"UNLIMITED", "INFINITE", "-1"}:
        return 0
    found = re.fullmatch(
        r"(?:([0-9]{1,6})-)?([0-9]{1,9})(?::([0-9]{1,6}))?(?::([0-9]{1,6}))?", text.strip()
    )
    if found is None:
        raise ValueError(text)
    days, first, second, third = found.groups()
    parts = [int(part) for part in (first, second, third) if part is not None]
    if days is None and len(parts) < 3:
        parts = [0, *parts]
    hours, mins, secs = (*parts, 0, 0)[:3]
    total_s = int(days or 0) * _DAY + hours * _HOUR + mins * _MINUTE + secs
    return min(-(-total_s // _MINUTE), NUMBER_MAX // _MINUTE)


def megabytes(text: str) -> int:
    """``500``, ``500M``, ``2G``, ``2GB``, ``204800K``: MiB, what is broken is rounded up."""
    found = re.fullmatch(r"([0-9]{1,12})([kKmMgGtT]?)[bB]?", text.strip())
    if found is None:
        raise ValueError(text)
    amount, unit = int(found[1]), found[2].upper() or "M"
    if unit == "K":
        return -(-amount // 1024)
    return amount * {"M": 1, "G": 1024, "T": 1024 * 1024}[unit]


def node_counts(text: str) -> tuple[int, int]:
    """``4``, ``2-4``, ``2k``: the fewest and the most."""
    found = re.fullmatch(r"([0-9]{1,9}[kKmM]?)(?:-([0-9]{1,9}[kKmM]?))?", text.strip())
    if found is None:
        raise ValueError(text)
    least = _scaled(found[1])
    most = _scaled(found[2]) if found[2] else least
    if least < 1 or most < least or most > NUMBER_MAX:
        raise ValueError(text)
    return least, most


def _scaled(text: str) -> int:
    scale = {"k": 1024, "m": 1024 * 1024}.get(text[-1].lower(), 1)
    return int(text.rstrip("kKmM")) * scale


def whole(text: str, least: int = 1) -> int:
    """A plain number."""
    if not re.fullmatch(r"[0-9]{1,10}", text.strip()) or not least <= int(text) <= NUMBER_MAX:
        raise ValueError(text)
    return int(text)


def gpus(text: str) -> tuple[str, int]:
    """``4``, ``h200``, ``h200:4``: the model, if one is named, and how many."""
    found = re.fullmatch(r"(?:([A-Za-z][\w.-]*)(?::|$))?([0-9]{1,6})?", text.strip())
    if found is None or not text.strip() or text.endswith(":"):
        raise ValueError(text)
    return found[1] or "", int(found[2] or 1)


def gres(text: str) -> list[tuple[str, int]]:
    """``gpu``, ``gpu:4``, ``gpu:h200:4``, several with commas; empty for ``none``."""
    found: list[tuple[str, int]] = []
    for part in text.split(","):
        name, _, rest = part.strip().removeprefix("gres:").partition(":")
        if name.upper() in {"NONE", ""}:
            continue
        if name != "gpu":
            raise ValueError(text)
        found.append(gpus(rest.split("(")[0]) if rest else ("", 1))
    return found


def signal_number(text: str) -> int:
    """``USR1``, ``SIGUSR1`` or ``10``."""
    word = text.strip().upper()
    if is_digits(word) and 0 < int(word) < signals.NSIG:
        return int(word)
    name = word if word.startswith("SIG") else f"SIG{word}"
    known = getattr(signals, name, None) if re.fullmatch(r"SIG[A-Z0-9]+", name) else None
    if not isinstance(known, signals.Signals):
        raise ValueError(text)
    return int(known)


def warning(text: str) -> tuple[str, int, int]:
    """``[R][B]:USR1@90``: the flags, the number of the signal, seconds before the end."""
    head, mark, rest = text.strip().rpartition(":")
    if mark and (not head or head.upper().strip("RB")):
        raise ValueError(text)
    name, _, ahead = rest.partition("@")
    ahead_s = 60 if not ahead else whole(ahead, 0)
    return head.upper(), signal_number(name), ahead_s


def moment(text: str, now_s: float, zone: tzinfo | None = None, *, past: bool = False) -> float:
    """``now+1hour``, ``16:00``, ``tomorrow``, ``2026-11-15[T12:34[:56]]``, as seconds.

    A time of the day is the next one; of what is ``past`` it is that of today.
    """
    word = text.strip()
    now = datetime.fromtimestamp(now_s, zone)
    clock, mark, day = word.lower().rpartition("-")
    if mark and day in _DAYS:
        # ``noon-tomorrow``
        return _at(_CLOCK.get(clock, clock), now + timedelta(days=_DAYS[day])).timestamp()
    if word.lower().startswith("now"):
        return now_s + _offset(word[3:])
    lower = word.lower()
    if lower in _DAYS:
        return (_at("0:0", now) + timedelta(days=_DAYS[lower])).timestamp()
    if lower in _CLOCK or re.fullmatch(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?( ?[ap]m)?", lower):
        when = _at(_CLOCK.get(lower, lower), now)
        return (when if past or when > now else when + timedelta(days=1)).timestamp()
    return _date(word, now).timestamp()


def _offset(text: str) -> float:
    """``+1hour``, ``+30``, ``-2days``; a bare number is seconds."""
    if not text:
        return 0.0
    found = re.fullmatch(r"([+-])([0-9]{1,9})([a-z]*)", text.lower().replace(" ", ""))
    if found is None:
        raise ValueError(text)
    units = [s for name, s in _UNITS_S.items() if found[3] in {"", name, f"{name}s"}]
    if not units:
        raise ValueError(text)
    amount = int(found[2]) * (units[0] if found[3] else 1)
    return float(-amount if found[1] == "-" else amount)


def _at(text: str, day: datetime) -> datetime:
    """The moment of a day at which the clock shows this."""
    half = text[-2:] if text[-2:] in {"am", "pm"} else ""
    hour, minute, second = (*map(int, text.removesuffix(half).strip().split(":")), 0)[:3]
    if half:
        hour = hour % 12 + 12 * (half == "pm")
    return day.replace(hour=hour, minute=minute, second=second, microsecond=0)


def _date(word: str, now: datetime) -> datetime:
    for form in ("%m%d%y", "%m/%d/%y", "%m.%d.%y", "%m/%d", "%m%d"):
        date, _, clock = word.partition("-" if "/" in word else "T")
        try:
            day = datetime.strptime(f"{date} {clock or '0:0'} +0000", f"{form} %H:%M %z")
        except ValueError:
            continue
        year = day.year if "%y" in form else now.year
        return day.replace(year=year, tzinfo=now.tzinfo)
    plain = re.sub(r"^([0-9-]{10})-", r"\1T", word)
    return datetime.fromisoformat(plain).replace(tzinfo=now.tzinfo)
