"""The fields of a job as people read them: for tables, sorting and ``--fields``. Pure."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.cli.shared.foretold import in_words
from rota.cli.shared.render import Column
from rota.client.errors import ClientError
from rota.core.words.units import format_duration, format_mib

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Job = Mapping[str, Any]

FINISHED = frozenset(
    {"completed", "failed", "cancelled", "timeout", "node_failed", "unschedulable"}
)
STATES = ("held", "queued", "scheduled", "running", "preempted", *sorted(FINISHED))
COLOURS = {
    "running": "green",
    "scheduled": "green",
    "queued": "yellow",
    "held": "magenta",
    "preempted": "magenta",
    "completed": "cyan",
    "cancelled": "bright_black",
}


def colour(state: str) -> str:
    """Red for every end that nobody wished for."""
    return COLOURS.get(state, "red")


def seconds(moment: str | None) -> float | None:
    """An RFC 3339 time of the API as seconds since the epoch."""
    return datetime.fromisoformat(moment).timestamp() if moment else None


def clock(length_s: float | None) -> str:
    """``0:07``, ``12:34``, ``1:02:03``, ``2-01:02:03``."""
    if length_s is None:
        return "-"
    minutes, second = divmod(int(max(length_s, 0)), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}-{hour:02d}:{minute:02d}:{second:02d}"
    return f"{hour}:{minute:02d}:{second:02d}" if hour else f"{minute}:{second:02d}"


def local_time(moment: str | None) -> str:
    """A time of the API on this machine's clock, without a zone."""
    if not moment:
        return ""
    return datetime.fromisoformat(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def display_id(job: Job) -> str:
    """``12``, ``5_3`` for an element, ``5_[3-99%4]`` for those of an array that wait together."""
    array = job.get("array_id")
    if job.get("array_indices"):
        return f"{array or job['id']}_[{job['array_indices']}]"
    if array and job.get("array_index") is not None:
        return f"{array}_{job['array_index']}"
    return str(job["id"])


def run_time_s(job: Job, now_s: float) -> float | None:
    """How long it has run, or ran."""
    started_s = seconds(job.get("started_at"))
    if started_s is None:
        return None
    ended_s = seconds(job.get("ended_at"))
    return (now_s if ended_s is None else ended_s) - started_s


def wait_time_s(job: Job, now_s: float) -> float | None:
    """How long it has waited, or waited before it started or was given up."""
    submitted_s = seconds(job.get("submitted_at"))
    until_s = seconds(job.get("started_at")) or seconds(job.get("ended_at")) or now_s
    return None if submitted_s is None else until_s - submitted_s


def _resource(holder: Job, name: str) -> float:
    """What one task of a job, or of a role, asks for."""
    value = (holder.get("resources") or {}).get(name) or 0
    return float(value)


def _total(job: Job, name: str) -> float:
    """Of all tasks together; of an elastic job that runs, of those that it has now."""
    roles = job.get("roles") or ()
    each = [_resource(role, name) for role in roles for _ in range(role["count"])]
    each = each or [_resource(job, name)] * int(job.get("tasks") or 1)
    held = job.get("allocations") or ()
    if held and (job.get("min_tasks") or any(role.get("min_count") for role in roles)):
        return sum(each[int(one["task"])] for one in held)
    return sum(each)


def cpus(job: Job) -> float:
    """CPUs of all tasks together."""
    return _total(job, "cpus")


def memory(job: Job) -> str:
    mib = int(_total(job, "memory_mb"))
    return format_mib(mib) if mib else "-"


def gpus(job: Job) -> str:
    """``2``, ``2xA100``; a share of one is ``1/8G`` or ``0.5``."""
    count = _total(job, "gpus")
    if not count:
        return "-"
    resources = job["resources"]
    model = resources.get("gpu_type") or ""
    named_mib = int(resources.get("gpu_memory_mb") or 0)
    share = f"/{format_mib(named_mib)}" if resources.get("shared") and named_mib else ""
    return f"{count:g}{'x' + model if model else ''}{share}"


def where_or_why(job: Job) -> str:
    """The nodes of a running job, the reason of a waiting one, the cause of an ended one."""
    state = job["state"]
    if state in {"running", "scheduled"}:
        nodes = ",".join(job.get("nodes") or ())
        return f"{nodes}: {job['reason']}" if job.get("reason") else nodes
    if state == "completed":
        return str(job["cause"]) if job.get("count") and job.get("cause") else ""
    if state in FINISHED:
        # "exit: exit code 3" says it twice.
        return str(job.get("cause") or "").removeprefix("exit: ").removeprefix("signal: ")
    return str(job.get("reason") or "")


def _start_text(job: Job) -> str:
    """When a job that waits will probably start, as far as that was asked for."""
    foretold = job.get("foretold")
    return in_words(foretold) if foretold else ""


def progress_text(job: Job) -> str:
    """``40% epoch 19 (12m left)``: what the job said, and when it ends if it goes on so."""
    said = job.get("progress")
    if not said:
        return ""
    words = [f"{100 * said['fraction']:.0f}%", str(said["message"])]
    ends_s = seconds(said["ends_at"])
    if ends_s is not None and said["fraction"] < 1:
        words.append(f"({format_duration(max(1, int(ends_s - time.time())))} left)")
    return " ".join(word for word in words if word)


class Field(NamedTuple):
    """How a field is shown (``show``) and sorted (``sort``; None: as it is shown)."""

    column: Column
    show: Callable[[Job, float], object]
    sort: Callable[[Job, float], object] | None = None


def _plain(key: str) -> Callable[[Job, float], object]:
    return lambda job, _now_s: "" if job.get(key) is None else job[key]


def _limit(job: Job, _now_s: float) -> str:
    return format_duration(int(job["time_limit_s"])) if job.get("time_limit_s") else "-"


def _text(title: str, key: str, *, shrinks: bool = True) -> Field:
    return Field(Column(title, shrinks=shrinks), _plain(key))


def _time(title: str, key: str) -> Field:
    return Field(Column(title), lambda job, _: local_time(job.get(key)), _plain(key))


FIELDS: dict[str, Field] = {
    "ref": Field(Column("REF"), lambda job, _: display_id(job), _plain("id")),
    "id": Field(Column("ID"), lambda job, _: display_id(job), _plain("id")),
    "name": Field(Column("NAME", shrinks=True, least=8), _plain("name")),
    "user": Field(Column("USER", shrinks=True, least=5), _plain("user")),
    "state": Field(Column("STATE"), _plain("state")),
    "time": Field(
        Column("TIME", right=True),
        lambda job, now_s: clock(run_time_s(job, now_s)),
        lambda job, now_s: run_time_s(job, now_s) or 0.0,
    ),
    "cpus": Field(
        Column("CPUS", right=True), lambda job, _: f"{cpus(job):g}", lambda job, _: cpus(job)
    ),
    "mem": Field(
        Column("MEM", right=True),
        lambda job, _: memory(job),
        lambda job, _: _total(job, "memory_mb"),
    ),
    "gpus": Field(
        Column("GPUS", right=True),
        lambda job, _: gpus(job),
        lambda job, _: _total(job, "gpus"),
    ),
    "where": Field(Column("REASON/NODE", shrinks=True, least=8), lambda job, _: where_or_why(job)),
    "start": Field(Column("STARTS", shrinks=True, least=12), lambda job, _: _start_text(job)),
    "progress": Field(Column("PROGRESS", shrinks=True, least=4), lambda job, _: progress_text(job)),
    "project": _text("PROJECT", "project"),
    "queue": _text("QUEUE", "queue"),
    "group": _text("GROUP", "group"),
    "priority": Field(Column("PRIO", right=True), _plain("priority")),
    "limit": Field(Column("LIMIT", right=True), _limit, _plain("time_limit_s")),
    "wait": Field(
        Column("WAITED", right=True),
        lambda job, now_s: clock(wait_time_s(job, now_s)),
        lambda job, now_s: wait_time_s(job, now_s) or 0.0,
    ),
    "submitted": _time("SUBMITTED", "submitted_at"),
    "started": _time("STARTED", "started_at"),
    "ended": _time("ENDED", "ended_at"),
    "exit": Field(Column("EXIT", right=True), _plain("exit_code")),
    "cause": _text("CAUSE", "cause"),
    "reason": _text("REASON", "reason"),
    "nodes": Field(Column("NODES", shrinks=True), lambda job, _: ",".join(job.get("nodes") or ())),
    "tasks": Field(Column("TASKS", right=True), _plain("tasks")),
    "workdir": _text("WORKDIR", "workdir"),
    "uid": _text("UID", "uid", shrinks=False),
}

#: Fields whose value for programs is not what the job has under that name.
_DATA: dict[str, Callable[[Job, float], object]] = {
    "time": run_time_s,
    "wait": wait_time_s,
    "cpus": lambda job, _: cpus(job),
    "mem": lambda job, _: int(_total(job, "memory_mb")),
    "gpus": lambda job, _: _total(job, "gpus"),
    "where": lambda job, _: where_or_why(job),
    "limit": lambda job, _: job.get("time_limit_s") or None,
    "submitted": lambda job, _: job.get("submitted_at"),
    "started": lambda job, _: job.get("started_at"),
    "ended": lambda job, _: job.get("ended_at"),
    "exit": lambda job, _: job.get("exit_code"),
}


def datum(job: Job, name: str, now_s: float) -> object:
    """The value of a field for programs: numbers and moments as they are, times in seconds."""
    read = _DATA.get(name)
    return job.get(name) if read is None else read(job, now_s)


DEFAULT_FIELDS = ("id", "name", "user", "state", "time", "cpus", "mem", "gpus", "where")


def field(name: str) -> Field:
    """The field of that name, or a refusal that names the nearest one."""
    if name in FIELDS:
        return FIELDS[name]
    from difflib import get_close_matches

    close = get_close_matches(name, FIELDS, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(FIELDS)}"
    raise ClientError(f"there is no field '{name}'; {hint}")


def sorted_jobs(jobs: Sequence[Job], names: Sequence[str], now_s: float) -> list[Job]:
    """By several fields; ``-`` in front turns one round. Equal ones stay as they are."""
    ordered = list(jobs)
    for name in reversed(names):
        chosen = field(name.removeprefix("-"))
        key = chosen.sort or chosen.show
        ordered.sort(key=lambda job, key=key: _sortable(key(job, now_s)), reverse=name[0] == "-")  # type: ignore[misc]
    return ordered


def _sortable(value: object) -> tuple[bool, float, str]:
    """Numbers before words, so that a field with gaps still sorts."""
    if isinstance(value, int | float):
        return (False, float(value), "")
    return (True, 0.0, str(value))
