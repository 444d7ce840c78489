"""``squeue -s``: the steps of running jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rota import hostlist
from rota.digits import is_digits
from rota.slurm.formats.layout import Layout, Read, ShownField, read_long, read_percent
from rota.slurm.words.amounts import Moments, short_duration

if TYPE_CHECKING:
    from rota.slurm.records.job_refs import JobRef
    from rota.slurm.records.records import JobRecord, StepRecord

FORMAT = "%.15i %.8j %.9P %.8u %.9M %N"


class StepRow(NamedTuple):
    """A step and the job that it is a part of."""

    job: JobRecord
    step: StepRecord


def step_lines(
    jobs: list[JobRecord],
    asked: dict[str, str],
    refs: tuple[JobRef, ...],
    errors: list[str],
    moments: Moments,
) -> list[str]:
    """The lines of the listing; what the format names in vain goes to ``errors``."""
    layout = _layout(asked, errors, moments)
    rows = [
        StepRow(job, step)
        for job in jobs
        for step in job.steps
        if step.state == "RUNNING" and _meant(job, step, refs)
    ]
    rows.sort(key=lambda row: (row.job.partition, row.job.job_id, _place(row.step.id)))
    heading = [] if "noheader" in asked else [layout.header()]
    dated = [moments.date_line()] if "long" in asked and heading else []
    return [*dated, *heading, *(layout.line(row) for row in rows)]


def _meant(job: JobRecord, step: StepRecord, refs: tuple[JobRef, ...]) -> bool:
    return not refs or any(ref.step in ("", step.id) and ref.names(job) for ref in refs)


def _place(step: str) -> tuple[int, int]:
    """Numbers come first, in their order."""
    return (0, int(step)) if is_digits(step) else (1, {"batch": 0}.get(step, 1))


def _layout(asked: dict[str, str], errors: list[str], moments: Moments) -> Layout[StepRow]:
    named = _names(moments)
    read: Read[StepRow]
    if "Format" in asked:
        read = read_long(asked["Format"], named)
    else:
        letters = {letter: named[name] for letter, name in _LETTERS.items()}
        read = read_percent(asked.get("format") or FORMAT, letters)
    errors += [
        f"squeue: error: Invalid job step format specification: {word}\n" for word in read.unknown
    ]
    return read.layout


_LETTERS = {
    "A": "numtasks",
    "b": "tres-per-job",
    "i": "stepid",
    "j": "name",
    "l": "timelimit",
    "M": "timeused",
    "N": "nodes",
    "P": "partition",
    "S": "starttime",
    "u": "username",
    "U": "userid",
}


def _array_task(row: StepRow) -> str:
    return str(row.job.array_index) if row.job.array_id else "N/A"


def _frequency(row: StepRow) -> str:
    """Nobody sets the clock of CPUs here; the steps of Slurm itself say it in another way."""
    return "Unknown-Unknown:Unknown" if is_digits(row.step.id) else "0-0:0"


def _names(moments: Moments) -> dict[str, ShownField]:
    def used(row: StepRow) -> str:
        return short_duration(max(0, int(moments.now_s - row.step.start_s)))

    return {
        "jobid": ShownField("JOB_ID", lambda row: str(row.job.job_id)),
        "stepid": ShownField("STEPID", lambda row: f"{row.job.shown_id}.{row.step.id}"),
        "name": ShownField("NAME", lambda row: row.step.name),
        "stepname": ShownField("NAME", lambda row: row.step.name),
        "partition": ShownField("PARTITION", lambda row: row.job.partition),
        "username": ShownField("USER", lambda row: row.job.user),
        "userid": ShownField("UID", lambda row: str(row.job.uid)),
        "timeused": ShownField("TIME", used),
        "timelimit": ShownField("TIME_LIMIT", lambda _: "UNLIMITED"),
        "starttime": ShownField("START_TIME", lambda row: moments.text(row.step.start_s, "N/A")),
        "nodes": ShownField("NODELIST", lambda row: hostlist.compress(row.step.nodes)),
        "nodelist": ShownField("NODELIST", lambda row: hostlist.compress(row.step.nodes)),
        "state": ShownField("STATE", lambda row: row.step.state),
        "stepstate": ShownField("STATE", lambda row: row.step.state),
        "numtasks": ShownField("TASKS", lambda row: str(row.step.tasks)),
        "numcpus": ShownField("CPUS", lambda row: str(row.step.cpus)),
        "arrayjobid": ShownField("ARRAY_JOB_ID", lambda row: str(row.job.array_id or "N/A")),
        "arraytaskid": ShownField("ARRAY_TASK_ID", _array_task),
        "cpufreq": ShownField("CPU_FREQ", _frequency),
        "resvports": ShownField("RESERVED_PORTS", lambda _: "(null)"),
        "tres-per-job": ShownField("TRES_PER_JOB", lambda _: "(null)"),
        "tres-per-node": ShownField("TRES_PER_NODE", lambda row: row.job.gres or "(null)"),
        "tres-per-step": ShownField("TRES_PER_STEP", lambda _: "(null)"),
    }
