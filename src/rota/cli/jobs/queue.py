"""``rota queue``: list jobs."""

from __future__ import annotations

import json
import shutil
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from rota.cli.jobs.far import add_progress
from rota.cli.jobs.folding import folded_jobs
from rota.cli.jobs.follow import MOST_IDS
from rota.cli.shared import job_fields, render, session, types
from rota.cli.shared.foretold import add_starts
from rota.cli.shared.naming import jobs_named, parse_states
from rota.cli.shared.options import json_option, quiet_option
from rota.client.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rota.client.http import Client

#: A table longer than this is not read by anybody; the rest is counted.
TABLE_MOST = 200
#: Columns of ``--start``.
START_FIELDS = ("id", "name", "user", "state", "start")


def job_rows(
    jobs: Sequence[job_fields.Job], names: Sequence[str], now_s: float
) -> list[list[object]]:
    """The cells of a table."""
    fields = [job_fields.field(name) for name in names]
    return [[field.show(job, now_s) for field in fields] for job in jobs]


def job_table(
    jobs: Sequence[job_fields.Job],
    now_s: float,
    *,
    names: Sequence[str] = job_fields.DEFAULT_FIELDS,
    width: int | None = None,
    colour: bool = False,
) -> list[str]:
    """Lines of the table that people see."""

    def paint(title: str, number: int, text: str) -> str:
        if title != "STATE":
            return text
        return click.style(text, fg=job_fields.colour(jobs[number]["state"]))

    columns = [job_fields.field(name).column for name in names]
    return render.table(columns, job_rows(jobs, names, now_s), width, paint if colour else None)


def tree_label(job: job_fields.Job) -> str:
    """One job in a tree."""
    kinds = ", ".join(f"{entry['kind']} {entry['job']}" for entry in job.get("depends_on") or ())
    state = job["state"]
    return render.clean(
        f"{job_fields.display_id(job)} {job.get('name', '')} [{state}]"
        + (f" ({kinds})" if kinds else "")
    )


def terminal_width() -> int | None:
    """None when nobody looks: a pipe gets everything."""
    if not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def fetch(client: Client, options: dict[str, Any]) -> tuple[list[dict[str, Any]], bool]:
    """The jobs that the options ask for, and whether there are more of them."""
    filters = {
        "user": options["user"],
        "project": options["project"],
        "queue": options["queue"],
        "name": options["name"],
        "label": options["label"],
        "arrays": "expand" if options["expand"] else "collapse",
    }
    if options["jobs"]:
        ids = [session.id_of(client, one) for one in jobs_named(client, options["jobs"])]
        found = _by_ids(client, ids, filters)
        _complain_of_missing(ids, found)
        return found, False
    states = parse_states(options["state"]) if options["state"] else ""
    filters["state"] = states or ("all" if options["all"] or options["since"] else "active")
    if options["since"] is not None:
        return _since(client, options, filters), False
    newest_first = options["last"] is not None
    most = options["last"] if newest_first else options["first"]
    if most is None:
        most = TABLE_MOST if _is_table(options) else 0
    if options["first"] == 0 or options["last"] == 0:
        return [], False
    order = "-id" if newest_first else "id"
    listed = _lister(options)
    found = list(listed(client, {**filters, "order": order}, most=most + 1 if most else 0))
    more = bool(most) and len(found) > most and options["first"] is options["last"] is None
    found = found[:most] if most else found
    return found[::-1] if newest_first else found, more


def _by_ids(client: Client, ids: list[int], filters: dict[str, object]) -> list[dict[str, Any]]:
    """In bundles: ids travel in the request's address."""
    found: list[dict[str, Any]] = []
    for at in range(0, len(ids), MOST_IDS):
        bundle = ",".join(map(str, ids[at : at + MOST_IDS]))
        found += session.list_jobs(client, {**filters, "ids": bundle})
    return found


def _since(
    client: Client, options: dict[str, Any], filters: dict[str, object]
) -> list[dict[str, Any]]:
    """Newest first until one is too old: ids rise with the time of submission."""
    found: list[dict[str, Any]] = []
    for job in _lister(options)(client, {**filters, "order": "-id"}):
        if (job_fields.seconds(job.get("submitted_at")) or 0.0) < options["since"]:
            break
        found.append(job)
    first, last = options["first"], options["last"]
    found = found[:last] if last is not None else found
    return found[::-1][:first] if first is not None else found[::-1]


def _complain_of_missing(ids: list[int], found: list[dict[str, Any]]) -> None:
    known = {job["id"] for job in found} | {job.get("array_id") for job in found}
    missing = [str(wanted) for wanted in ids if wanted not in known]
    if missing:
        raise ClientError(f"there is no job {', '.join(missing)}")


def _lister(options: dict[str, Any]) -> Callable[..., Iterator[dict[str, Any]]]:
    """In a table of all jobs the ended elements of an array are one line, unless --expand."""
    whole = options["state"] in (None, "all", "finished", "done")
    if _is_table(options) and whole and not options["expand"] and not options["tree"]:
        return folded_jobs
    return session.list_jobs


def _is_table(options: dict[str, Any]) -> bool:
    return options["format"] == "table" and not options["quiet"] and not options["as_json"]


def show_jobs(jobs: list[dict[str, Any]], options: dict[str, Any]) -> str:
    """The whole answer as text."""
    now_s = time.time()
    if options["sort"]:
        jobs = [dict(job) for job in job_fields.sorted_jobs(jobs, options["sort"], now_s)]
    names = options["fields"] or job_fields.DEFAULT_FIELDS
    if options["quiet"]:
        return "".join(f"{job['id']}\n" for job in jobs)
    if options["as_json"] or options["format"] == "json":
        return json.dumps(_chosen(jobs, options["fields"], now_s), indent=2) + "\n"
    if options["format"] == "yaml":
        return render.to_yaml(_chosen(jobs, options["fields"], now_s))
    if options["format"] == "csv":
        return render.to_csv(names, job_rows(jobs, names, now_s))
    if options["tree"]:
        return "\n".join(render.dependency_tree(jobs, tree_label)) + "\n"
    width = terminal_width()
    lines = job_table(jobs, now_s, names=names, width=width, colour=session.in_colour())
    return "\n".join(lines) + "\n"


def _chosen(
    jobs: list[dict[str, Any]], names: Sequence[str] | None, now_s: float
) -> list[dict[str, Any]]:
    if not names:
        return jobs
    return [{name: job_fields.datum(job, name, now_s) for name in names} for job in jobs]


def _with_progress(
    client: Client, jobs: list[dict[str, Any]], options: dict[str, Any]
) -> dict[str, Any]:
    """A column for how far jobs are: where it was asked for, or where one has said so.

    With ``--start``, or where that field is named, one for when they will probably start.
    """
    named = options["fields"] or ()
    if options["start"] or "start" in named:
        add_starts(client, jobs)
    if options["start"] and not named:
        return {**options, "fields": START_FIELDS}
    if "progress" in named or (_is_table(options) and not named):
        said = add_progress(client, jobs)
        if said and not named:
            *first, where = job_fields.DEFAULT_FIELDS
            return {**options, "fields": (*first, "progress", where)}
    return options


def _watch(client: Client, options: dict[str, Any]) -> None:
    """The same listing again and again, until Ctrl-C."""
    on_terminal = sys.stdout.isatty()
    while True:
        jobs = fetch(client, options)[0]
        text = show_jobs(jobs, _with_progress(client, jobs, options))
        stamp = time.strftime("%H:%M:%S")
        head = f"\x1b[H\x1b[2Jrota queue, every {options['watch']:g} s, {stamp}\n\n"
        click.echo((head if on_terminal else "") + text)
        time.sleep(options["watch"])


@click.command()
@click.argument("jobs", nargs=-1, type=types.JobRefs())
@click.option("-a", "--all", is_flag=True, help="Finished jobs too.")
@click.option("-u", "--user", help="Jobs of this user.")
@click.option("-p", "--project", help="Jobs of this project.")
@click.option("-s", "--state", metavar="STATES", help="running,failed … or active, finished, all.")
@click.option("-n", "--name", help="Jobs of this name.")
@click.option("--queue", help="Jobs in this queue.")
@click.option("-l", "--label", metavar="KEY=VALUE", help="Jobs with this label.")
@click.option("--since", type=types.PAST, help="Submitted since 1h (ago), today, mon 9:00 …")
@click.option("-r", "--expand", is_flag=True, help="One line for each element of an array.")
@click.option(
    "--sort",
    type=types.Words(),
    metavar="FIELDS",
    help="Sort by fields; a leading - reverses: gpus,-time.",
)
@click.option("--first", "--limit", type=types.COUNT, metavar="N", help="The first N jobs.")
@click.option("--last", type=types.COUNT, metavar="N", help="The last N jobs.")
@click.option(
    "--fields",
    type=types.Words(),
    metavar="FIELDS",
    help=f"Columns to show: {', '.join(job_fields.FIELDS)}.",
)
@click.option(
    "--format",
    type=click.Choice(["table", "json", "csv", "yaml"]),
    default="table",
    help="How to print them.  [default: table]",
)
@click.option("--tree", is_flag=True, help="Jobs under the ones they wait for.")
@click.option(
    "--watch",
    is_flag=False,
    flag_value="2",
    type=types.SHORT_DURATION,
    metavar="[S]",
    help="Again every S seconds (2).",
)
@click.option("--start", is_flag=True, help="When those that wait will probably start.")
@json_option
@quiet_option
def queue(**options: Any) -> None:
    """List jobs: those that wait and run, or the JOBs named.

    \b
    rota queue                    all that is not finished
    rota queue --start            when those that wait will probably start
    rota queue -a --last 20       the last 20, finished or not
    rota queue -s failed --sort -time --fields id,name,time,cause
    """
    if options["first"] is not None and options["last"] is not None:
        raise click.UsageError("--first and --last exclude each other")
    for name in options["sort"] or ():
        job_fields.field(name.removeprefix("-"))
    for name in options["fields"] or ():
        job_fields.field(name)
    client = session.connect()
    if options["watch"]:
        _watch(client, options)
    jobs, more = fetch(client, options)
    click.echo(show_jobs(jobs, _with_progress(client, jobs, options)), nl=False)
    if more:
        session.warn(f"only the first {len(jobs)} are shown; --first N gives more")
