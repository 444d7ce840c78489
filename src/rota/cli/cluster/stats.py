"""``rota stats``: how jobs fared, per user and period."""

from __future__ import annotations

import json
import time
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from rota.cli.jobs.queue import terminal_width
from rota.cli.shared import render, session, types
from rota.cli.shared.job_fields import local_time
from rota.cli.shared.options import json_option
from rota.core.words.units import format_duration, format_when

if TYPE_CHECKING:
    from rota.store.stats import Cohort

_USERS = (
    render.Column("USER", shrinks=True, least=5),
    render.Column("JOBS", right=True),
    render.Column("DONE", right=True),
    render.Column("FAILED", right=True),
    render.Column("CANCELLED", right=True),
    render.Column("OPEN", right=True),
    render.Column("SUCCESS", right=True),
    render.Column("MEAN WAIT", right=True),
    render.Column("MEAN RUN", right=True),
    render.Column("GPU-H", right=True),
)
_LONGEST = (
    render.Column("ID", right=True),
    render.Column("NAME", shrinks=True, least=6),
    render.Column("USER", shrinks=True, least=5),
    render.Column("STATE"),
    render.Column("RUN", right=True),
)
_FAILED = ("failed", "timeout", "node_failed", "unschedulable")
WEEK_S = 7 * 86_400
_OPEN = ("held", "queued", "scheduled", "running", "preempted")


def stats_table(rows: list[dict[str, Any]], width: int | None = None) -> list[str]:
    """A row per user; several states share a column, --json has them one by one."""
    lines = [
        (
            row["user"] or "(all)",
            row["jobs"],
            _count(row, "completed"),
            _count(row, *_FAILED),
            _count(row, "cancelled"),
            _count(row, *_OPEN),
            "-" if row["success_rate"] is None else f"{100 * row['success_rate']:.0f}%",
            _time(row["mean_wait_s"]),
            _time(row["mean_run_s"]),
            f"{row['gpu_hours']:.1f}",
        )
        for row in rows
    ]
    return render.table(_USERS, lines, width)


def longest_table(jobs: list[dict[str, Any]], width: int | None = None) -> list[str]:
    lines = [
        (job["ref"], job["name"], job["user"], job["state"], _time(job["run_s"])) for job in jobs
    ]
    return render.table(_LONGEST, lines, width)


def _count(row: dict[str, Any], *states: str) -> int:
    return sum(int(row["states"].get(state, 0)) for state in states)


def _time(seconds: float | None) -> str:
    """Whole seconds are enough, but a short run is not no run."""
    if seconds is None:
        return "-"
    return format_duration(round(seconds)) if seconds >= 10 else f"{seconds:.1f}s"


@click.command()
@click.option("--user", "-u", help="Only this user.")
@click.option("--project", "-p", help="Only this project.")
@click.option("--period", type=types.PERIOD, help="Up to 366d.  [default: 7d]")
@click.option(
    "--since", type=types.PAST, help="The period begins: 2026-11-01, mon 9:00, 30d (ago)."
)
@click.option("--until", type=types.LAST, help="It ends: 2026-12-01.  [default: now]")
@click.option(
    "--longest",
    type=types.Number(0, 100),
    default=5,
    show_default=True,
    help="How many of the longest jobs to list.",
)
@click.option(
    "--archive",
    type=click.Path(path_type=Path),
    help="Of the jobs in this folder of 'rota archive', those of any time without --period.",
)
@json_option
def stats(
    user: str | None,
    project: str | None,
    period: int | None,
    since: float | None,
    until: float | None,
    longest: int,
    archive: Path | None,
    as_json: bool,
) -> None:
    """Show how the jobs submitted in a period fared, per user.

    The wait is from submission to the start, the run from there to the end. SUCCESS leaves
    cancelled jobs out. GPU-H is what was used in the period.
    """
    if since is not None and period is not None:
        raise click.UsageError("--since and --period exclude each other")
    whose = {"user": user or "", "project": project or ""}
    if archive is not None:
        answer = _archived(archive, _span(since, until, period, **whose), longest)
    else:
        bounds = {"since": since and format_when(since), "until": until and format_when(until)}
        period = period or WEEK_S
        client = session.connect()
        answer = client.get("/stats", **whose, period_s=period, **bounds, longest=longest)
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    width = terminal_width()
    rows = answer["items"] + ([answer["total"]] if len(answer["items"]) != 1 else [])
    if since is not None or until is not None:
        span = f" submitted from {local_time(answer['since']) or 'the beginning'}"
        span += f" to {local_time(answer['until']) or 'now'}"
    else:
        span = f" submitted in the last {format_duration(period)}" if period else ""
    click.echo(f"jobs{span}{f' in {archive}' if archive else ''}:")
    click.echo("\n".join(stats_table(rows, width)))
    kept, broken = (answer["total"].get(f"promises_{how}", 0) for how in ("kept", "broken"))
    if kept or broken:
        click.echo(f"\npromises: {kept} kept, {broken} broken")
    if answer["longest"]:
        click.echo("\nthe longest:\n" + "\n".join(longest_table(answer["longest"], width)))


def _span(
    since_s: float | None, until_s: float | None, period: int | None, user: str, project: str
) -> Cohort:
    from rota.store.stats import Cohort

    end_s = until_s or time.time()
    start_s = since_s or (end_s - period if period else 0.0)
    return Cohort(start_s, until_s or inf, user, project)


def _archived(folder: Path, wanted: Cohort, longest: int) -> dict[str, Any]:
    """The same answer out of files; hours of GPUs are those of the latest tries."""
    from rota.store.archive.reading import open_archive
    from rota.store.stats import by_user, gpu_hours, run_s_of, stats_row

    now_s = time.time()
    store = open_archive(folder)
    try:
        sums = store.job_sums(wanted)
        long_ones = store.longest_jobs(wanted, now_s=now_s, limit=longest)
        hours = gpu_hours(store.driver.read, wanted)
    finally:
        store.close()
    rows = [stats_row(name, own, hours.get(name, 0.0)) for name, own in by_user(sums).items()]
    return {
        "since": format_when(wanted.since_s) if wanted.since_s else None,
        "until": format_when(wanted.until_s) if wanted.until_s < inf else None,
        "total": msgspec.to_builtins(stats_row("", sums, sum(hours.values()))),
        "items": msgspec.to_builtins(rows),
        "longest": [
            {
                "id": job.id,
                "ref": f"{job.array_id}_{job.array_index}" if job.array_id else str(job.id),
                "name": job.spec.name,
                "user": job.spec.user,
                "state": str(job.state),
                "run_s": round(run_s_of(job, now_s), 3),
            }
            for job in long_ones
        ],
    }
