"""Read and print amounts and times as people write them: ``16G``, ``1.5``, ``2h``, ``now+10m``.

Inside Rota amounts are whole numbers (``memory_mib``, ``cpu_milli``) and times are seconds since
the epoch. Text becomes numbers here, exactly and once. Whatever cannot be read is a
``ValueError`` whose text says what is allowed; the caller adds the name of the field.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.core.facts.resources import Request

#: Larger amounts are typing errors; the bound also keeps every sum inside 64 bits.
MAX_SIZE_BYTES = 1 << 60
MAX_CPU_MILLI = 1_000_000 * 1000
MAX_DURATION_S = 100 * 366 * 86_400

#: Named priorities on the scale of 0 to 100. Inside they count ten times as much, so that 60,
#: 40 and 20 are the 600, 400 and 200 of sites that think in thousands.
BANDS = MappingProxyType(
    {
        "critical": 100,
        "urgent": 80,
        "high": 75,
        "normal": 50,
        "low": 25,
        "batch": 10,
        "scavenger": 0,
    }
)

_SHIFT = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
_SIZE = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,9}))? ?([kmgtp]?)(?:i?b)?")
_CPUS = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?(m?)")

_UNIT_MS = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
    "y": 365 * 86_400_000,
}
_PART = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,9}))?(ms|[smhdwy])")
_PARTS = re.compile(r"(?:[0-9]{1,12}(?:\.[0-9]{1,9})?(?:ms|[smhdwy]))+")
_SECONDS = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,9}))?")
_CLOCK = re.compile(r"(?:([0-9]{1,6})-)?([0-9]{1,6}):([0-9]{2}):([0-9]{2})")

_SIZE_FORMS = "expected a size such as 512m, 8g, 16GB or 1.5T (binary units)"
_CPU_FORMS = "expected a number of CPUs such as 4, 1.5 or 500m (thousandths)"
_DURATION_FORMS = "expected a time such as 90, 90s, 15m, 2h, 1d, 1h30m, HH:MM:SS or D-HH:MM:SS"


def parse_size_bytes(text: str) -> int:
    """``8g``, ``16GB``, ``512m``, ``1.5T``, ``1024k``, ``1024b``; a bare number is bytes.

    Units are binary, in either case; an empty text is 0; a broken byte counts as a whole one.
    """
    body = _clean(text)
    if not body:
        return 0
    found = _SIZE.fullmatch(body)
    if found is None:
        raise ValueError(_refusal(text, _SIZE_FORMS))
    size = _scaled(found[1], found[2], 1 << _SHIFT[found[3]])
    if size > MAX_SIZE_BYTES:
        raise ValueError(_refusal(text, "at most 1024p"))
    return size


def refuse_bare_size(text: str) -> None:
    """A bare small number is nearly always meant as megabytes: ask instead of guessing."""
    if re.fullmatch(r"[0-9]+", text.strip()) and 0 < int(text) < 1 << 20:
        raise ValueError(f"'{text}' would be bytes; write {text.strip()}m or {text.strip()}g")


def parse_memory_mib(text: str) -> int:
    """The same text in whole MiB, rounded up: what was asked for is never cut."""
    return -(-parse_size_bytes(text) // (1 << 20))


def parse_cpu_milli(text: str) -> int:
    """``4``, ``1.5`` or ``500m`` in thousandths of a CPU, rounded up."""
    found = _CPUS.fullmatch(_clean(text))
    if found is None or (found[3] and found[2]):
        raise ValueError(_refusal(text, _CPU_FORMS))
    milli = int(found[1]) if found[3] else _scaled(found[1], found[2], 1000)
    if milli > MAX_CPU_MILLI:
        raise ValueError(_refusal(text, f"at most {MAX_CPU_MILLI // 1000} CPUs"))
    return milli


def parse_duration_s(text: str) -> int:
    """``90``, ``90s``, ``15m``, ``2h``, ``1d``, ``1h30m``, ``HH:MM:SS`` or ``D-HH:MM:SS``.

    In whole seconds, rounded up. ``10:30`` is refused: some read it as hours, some as minutes.
    """
    return -(-parse_duration_ms(text) // 1000)


def parse_duration_ms(text: str) -> int:
    """The same text in milliseconds, for short waits such as ``0.5`` or ``200ms``."""
    body = _clean(text)
    length_ms = _duration_ms(body)
    if length_ms is None:
        hint = _DURATION_FORMS
        if re.fullmatch(r"[0-9]+:[0-9]{2}", body):
            first, last = body.split(":")
            hint = f"write {first}h{last}m or {first}m{last}s, so that it cannot be misread"
        raise ValueError(_refusal(text, hint))
    if length_ms > MAX_DURATION_S * 1000:
        raise ValueError(_refusal(text, "at most 100 years"))
    return length_ms


def _duration_ms(body: str) -> int | None:
    if found := _SECONDS.fullmatch(body):
        return _scaled(found[1], found[2], 1000)
    if _PARTS.fullmatch(body):
        parts = _PART.findall(body)
        units = [_UNIT_MS[unit] for _, _, unit in parts]
        if any(later >= earlier for earlier, later in pairwise(units)):
            return None
        return sum(_scaled(whole, part, _UNIT_MS[unit]) for whole, part, unit in parts)
    if found := _CLOCK.fullmatch(body):
        days, hours, minutes, seconds = (int(group or 0) for group in found.groups())
        if minutes > 59 or seconds > 59 or (found[1] and hours > 23):
            return None
        return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000
    return None


def format_mib(memory_mib: int) -> str:
    """The shortest text that ``parse_memory_mib`` reads back as the same number."""
    size = memory_mib
    for unit in "MGTP":
        if size % 1024 or size == 0 or unit == "P":
            break
        size //= 1024
    larger = {"M": "G", "G": "T", "T": "P"}.get(unit)
    if larger and size > 1024 and size * 10 % 1024 == 0:
        tenths = size * 10 // 1024
        return f"{tenths // 10}.{tenths % 10}{larger}"
    return f"{size}{unit}" if size else "0"


def format_cpu(cpu_milli: int) -> str:
    """``4``, ``1.5``, ``0.25``: what ``parse_cpu_milli`` reads back as the same number."""
    whole, rest = divmod(cpu_milli, 1000)
    return f"{whole}.{rest:03d}".rstrip("0").rstrip(".")


def format_duration(length_s: int) -> str:
    """``2h``, ``1d1h``, ``1m30s``: what ``parse_duration_s`` reads back as the same number."""
    text = ""
    rest = length_s
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def format_when(moment_s: float) -> str:
    """RFC 3339 in UTC, to the millisecond when there is a broken second."""
    moment = datetime.fromtimestamp(moment_s, UTC)
    unit = "milliseconds" if moment.microsecond else "seconds"
    return moment.isoformat(timespec=unit).replace("+00:00", "Z")


def device_type(request: Request) -> str:
    """What kind of device a request needs: ``cpu``, ``gpu`` or ``tpu``; unset means ``cpu``."""
    return request.device or "cpu"


def device_variant(request: Request) -> str | None:
    """The model that was named, such as ``A100`` or ``v5litepod-16``; None when any will do."""
    return None if request.device_type in {"", "auto"} else request.device_type


def gpu_count(request: Request) -> int:
    """How many GPUs: a GPU request without a count means one, any other kind none."""
    return max(request.device_count, 1) if request.device == "gpu" else 0


def _clean(text: str) -> str:
    """Blanks round it and case do not matter. Digits and letters of other scripts are no units."""
    body = text.strip()
    return body.lower() if body.isascii() else body


def _scaled(whole: str, part: str | None, unit: int) -> int:
    """``whole.part`` times ``unit`` without floating point, rounded up."""
    part = part or ""
    tens: int = 10 ** len(part)
    return -(-int(whole + part) * unit // tens)


def _refusal(text: str, hint: str) -> str:
    shown = repr(text if len(text) <= 60 else text[:57] + "...")
    return f"{shown} is not valid; {hint}"


def format_indices(indices: list[int]) -> str:
    """Indices in rising order as people write them: ``3,7-9``."""
    spans: list[list[int]] = []
    for index in indices:
        if spans and index == spans[-1][1] + 1:
            spans[-1][1] = index
        else:
            spans.append([index, index])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def counted(amount: float, things: str) -> str:
    """``1 CPU``, ``2 CPUs``, ``0.5 CPUs``, of what is named in the plural."""
    shown = str(int(amount)) if amount == int(amount) else f"{amount:g}"
    return f"{shown} {things.removesuffix('s') if amount == 1 else things}"
