"""What Slurm says of a job, in the four shapes in which it says it.

slurmctld by REST uses one, which changes with the version; ``squeue`` and ``sacct`` print lines;
the accounting by REST has a shape of its own, and does not know exit codes.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What ``sacct`` is asked for, in this order. The comment is the only text of a stranger's.
SACCT_FIELDS = "JobIDRaw,State,ExitCode,Submit,Start,End,NodeList,User,Comment"
#: The same of ``squeue``. Its ``--json`` is a tenfold of that for each job, ended ones too.
SQUEUE_FIELDS = (
    *("JobID", "State", "exit_code", "SubmitTime", "StartTime", "EndTime", "NodeList", "UserName"),
    *("RestartCnt", "Partition", "tres-alloc", "Reason", "Comment"),
)

_UNITS = MappingProxyType({"K": 1 / 1024, "M": 1, "G": 1024, "T": 1 << 20, "P": 1 << 30})


class SlurmAmount(NamedTuple):
    """Processors, memory and GPUs."""

    cpus: float = 0
    memory_mib: float = 0
    gpus: float = 0

    def plus(self, other: SlurmAmount, part: float = 1.0) -> SlurmAmount:
        return SlurmAmount(*(mine + part * more for mine, more in zip(self, other, strict=True)))


class SlurmRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A job as Slurm sees it."""

    id: str
    comment: str
    #: As Slurm writes it, without flags: ``RUNNING``.
    state: str
    reason: str = ""
    #: A list in short: ``n[1-3]``.
    nodes: str = ""
    user: str = ""
    submitted_s: float = 0.0
    started_s: float = 0.0
    ended_s: float = 0.0
    #: As ``wait`` gives it; None: this source does not know.
    status: int | None = None
    restarts: int = 0
    #: Who cancelled it.
    by: str = ""
    partition: str = ""
    #: What it holds on all its nodes together.
    held: SlurmAmount = SlurmAmount()


def of_controller(job: dict[str, Any]) -> SlurmRecord:
    """A job of ``/slurm/…/jobs``."""
    states = _words(job.get("job_state"))
    # While it completes its processes may be alive, and an older Slurm hides how it ended.
    state = "COMPLETING" if "COMPLETING" in states else (states or ["UNKNOWN"])[0]
    return SlurmRecord(
        id=str(_number(job.get("job_id"))),
        comment=job.get("comment") or "",
        state=state,
        reason=_reason(job),
        nodes=job.get("nodes") or "",
        user=job.get("user_name") or "",
        submitted_s=_number(job.get("submit_time")),
        started_s=_number(job.get("start_time")),
        ended_s=_number(job.get("end_time")),
        status=_status(job.get("exit_code")),
        restarts=_number(job.get("restart_cnt")),
        partition=job.get("partition") or "",
        held=held_of(job.get("tres_alloc_str") or ""),
    )


def held_of(amounts: str) -> SlurmAmount:
    """Of ``cpu=4,mem=1.5G,node=2,gres/gpu=1,gres/gpu:h200=1``."""
    found = dict(part.split("=", 1) for part in amounts.split(",") if "=" in part)
    return SlurmAmount(
        _amount(found.get("cpu", "")),
        _amount(found.get("mem", "")),
        _amount(found.get("gres/gpu", "")),
    )


def _amount(text: str) -> float:
    """Memory is counted in MiB, with or without a unit."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "")
    try:
        return float(number) * _UNITS.get(unit, 1)
    except ValueError:
        return 0.0


def of_accounting(job: dict[str, Any]) -> SlurmRecord:
    """A job of ``/slurmdb/…/jobs``: its states and signals are right, its exit codes are not."""
    state, time = job.get("state") or {}, job.get("time") or {}
    comment = job.get("comment")
    words = _words(state.get("current"))
    status = _status(job.get("exit_code"))
    failed = bool(words) and words[0] != "COMPLETED"
    return SlurmRecord(
        id=str(_number(job.get("job_id"))),
        comment=(comment.get("job") if isinstance(comment, dict) else comment) or "",
        state=(words or ["UNKNOWN"])[0],
        reason=state.get("reason") or "",
        nodes=job.get("nodes") or "",
        user=job.get("user") or "",
        submitted_s=_number(time.get("submission")),
        started_s=_number(time.get("start")),
        ended_s=_number(time.get("end")),
        # A zero there says nothing of a job that failed.
        status=None if failed and not status else status,
        by=job.get("kill_request_user") or "",
    )


def of_squeue(output: str, mark: str) -> Iterator[SlurmRecord]:
    """The lines of ``squeue``. ``mark`` ends each field and is new each time.

    Names and comments are strangers' texts: without the mark, what looks like a line is none.
    """
    for line in output.split("\n"):
        fields = line.split(mark)
        if len(fields) != len(SQUEUE_FIELDS) + 1:
            continue
        number, state, status, submitted, started, ended, nodes, user, *more = fields
        restarts, partition, held, reason, comment, _ = more
        yield SlurmRecord(
            id=number,
            comment=comment,
            state=state,
            reason="" if reason == "None" else reason,
            nodes=nodes,
            user=user,
            submitted_s=_moment(submitted),
            started_s=_moment(started),
            ended_s=_moment(ended),
            status=int(status) if status.isdecimal() else None,
            restarts=int(restarts) if restarts.isdecimal() else 0,
            partition=partition,
            held=held_of(held),
        )


def of_sacct(output: str, mark: str) -> Iterator[SlurmRecord]:
    """The lines of ``sacct``. ``mark`` parts fields, as above."""
    for line in output.split("\n"):
        fields = line.split(mark)
        if len(fields) != SACCT_FIELDS.count(",") + 1:
            continue
        number, state, status, submitted, started, ended, nodes, user, comment = fields
        words = state.split()
        code, _, died = status.partition(":")
        yield SlurmRecord(
            id=number,
            comment=comment,
            state=words[0] if words else "UNKNOWN",
            nodes="" if nodes == "None assigned" else nodes,
            user=user,
            submitted_s=_moment(submitted),
            started_s=_moment(started),
            ended_s=_moment(ended),
            # For a moment after an outage a failed job is told as 0:0.
            status=_both(code, died, failed=bool(words) and words[0] != "COMPLETED"),
            by=f"uid {words[2]}" if words[1:2] == ["by"] and words[2:] else "",
        )


def _both(code: str, died: str, *, failed: bool) -> int | None:
    if not code.isdecimal() or not died.isdecimal():
        return None
    status = int(code) << 8 | int(died)
    return None if failed and not status else status


def _words(value: object) -> list[str]:
    if isinstance(value, list):
        return [str(word) for word in value]
    return [value] if isinstance(value, str) and value else []


def _reason(job: dict[str, Any]) -> str:
    reason, more = job.get("state_reason") or "", job.get("state_description") or ""
    reason = "" if reason == "None" else reason
    return f"{reason}: {more}" if reason and more else reason or more


def _number(value: object) -> int:
    """Of a number, or of what newer versions make of one; none and infinity are 0."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set", True) else 0
    return int(value) if isinstance(value, int | float) else 0


def _status(value: object) -> int | None:
    if isinstance(value, int):
        return value
    if not isinstance(value, dict):
        return None
    died = value.get("signal") or {}
    number = _number(died.get("id", died.get("signal_id"))) if isinstance(died, dict) else 0
    return _number(value.get("return_code")) << 8 | number


def _moment(text: str) -> float:
    return float(text) if text.isdecimal() else 0.0
