"""``rota logs``: what a job printed."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from rota.cli.jobs import follow
from rota.cli.shared import exits, session, types
from rota.cli.shared.naming import LOOKED_AT, jobs_named
from rota.client.errors import ClientError
from rota.client.http import segment
from rota.paths import log_file, state_dir

if TYPE_CHECKING:
    from rota.client.http import Client

_CONTEXT = types.Number(0, 100)
_HITS = types.Number(1, 10_000)
_HITS_USUAL = 1000
#: Options that say nothing without a text to look for.
_WITH_SEARCH = {
    "ignore_case": "--ignore-case",
    "context": "--context",
    "numbers": "--line-number",
    "limit": "--limit",
}


def write_bytes(part: bytes) -> None:
    """As the job wrote it, at once."""
    sys.stdout.buffer.write(part)
    sys.stdout.buffer.flush()


@click.command()
@click.argument("jobs", metavar="JOB…", nargs=-1, required=True, type=types.JobRefs())
@click.option("-f", "--follow", "follows", is_flag=True, help="Go on until the job has ended.")
@click.option("--stdout", is_flag=True, help="Standard output only.")
@click.option("--stderr", is_flag=True, help="Standard error only.")
@click.option("--failed", is_flag=True, help="Of an array: elements that failed.")
@click.option("--tail", type=types.COUNT, metavar="N", help="Only the last N lines.")
@click.option(
    "--task", type=types.COUNT, metavar="I", help="Of this task of the job.  [default: 0]"
)
@click.option(
    "--attempt", type=types.AT_LEAST_ONE, metavar="N", help="Of this try.  [default: last]"
)
@click.option("--path", is_flag=True, help="Print where the file is, on the job's node.")
@click.option("--search", metavar="TEXT", help="Only lines with this text; exits with 1 if none.")
@click.option("--regex", metavar="RE", help="Only lines that this expression finds.")
@click.option("-i", "--ignore-case", is_flag=True, help="Upper and lower case are the same.")
@click.option("-C", "--context", type=_CONTEXT, metavar="N", help="N lines beside each hit.")
@click.option("-n", "--line-number", "numbers", is_flag=True, help="The number of each line.")
@click.option("--limit", type=_HITS, metavar="N", help="At most N hits.  [default: 1000]")
def logs(
    jobs: tuple[str, ...],
    follows: bool,
    stdout: bool,
    stderr: bool,
    path: bool,
    failed: bool,
    **choice: Any,
) -> int:
    """Print what JOBs wrote to standard output and standard error, in the order of writing.

    \b
    rota logs 12            rota logs 12 -f         rota logs 12 --stderr --tail 20
    rota logs 15            every element of a sweep, each line behind its name (15_3: ...)
    rota logs 15 --failed   only those that failed
    rota logs 15_[0-3] 20   these elements and job 20, likewise

    With --search or --regex the job's node looks for lines, in standard output first, so that a
    large log need not travel. The two streams are kept in files of their own: with --output or
    --error they are the job's, and standard output is shown before standard error.
    """
    wanted = _search(choice, follows, path)
    streams = ("stdout",) * stdout + ("stderr",) * stderr
    streams = streams if len(streams) == 1 else ("stdout", "stderr")
    client = session.connect()
    names = jobs_named(client, jobs, LOOKED_AT)
    place = f"/jobs/{segment(names[0])}"
    # An element is no array: what it printed needs one question only.
    plain = len(names) > 1 or ("_" in str(names[0]) and not path)
    shown = {} if plain else client.get(place)
    stream = streams[0] if len(streams) == 1 else follow.BOTH
    if len(names) > 1 or shown.get("count"):
        return _several(client, names, stream, failed, wanted or path, follows, choice)
    if failed:
        raise click.UsageError(f"--failed is for arrays, and {names[0]} is one job")
    if path:
        click.echo(_path(shown, streams[0], choice))
        return exits.OK
    if follows:
        chosen = {**choice, "task": choice["task"] or 0}
        follow.LogFollower(client, place, stream, write_bytes).follow(**chosen)
        return exits.OK
    given = {name: value for name, value in choice.items() if value is not None}
    if wanted:
        return _print_hits(client, f"{place}/logs", streams, {**given, **wanted})
    for part in client.stream(f"{place}/logs", stream=stream, **given):
        write_bytes(part)
    if begins := client.stream_headers.get("Rota-Log-Begins"):
        session.warn(f"its first {begins} bytes are gone: the agent keeps the newest part")
    if note := client.stream_headers.get("Rota-Log-Note"):
        session.warn(note)
    return exits.OK


def _several(
    client: Client,
    names: list[int | str],
    stream: str,
    failed: bool,
    alone: object,
    follows: bool,
    choice: dict[str, Any],
) -> int:
    """All elements of arrays, or several jobs: each line behind the name of its job."""
    from rota.cli.jobs.sweep_logs import SweepLogs

    if alone:
        several = f"{names[0]} is an array" if len(names) == 1 else f"these are {len(names)} jobs"
        like = f" ({names[0]}_3)" if len(names) == 1 else ""
        raise click.UsageError(f"{several}: --search, --regex and --path take one job{like}")
    logs = SweepLogs(client, names, stream, write_bytes)
    given = {name: value for name, value in choice.items() if value is not None}
    (logs.follow if follows else logs.show)(failed=failed, **given)
    return exits.OK


def _search(choice: dict[str, Any], follows: bool, path: bool) -> dict[str, Any]:
    """What is looked for, taken out of the choices; empty: nothing."""
    taken = {name: choice.pop(name) for name in ("search", "regex", *_WITH_SEARCH)}
    text, regex = taken.pop("search"), taken.pop("regex")
    given = {name: value for name, value in taken.items() if value}
    if text is None and regex is None:
        if given:
            raise click.UsageError(
                f"{_WITH_SEARCH[next(iter(given))]} goes with --search or --regex"
            )
        return {}
    if text is not None and regex is not None:
        raise click.UsageError("give --search or --regex, not both")
    if follows or path or choice["tail"] is not None:
        raise click.UsageError("--search goes without --follow, --tail and --path")
    wanted = text if regex is None else regex
    if not wanted:
        raise click.UsageError("--search: the text is empty")
    return {"search": wanted, "regex": int(regex is not None), **given}


def _print_hits(
    client: Client, place: str, streams: tuple[str, ...], settings: dict[str, Any]
) -> int:
    """Every hit up to the limit, over as many answers as that takes."""
    most = settings.pop("limit", _HITS_USUAL)
    settings["ignore_case"] = int(bool(settings.get("ignore_case")))
    settings["numbers"] = int(bool(settings.get("numbers")))
    found = 0
    for stream in streams:
        further: dict[str, Any] = {}
        while found < most:
            asked = {**settings, **further, "stream": stream, "limit": most - found}
            body, headers = client.read(place, **asked)
            write_bytes(body)
            found += int(headers.get("Rota-Log-Hits", 0))
            if headers.get("Rota-Log-Next") is None:
                further = {}
                break
            further = {"offset": headers["Rota-Log-Next"]}
            further |= {"line": headers.get("Rota-Log-Next-Line", 1)}
        if further:
            session.warn(f"these are the first {most} hits; --limit gives more")
            break
    return exits.OK if found else exits.NEGATIVE


def _path(job: dict[str, Any], stream: str, choice: dict[str, Any]) -> str:
    """The file of the attempt that was asked for, the last one if none was.

    Without --output the agent keeps it; that file is told when it is on this machine.
    """
    named = job.get("output" if stream == "stdout" else "error")
    if named:
        return str(named)
    attempts = [
        attempt
        for attempt in job.get("attempts") or ()
        if attempt["task"] == (choice["task"] or 0)
        and choice["attempt"] in (None, attempt["number"])
    ]
    if not attempts:
        raise ClientError("there is no such attempt; a job has a file once it was started")
    suffix = "out" if stream == "stdout" else "err"
    path = log_file(state_dir(os.environ) / "agent" / "logs", f"{attempts[-1]['uid']}.{suffix}")
    if not path.exists():
        raise ClientError(f"the file is kept by the agent on {attempts[-1]['node']}, not here")
    return str(path)
