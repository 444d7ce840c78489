"""Jobs of GPU clusters as they were published: Philly, Helios (and Acme), and those of Muri."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rota.sim.readers.sheet import Row, in_order, read_rows
from rota.sim.readers.values import parse_count, parse_time, shown
from rota.sim.trace import Trace, TraceJob

if TYPE_CHECKING:
    from rota.sim.readers.text import Text

PHILLY_COLUMNS = ("timestamp", "duration", "num_gpus")
MURI_COLUMNS = ("job_id", "num_gpu", "submit_time", "duration")
HELIOS_COLUMNS = ("gpu_num", "submit_time", "duration")

#: What an iteration takes beyond its profiled time in the published simulations.
MURI_RUNTIME_COST = 1.015

#: Why records are left out.
NO_GPUS = "no GPUs"
NEVER_RAN = "never started"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def philly_of(text: Text) -> Trace:
    """Jobs with the clock time of their submission, which is counted from the earliest one.

    The file goes virtual cluster by virtual cluster, so it is always put in order. A job's id is
    the number of its row.
    """
    rows = read_rows(text, PHILLY_COLUMNS)
    jobs = [_philly_job(row, number) for number, row in enumerate(rows, 1)]
    return _with_gpus(text, _from_zero(jobs))


def helios_of(text: Text) -> Trace:
    """Jobs of SenseTime's clusters (Helios, Acme), with the clock time of their submission.

    A job without a run time never started. The virtual cluster, else the queue, is the group.
    """
    jobs: list[TraceJob] = []
    never = 0
    for number, row in enumerate(read_rows(text, HELIOS_COLUMNS), 1):
        if row.cell("duration"):
            jobs.append(_helios_job(row, number))
        else:
            never += 1
    trace = _with_gpus(text, _from_zero(jobs))
    if never:
        trace.left_out[NEVER_RAN] = never
    return trace


def _from_zero(jobs: list[TraceJob]) -> list[TraceJob]:
    """In the order of submission, which is counted from the earliest one."""
    begin_s = min((job.submit_s for job in jobs), default=0)
    jobs = [replace(job, submit_s=job.submit_s - begin_s) for job in jobs]
    return sorted(jobs, key=lambda job: job.submit_s)


def muri_of(text: Text, sort: bool) -> Trace:
    """Jobs with times in milliseconds, each with the model that it trains.

    Its column ``priority`` tells opportunistic jobs from others, for one of the schedulers that
    were compared. It is no order of importance, so all jobs keep the usual priority.
    """
    records = ((row, _muri_job(row)) for row in read_rows(text, MURI_COLUMNS))
    return _with_gpus(text, in_order(records, "job_id", "submit_time", sort))


def _with_gpus(text: Text, jobs: list[TraceJob]) -> Trace:
    """The trace of those jobs that have a size."""
    sized = [job for job in jobs if job.procs]
    left_out = {NO_GPUS: len(jobs) - len(sized)} if len(sized) < len(jobs) else {}
    if not sized:
        told = f"; left out: {len(jobs)} with {NO_GPUS}" if jobs else ""
        raise text.bad(text.last_line, f"no jobs{told}")
    return Trace(text.stem, sized, unit="GPUs", left_out=left_out)


def _philly_job(row: Row, number: int) -> TraceJob:
    return TraceJob(
        id=number,
        submit_s=row.read("timestamp", _parse_moment),
        run_s=row.read("duration", parse_time),
        procs=row.read("num_gpus", parse_count),
        group=row.cell("cluster"),
    )


def _helios_job(row: Row, number: int) -> TraceJob:
    return TraceJob(
        id=number,
        submit_s=row.read("submit_time", _parse_moment),
        run_s=row.read("duration", parse_time),
        procs=row.read_or("gpu_num", parse_count, 0),
        user=row.cell("user"),
        group=row.cell("vc") or row.cell("queue"),
        name=row.cell("jobname") or row.cell("type"),
    )


def _muri_job(row: Row) -> TraceJob:
    return TraceJob(
        id=row.read("job_id", parse_count),
        submit_s=_seconds(row.read("submit_time", parse_time)),
        run_s=_muri_run_s(row),
        procs=row.read("num_gpu", parse_count),
        name=row.cell("model_name"),
    )


def _muri_run_s(row: Row) -> float:
    """A number of iterations of some milliseconds, where a file tells them; else the duration.

    The published runs take each iteration to be as much longer as their training runtime costs.
    """
    duration_ms = row.read("duration", parse_time)
    iterations = row.read_or("iterations", parse_time, 0.0)
    each_ms = row.read_or("iteration_time", parse_time, 0.0)
    if not iterations or not each_ms:
        return _seconds(duration_ms)
    return iterations * each_ms / 1000 * MURI_RUNTIME_COST


def _seconds(length_ms: float) -> float:
    """Whole seconds stay whole."""
    whole_s, rest_ms = divmod(length_ms, 1000)
    return length_ms / 1000 if rest_ms else int(whole_s)


def _parse_moment(text: str) -> float:
    """Seconds since the epoch, or as they are; a time without a zone is taken as UTC."""
    body = text.strip()
    try:
        # A date may be written with digits alone, but a number of seconds is longer.
        if len(body) != len("20171009") and body.replace(".", "", 1).isdecimal():
            return parse_time(body)
        moment = datetime.fromisoformat(body)
    except ValueError:
        raise ValueError(f"{shown(text)} is no time such as 2017-10-09 07:01:55") from None
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    whole_s = since // timedelta(seconds=1)
    return since.total_seconds() if since.microseconds else whole_s
