"""``rota checkpoint``: a job, or its owner, says that its work is saved; list and remove it."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from rota.cli.jobs.show import items
from rota.cli.shared import session, types
from rota.cli.shared.job_fields import local_time
from rota.cli.shared.naming import jobs_named
from rota.cli.shared.options import json_option, quiet_option
from rota.cli.shared.render import Column, clean, size_text, table
from rota.client.http import segment
from rota.core.words.units import parse_size_bytes


class _Reporting(click.Group):
    """Without the name of a command it reports: that is what jobs do in loops."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] != "--help"):
            args = ["report", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Reporting)
def checkpoint() -> None:
    """Say that the work of a JOB is saved up to now. Inside a job: of this job.

    \b
      python train.py --save "$ROTA_CHECKPOINT_DIR/step-100" \\
          && rota checkpoint --step 100 --path step-100

    If it must give way, the jobs that lose the least unsaved work are chosen. Files belong in the
    folder ROTA_CHECKPOINT_DIR, which is the same for every try of a job. ROTA_RESUME is 1 when an
    earlier try has saved something. 'rota checkpoint report --help' lists the options.
    """


@checkpoint.command("report")
@click.argument("job", type=types.JobRefType(), required=False)
@click.option("--data", multiple=True, metavar="NAME", help="These data are ready now. Repeatable.")
@click.option("--step", type=types.COUNT, help="How far the work is.")
@click.option("--note", default="", help="Whatever helps to tell it from others.")
@click.option(
    "--path", default="", metavar="NAME", help="Where it lies below the checkpoint folder."
)
@click.option(
    "--size",
    type=types.AmountType("size", parse_size_bytes),
    help="Its size (20G); found out where the files are.",
)
@click.option(
    "--ask", is_flag=True, help="Only ask whether one of this --size may be written: exit 0 or 1."
)
@json_option
def report(
    job: str | None,
    data: tuple[str, ...],
    step: int | None,
    note: str,
    path: str,
    size: int | None,
    ask: bool,
    as_json: bool,
) -> None:
    """Say that the work of a JOB is saved up to now. Inside a job: of this job.

    More than the site takes (checkpoints.max_size) is refused. With --data NAME, jobs that wait
    with --after-data JOB:NAME may start.
    """
    name = job or os.environ.get("ROTA_JOB_ID", "")
    if not name:
        raise click.UsageError("name a job; without one it is meant to be called inside a job")
    if ask and size is None:
        raise click.UsageError("--ask needs --size: how much would be written")
    client = session.connect()
    body: dict[str, object] = {
        "data": list(data),
        "note": note,
        "path": path,
        "size": _size(path) if size is None and not job else size,
        "planned": ask,
    }
    body = {key: value for key, value in body.items() if value}
    if step is not None:
        body["step"] = step
    answer = client.post(f"{session.job_path(client, name)}/checkpoint", body)
    if as_json:
        click.echo(json.dumps(answer))
    elif ask:
        click.echo(f"{answer['id']}: may be written")
    else:
        click.echo(f"{answer['id']}: saved as of {local_time(answer['saved_at'])}")


def _size(path: str) -> int:
    """What lies in our own checkpoint folder, or at a path in it."""
    folder = os.environ.get("ROTA_CHECKPOINT_DIR", "")
    if not folder:
        return 0
    place = os.path.join(folder, path)
    if os.path.isfile(place):
        return os.path.getsize(place)
    total = 0
    for here, _, names in os.walk(place):
        for name in names:
            try:
                total += os.lstat(os.path.join(here, name)).st_size
            except OSError:
                continue  # It is being replaced right now.
    return total


@checkpoint.command("trigger")
@click.argument("jobs", type=types.JobRefs(), nargs=-1, required=True)
@json_option
def trigger(jobs: tuple[str, ...], as_json: bool) -> None:
    """Ask running JOBS to save their work now and go on.

    They hear the signal that they were submitted with (--save-signal).
    """
    client = session.connect()
    named = jobs_named(client, jobs)
    answers = [client.post(f"/jobs/{segment(job)}/save", {}) for job in named]
    if as_json:
        click.echo(json.dumps(answers))
        return
    for answer in answers:
        click.echo(f"{answer['id']}: asked to save its work")


_COLUMNS = (
    Column("JOB", right=True),
    Column("USER"),
    Column("STATE"),
    Column("NODE"),
    Column("FILES", right=True),
    Column("SIZE", right=True),
    Column("CHANGED"),
    Column("FOLDER"),
)


@checkpoint.command("list")
@json_option
@quiet_option
def list_saved(as_json: bool, quiet: bool) -> None:
    """List the saved work of jobs on the nodes that are connected."""
    found = items(session.connect().get("/checkpoints"))
    if as_json:
        click.echo(json.dumps(found, indent=2))
    elif quiet:
        for entry in found:
            click.echo(entry["id"])
    else:
        for line in table(_COLUMNS, [_row(entry) for entry in found]):
            click.echo(line)


def _row(entry: dict[str, Any]) -> list[str]:
    return [
        str(entry["id"]),
        entry["user"],
        entry["state"],
        entry["node"],
        str(entry["files"]),
        size_text(entry["size"]),
        local_time(entry["changed_at"]),
        entry["folder"],
    ]


@checkpoint.command("rm")
@click.argument("jobs", type=types.JobRefs(), nargs=-1, required=True)
@json_option
@click.pass_context
def remove(ctx: click.Context, jobs: tuple[str, ...], as_json: bool) -> None:
    """Remove the saved work of JOBS, which must not run. Exit 1 if some of it is still there."""
    client = session.connect()
    named = jobs_named(client, jobs)
    answers = [client.delete(f"/jobs/{segment(job)}/checkpoint") for job in named]
    for answer in answers:
        if not as_json:
            click.echo(f"{answer['id']}: {'removed' if not answer['problems'] else 'not removed'}")
        for problem in answer["problems"]:
            click.echo(f"rota: {clean(problem)}", err=True)
    if as_json:
        click.echo(json.dumps(answers))
    if any(answer["problems"] for answer in answers):
        ctx.exit(1)
