"""GPUs as a table: who uses them, what was measured, and what somebody should look at."""

from __future__ import annotations

from typing import Any

from rota.cli.shared import render
from rota.cli.shared.job_fields import local_time

_FIRST = (
    render.Column("NODE", shrinks=True, least=8),
    render.Column("GPU", right=True),
    render.Column("MODEL", shrinks=True, least=8),
    render.Column("MEM", right=True),
    render.Column("STATE"),
)
_MEASURED = tuple(render.Column(title, right=True) for title in ("USE", "USED", "POWER", "TEMP"))
_READ = ("use_percent", "memory_used_mib", "power_w", "temperature_c")
_LAST = (
    render.Column("JOBS", shrinks=True, least=6),
    render.Column("OTHERS", shrinks=True, least=8),
)
_NOTE = render.Column("NOTE", shrinks=True, least=8)


def brief_mib(mib: float) -> str:
    """Totals of machines are odd numbers: two digits are enough."""
    for unit, size in (("T", 1 << 20), ("G", 1 << 10)):
        if mib >= size:
            return f"{mib / size:.3g}{unit}"
    return f"{int(mib)}M" if mib else "0"


def gpu_table(gpus: list[dict[str, Any]], width: int | None = None) -> list[str]:
    """Every device, who uses it, and processes outside Rota; figures and notes if there are any."""
    measured = any(gpu.get(name) is not None for gpu in gpus for name in _READ)
    notes = [_note(gpu) for gpu in gpus]
    columns = [*_FIRST, *(_MEASURED if measured else ()), *_LAST, *([_NOTE] if any(notes) else [])]
    rows = [
        (
            gpu.get("node", ""),
            gpu.get("index", ""),
            gpu.get("model") or gpu.get("type") or "",
            brief_mib(gpu.get("memory_mb") or 0),
            _state(gpu),
            *(_figures(gpu) if measured else ()),
            ",".join(map(str, gpu.get("jobs") or ())),
            " ".join(_foreign(use) for use in gpu.get("foreign") or ()),
            *([note] if any(notes) else []),
        )
        for gpu, note in zip(gpus, notes, strict=True)
    ]
    return render.table(columns, rows, width)


def _figures(gpu: dict[str, Any]) -> tuple[str, ...]:
    use, memory, power, heat = (gpu.get(name) for name in _READ)
    return (
        "-" if use is None else f"{use:.0f}%",
        "-" if memory is None else brief_mib(memory),
        "-" if power is None else f"{power:.0f}W",
        "-" if heat is None else f"{heat:.0f}C",
    )


def _note(gpu: dict[str, Any]) -> str:
    """``66 holds 31G, asked for 10G; idle since 2026-11-16 09:30:00; 2 failures, Xid 79``."""
    words = []
    for use in gpu.get("overuse") or ():
        held, asked = brief_mib(use["memory_used_mib"]), use["declared_mib"]
        more = f"asked for {brief_mib(asked)}" if asked else "was not given it"
        words.append(f"{use['job']} holds {held}, {more}")
    if gpu.get("idle_since"):
        words.append(f"idle since {local_time(gpu['idle_since'])}")
    if failures := gpu.get("failures"):
        many = "1 failure" if len(failures) == 1 else f"{len(failures)} failures"
        words.append(f"{many}, {failures[-1]['what']}")
    return "; ".join(words)


def _state(gpu: dict[str, Any]) -> str:
    """A closed device may still be in use by what was started before."""
    state = str(gpu.get("state") or ("free" if gpu.get("available") else "used"))
    return f"{state}+closed" if gpu.get("closed") and state != "closed" else state


def _foreign(use: dict[str, Any]) -> str:
    """``bob:4242:8.79G``, in brackets when it does not count."""
    size = brief_mib(use.get("memory_mb") or 0)
    text = f"{use.get('user') or '?'}:{use.get('pid', '')}:{size}"
    return f"({text})" if use.get("ignored") else text
