"""What a run leaves behind: a row for each job as CSV or Parquet, and a summary as JSON.

Every file is written beside its place and then moved there: a reader never sees half a file, and a
run that is stopped leaves the result of the one before.
"""

from __future__ import annotations

import csv
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from rota.core.facts.errors import RotaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rota.sim.foresight import Foresight
    from rota.sim.run import Run

#: What was said at submit: the expected start and the ends of the bands, beside the real start.
TOLD = (
    *("job", "said_at", "expected", "nine_in_ten"),
    *("low_50", "high_50", "low_80", "high_80", "low_90", "high_90", "by_limits", "start"),
)
COLUMNS = ("job", "submit", "start", "end", "wait", "procs", "nodes", "estimate", "run")


class CannotWrite(RotaError):
    """A result that could not be written, and why, in one line."""


def write_jobs(run: Run, path: Path) -> None:
    """One line for each job, in the order of the trace, under a header with ``COLUMNS``."""
    with _beside(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        rows.writerows(_rows(run))


def write_foresight(foresight: Foresight, path: Path) -> None:
    """One line for each job that was asked about, under a header with ``TOLD``."""
    with _beside(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(TOLD)
        for each in foresight.told:
            word = each.word
            ends_s = [end_s for band in word.bands_s for end_s in band]
            waits_s = (word.wait_s, word.most_s, *ends_s, each.limits_s, each.waited_s)
            times = [plain(each.said_s + wait_s) for wait_s in waits_s]
            rows.writerow((each.job, plain(each.said_s), *times))


def write_parquet(run: Run, path: Path) -> None:
    """The same columns as ``write_jobs``, with types, for tools that read tables at once."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        hint = "Parquet needs pyarrow; install it with: pip install 'rota[sim]'"
        raise CannotWrite(f"{path}: {hint}") from None
    jobs = run.jobs
    waits = [start - job.submit_s for job, start in zip(jobs, run.start_s, strict=True)]
    whole, real, word = pyarrow.int64(), pyarrow.float64(), pyarrow.string()
    columns = {
        "job": pyarrow.array([job.id for job in jobs], whole),
        "submit": pyarrow.array([job.submit_s for job in jobs], real),
        "start": pyarrow.array(run.start_s, real),
        "end": pyarrow.array(run.end_s, real),
        "wait": pyarrow.array(waits, real),
        "procs": pyarrow.array([job.procs for job in jobs], whole),
        "nodes": pyarrow.array(run.nodes or [""] * len(jobs), word),
        "estimate": pyarrow.array(run.estimate_s, real),
        "run": pyarrow.array([job.run_s for job in jobs], real),
    }
    with _beside(path) as part:
        parquet.write_table(pyarrow.table(columns), part)


def write_summary(path: Path, summary: Mapping[str, object]) -> None:
    """The figures by policy, indented for people. A number that is not finite becomes null."""
    text = msgspec.json.format(msgspec.json.encode(summary), indent=2)
    with _beside(path) as part:
        part.write_bytes(text + b"\n")


def plain(value: float) -> str:
    """A number as people and other programs read it: no exponent, at most six decimals."""
    if isinstance(value, int):
        return str(value)
    text = f"{value:.6f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A place to write to, which becomes ``path`` when all went well."""
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        if target.exists() and not target.is_file():
            raise CannotWrite(f"{path}: is there already and no plain file")
        target.parent.mkdir(parents=True, exist_ok=True)
        yield part
        part.replace(target)
    except OSError as error:
        raise CannotWrite(f"{path}: cannot be written ({error.strerror or error})") from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _rows(run: Run) -> Iterator[tuple[str | int, ...]]:
    nodes = run.nodes or [""] * len(run.jobs)
    columns = zip(run.jobs, run.start_s, run.end_s, run.estimate_s, nodes, strict=True)
    for job, start_s, end_s, estimate_s, where in columns:
        yield (
            job.id,
            plain(job.submit_s),
            plain(start_s),
            plain(end_s),
            plain(start_s - job.submit_s),
            job.procs,
            where,
            plain(estimate_s),
            plain(job.run_s),
        )
