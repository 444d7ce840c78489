"""``squeue -s``: the steps of running jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rota import hostlist
from rota.slurm.formats.layout import Field, Layout, Read, read_long, read_percent
from rota.slurm.words.amounts import Moments, short_duration

if TYPE_CHECKING:
    from rota.slurm.records.records import JobRecord, StepRecord

FORMAT = "%.15i %.8j %.9P %.8u %.9M %N"


class Row(NamedTuple):
    """A step and the job that it is a part of."""

    job: JobRecord
    step: StepRecord


def step_lines(
    jobs: list[JobRecord], asked: dict[str, str], errors: list[str], moments: Moments
) -> list[str]:
    """The lines of the listing; what the format names in vain goes to ``errors``."""
    layout = _layout(asked, errors, moments)
    rows = [Row(job, step) for job in jobs for step in job.steps if step.state == "RUNNING"]
    rows.sort(key=lambda row: (row.job.partition, row.job.job_id, _place(row.step.id)))
    heading = [] if "noheader" in asked else [layout.header()]
    dated = [moments.date_line()] if "long" in asked and heading else []
    return [*dated, *heading, *(layout.line(row) for row in rows)]


def _place(step: str) -> tuple[int, int]:
    """Numbers come first, in their order."""
    return (0, int(step)) if step.isdecimal() else (1, {"batch": 0}.get(step, 1))


def _layout(asked: dict[str, str], errors: list[str], moments: Moments) -> Layout[Row]:
    named = _names(moments)
    read: Read[Row]
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
    "A": "jobid",
    "b": "tres-per-node",
    "i": "stepid",
    "j": "name",
    "l": "timelimit",
    "M": "timeused",
    "N": "nodes",
    "P": "partition",
    "S": "starttime",
    "t": "state",
    "u": "username",
    "U": "userid",
}


def _names(moments: Moments) -> dict[str, Field]:
    def used(row: Row) -> str:
        return short_duration(max(0, int(moments.now_s - row.step.start_s)))

    return {
        "jobid": Field("JOB_ID", lambda row: str(row.job.job_id)),
        "stepid": Field("STEPID", lambda row: f"{row.job.shown_id}.{row.step.id}"),
        "name": Field("NAME", lambda row: row.step.name),
        "stepname": Field("NAME", lambda row: row.step.name),
        "partition": Field("PARTITION", lambda row: row.job.partition),
        "username": Field("USER", lambda row: row.job.user),
        "userid": Field("USERID", lambda row: str(row.job.uid)),
        "timeused": Field("TIME", used),
        "timelimit": Field("TIME_LIMIT", lambda row: short_duration(row.job.limit_s)),
        "starttime": Field("START_TIME", lambda row: moments.text(row.step.start_s, "N/A")),
        "nodes": Field("NODELIST", lambda row: hostlist.compress(row.step.nodes)),
        "nodelist": Field("NODELIST", lambda row: hostlist.compress(row.step.nodes)),
        "state": Field("STATE", lambda row: row.step.state),
        "stepstate": Field("STATE", lambda row: row.step.state),
        "numtasks": Field("TASKS", lambda row: str(row.step.tasks)),
        "numcpus": Field("CPUS", lambda row: str(row.step.cpus)),
        "tres-per-node": Field("TRES_PER_NODE", lambda row: row.job.gres or "N/A"),
    }
