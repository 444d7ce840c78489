"""What Slurm says of a job, in the four shapes in which it says it.

slurmctld by REST uses one, which changes with the version; ``squeue`` and ``sacct`` print lines;
the accounting by REST has a shape of its own, and does not know exit codes.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import msgspec

from rota.slurmrest.values import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: What ``sacct`` is asked for, in this order. The comment is the only text of a stranger's.
SACCT_FIELDS = "JobIDRaw,State,ExitCode,Submit,Start,End,NodeList,User,Comment"
#: The same of ``squeue``. Its ``--json`` is a tenfold of that for each job, ended ones too.
SQUEUE_FIELDS = (
    *("JobID", "State", "exit_code", "SubmitTime", "StartTime", "EndTime", "NodeList", "UserName"),
    *("RestartCnt", "Partition", "tres-alloc", "Reason", "Comment"),
)

#: The one of these that a job has is the state itself; what else is told are flags on it.
_BASES = frozenset(
    {"PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT"}
    | {"NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"}
)
#: Flags that count more than the state, the first of them most. While it completes its processes
#: may be alive, and an older Slurm hides how it ended. What goes back into the queue has not ended.
_OVER_ALL = ("COMPLETING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "REVOKED")
#: The same of one that has not ended.
_OVER_LIVING = ("RESV_DEL_HOLD", "CONFIGURING", "POWER_UP_NODE")

_UNITS = MappingProxyType({"K": 1 / 1024, "M": 1, "G": 1024, "T": 1 << 20, "P": 1 << 30})


class ControllerJob(TypedDict, total=False):
    """What is read of a job of ``/slurm/…/jobs``, in whatever shape: a tenth of what is told."""

    job_id: Any
    comment: Any
    job_state: Any
    state_reason: Any
    state_description: Any
    nodes: Any
    user_name: Any
    user_id: Any
    submit_time: Any
    start_time: Any
    end_time: Any
    exit_code: Any
    restart_cnt: Any
    partition: Any
    tres_alloc_str: Any


class ControllerJobs(TypedDict, total=False):
    """All of an answer."""

    errors: Any
    jobs: list[ControllerJob]


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
    #: -1: this source does not say.
    user_id: int = -1
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
    state = state_of(_words(job.get("job_state")))
    return SlurmRecord(
        id=str(plain(job.get("job_id"))),
        comment=_text(job.get("comment")),
        state=state,
        reason=_reason(job),
        nodes=_nodes(job.get("nodes")),
        user=_text(job.get("user_name")),
        user_id=plain(job.get("user_id")) if "user_id" in job else -1,
        submitted_s=plain(job.get("submit_time")),
        started_s=plain(job.get("start_time")),
        ended_s=plain(job.get("end_time")),
        status=_credible(state, _status(job.get("exit_code"))),
        restarts=plain(job.get("restart_cnt")),
        partition=_text(job.get("partition")),
        held=held_of(_text(job.get("tres_alloc_str"))),
    )


def state_of(words: Iterable[str]) -> str:
    """One word for a state and its flags, in whatever order: older versions tell only one."""
    said = [word.upper() for word in words]
    base = next((word for word in said if word in _BASES), "")
    living = base in ("", "PENDING", "RUNNING", "SUSPENDED")
    for flag in _OVER_ALL + (_OVER_LIVING if living else ()):
        if flag in said:
            return "CONFIGURING" if flag == "POWER_UP_NODE" else flag
    return base or (said or ["UNKNOWN"])[0]


def _credible(state: str, status: int | None) -> int | None:
    """A zero says nothing of a job that failed."""
    return None if state == "FAILED" and not status else status


def held_of(amounts: str) -> SlurmAmount:
    """Of ``cpu=4,mem=1.5G,node=2,gres/gpu=1,gres/gpu:h200=1``."""
    found = dict(part.split("=", 1) for part in amounts.split(",") if "=" in part)
    return SlurmAmount(
        _amount(found.get("cpu", "")),
        _amount(found.get("mem", "")),
        # A site may count its GPUs by their types alone.
        _amount(found["gres/gpu"])
        if "gres/gpu" in found
        else sum(_amount(n) for name, n in found.items() if name.startswith("gres/gpu:")),
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
    state, time = _parts(job.get("state"), "current"), _parts(job.get("time"), "start")
    told = state_of(_words(state.get("current")))
    status = _status(job.get("exit_code"))
    return SlurmRecord(
        id=str(plain(job.get("job_id"))),
        comment=_text(_parts(job.get("comment"), "job").get("job")),
        state=told,
        reason=_text(state.get("reason")),
        nodes=_nodes(job.get("nodes")),
        user=_text(job.get("user")),
        submitted_s=plain(time.get("submission")),
        started_s=plain(time.get("start")),
        ended_s=plain(time.get("end")),
        # A zero there says nothing of a job that did not complete.
        status=None if told != "COMPLETED" and not status else status,
        by=_text(job.get("kill_request_user")),
    )


def _parts(value: object, alone: str) -> dict[str, Any]:
    """An object; where there is only one value, it is this part."""
    return value if isinstance(value, dict) else {alone: value}


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
            nodes=_nodes(nodes),
            user=user,
            submitted_s=_moment(submitted),
            started_s=_moment(started),
            ended_s=_moment(ended),
            status=_credible(state, _waited(status)),
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
            state=state_of(words[:1]),
            nodes=_nodes(nodes),
            user=user,
            submitted_s=_moment(submitted),
            started_s=_moment(started),
            ended_s=_moment(ended),
            # For a moment after an outage a failed job is told as 0:0.
            status=_both(code, died, failed=bool(words) and words[0] != "COMPLETED"),
            by=f"uid {words[2]}" if words[1:2] == ["by"] and words[2:] else "",
        )


def _waited(status: str) -> int | None:
    """A wait status, or what ``sacct`` has in its place: ``3:0``."""
    code, colon, died = status.partition(":")
    if colon:
        return _both(code, died, failed=False)
    return int(status) if status.isdecimal() else None


def _both(code: str, died: str, *, failed: bool) -> int | None:
    if not code.isdecimal() or not died.isdecimal():
        return None
    status = int(code) << 8 | int(died)
    return None if failed and not status else status


def _words(value: object) -> list[str]:
    if isinstance(value, list):
        return [str(word) for word in value]
    return [value] if isinstance(value, str) and value else []


def _nodes(value: object) -> str:
    """What never had any has words in their place."""
    text = _text(value)
    return "" if text in ("None assigned", "(null)", "None") else text


def _text(value: object) -> str:
    """Of a text, or of a list of them."""
    return ",".join(_words(value))


def _reason(job: dict[str, Any]) -> str:
    reason, more = _text(job.get("state_reason")), _text(job.get("state_description"))
    reason = "" if reason == "None" else reason
    return f"{reason}: {more}" if reason and more else reason or more


def _status(value: object) -> int | None:
    """Of a wait status, or of an object that tells its parts."""
    if not isinstance(value, dict):
        return plain(value) if isinstance(value, int | str) else None
    if "set" in value or "number" in value:
        return plain(value) if value.get("set", True) else None
    died = value.get("signal")
    number = plain(died.get("id", died.get("signal_id")) if isinstance(died, dict) else died)
    return plain(value.get("return_code")) << 8 | number


def _moment(text: str) -> float:
    return float(text) if text.isdecimal() else 0.0
