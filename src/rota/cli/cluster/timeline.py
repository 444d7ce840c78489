"""Reservations as text: a table, and when they are on a line of time. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.cli.shared import render
from rota.cli.shared.job_fields import seconds
from rota.core.words.units import counted, format_duration
from rota.moments import show, zone_named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import tzinfo

    Entry = Mapping[str, Any]

COLUMNS = (
    render.Column("ID", right=True),
    render.Column("FOR", shrinks=True, least=8),
    render.Column("WHAT", shrinks=True, least=8),
    render.Column("FROM"),
    render.Column("TO"),
    render.Column("LENGTH", right=True),
    render.Column("STATE"),
    render.Column("NOTE", shrinks=True, least=8),
)
BAR_LEAST, BAR_MOST = 24, 72


def holder(entry: Entry) -> str:
    """For whom it is."""
    if entry.get("maintenance"):
        return "maintenance"
    if entry.get("job_id"):
        return f"job {entry['job_id']}"
    return str(entry.get("owner") or "") or f"project {entry.get('project')}"


def what(entry: Entry) -> str:
    """``2xA100``, ``box: GPU 0,1``, ``nodes a,b``."""
    if entry.get("devices"):
        return f"{entry['node']}: GPU {','.join(map(str, entry['devices']))}"
    nodes = ",".join(entry.get("nodes") or ())
    if entry.get("gpus"):
        model = entry.get("gpu_type")
        where = f" on {nodes}" if nodes else ""
        return (f"{entry['gpus']}x{model}" if model else counted(entry["gpus"], "GPUs")) + where
    return f"nodes {nodes}"


def table(
    entries: Sequence[Entry], width: int | None = None, zone: tzinfo | None = None
) -> list[str]:
    """One line each, on the clock of the zone (None: this machine's)."""
    rows = [
        (
            entry["id"],
            holder(entry),
            what(entry),
            show(_start(entry), zone),
            show(_end(entry), zone),
            format_duration(round(_end(entry) - _start(entry))),
            entry.get("state", ""),
            entry.get("note", ""),
        )
        for entry in entries
    ]
    return render.table(COLUMNS, rows, width)


def bars(
    entries: Sequence[Entry], now_s: float, width: int, zone: tzinfo | None = None
) -> list[str]:
    """Each reservation as a bar from now (or the first that is on) to the last end.

    A bar is never shorter than one column, and a column that a reservation touches is full.
    """
    ahead = [entry for entry in entries if _end(entry) > now_s]
    if not ahead:
        return []
    names = [str(entry["id"]) for entry in ahead]
    lead = max(map(len, names)) + 2
    columns = min(max(width - lead - 2, BAR_LEAST), BAR_MOST)
    first_s = min(now_s, *(_start(entry) for entry in ahead))
    last_s = max(_end(entry) for entry in ahead)
    step_s = (last_s - first_s) / columns
    left, right = show(first_s, zone), show(last_s, zone)
    lines = [" " * lead + left + " " * max(1, columns - len(left) - len(right)) + right]
    for name, entry in zip(names, ahead, strict=True):
        begin = int((_start(entry) - first_s) / step_s)
        end = max(begin + 1, -int(-(_end(entry) - first_s) // step_s))
        bar = "." * begin + "#" * (min(end, columns) - begin)
        lines.append(f"{name:>{lead - 2}}  {bar.ljust(columns, '.')}")
    mark = int((now_s - first_s) / step_s)
    lines.append(" " * (lead + mark) + "^ now")
    return lines


def zone_of(name: str) -> tzinfo | None:
    """The zone of that name, or this machine's when it does not know it."""
    try:
        return zone_named(name)
    except ValueError:
        return None


def _start(entry: Entry) -> float:
    return seconds(entry["start_at"]) or 0.0


def _end(entry: Entry) -> float:
    return seconds(entry["end_at"]) or 0.0
