"""``rota cancel``, ``hold``, ``release``, ``requeue``, ``suspend``, ``resume``: one shape."""

from __future__ import annotations

import json
from typing import Any

import click

from rota.cli.shared import exits, session, types
from rota.cli.shared.options import json_option, quiet_option

#: How many ids the server takes in one request; `rota cancel $(rota queue -q)` may name more.
MOST_IDS = 10_000
#: Nobody reads more lines of what was refused.
REFUSALS_SHOWN = 20


def _selection(jobs: tuple[str, ...], everything: bool, user: str | None) -> None:
    """Exactly one way to say which jobs."""
    ways = sum((bool(jobs), everything, user is not None))
    if ways == 0:
        raise click.UsageError("which jobs? give ids, -u USER or --all")
    if ways > 1:
        raise click.UsageError("give ids, -u USER or --all, not several of them")


def change(verb: str, past: str, options: dict[str, Any], **extra: object) -> int:
    """Ask for a change of several jobs; each one succeeds or is refused by itself."""
    jobs, everything, user = options["jobs"], options["all"], options["user"]
    _selection(jobs, everything, user)
    client = session.connect()
    if jobs:
        names = list(dict.fromkeys(session.job_name(client, text) for text in jobs))
        bodies: list[dict[str, object]] = [
            {"ids": names[at : at + MOST_IDS]} for at in range(0, len(names), MOST_IDS)
        ]
    else:
        bodies = [{"all": True} if everything else {"user": user}]
    answers = [client.post(f"/jobs:{verb}", {**body, **extra}) for body in bodies]
    answer = {
        part: [entry for one in answers for entry in one[part]] for part in ("changed", "refused")
    }
    if options["as_json"]:
        click.echo(json.dumps(answer))
    elif options["quiet"]:
        for changed in answer["changed"]:
            click.echo(changed)
    else:
        click.echo(summary(past, answer["changed"]))
    for refusal in answer["refused"][:REFUSALS_SHOWN]:
        session.warn(str(refusal["reason"]))
    if (more := len(answer["refused"]) - REFUSALS_SHOWN) > 0:
        session.warn(f"and {more} more were refused (--json lists all)")
    return exits.NEGATIVE if answer["refused"] else exits.OK


def summary(past: str, ids: list[int]) -> str:
    """``cancelled 12, 13``; a long list is counted."""
    if not ids:
        return f"{past} nothing"
    listed = ", ".join(map(str, ids[:10]))
    return f"{past} {listed}" + (f" and {len(ids) - 10} more" if len(ids) > 10 else "")


def _selecting(command: Any) -> Any:  # noqa: ANN401 - decorates any command
    for decorate in (
        quiet_option,
        json_option,
        click.option("-u", "--user", help="Every unfinished job of this user."),
        click.option("--all", is_flag=True, help="Every unfinished job (of yours, unless admin)."),
        click.argument("jobs", nargs=-1, type=types.JobRef()),
    ):
        command = decorate(command)
    return command


@click.command()
@_selecting
def cancel(**options: Any) -> int:
    """Cancel JOBS, waiting or running: TERM first, KILL after the job's grace.

    An array stands for all its elements; 12_3 is one of them, @ your last job.
    """
    return change("cancel", "cancelled", options)


@click.command()
@_selecting
def hold(**options: Any) -> int:
    """Keep waiting JOBS from starting, until 'rota release'."""
    return change("hold", "held", options)


@click.command()
@_selecting
@click.option("--at", type=types.WHEN, help="Not now but at 18:00, 2026-11-15T18:00, now+2h.")
def release(at: float | None, **options: Any) -> int:
    """Let held JOBS start. With --at they are released, to begin at that time."""
    if at is not None:
        return _release_at(at, options)
    return change("release", "released", options)


def _release_at(at_s: float, options: dict[str, Any]) -> int:
    """A begin time first, then the release: a job never starts in between."""
    from rota.core.words.units import format_when

    if not options["jobs"]:
        raise click.UsageError("--at needs job ids")
    client = session.connect()
    for text in options["jobs"]:
        client.patch(session.job_path(client, text), {"begin_at": format_when(at_s)})
    return change("release", "released", options)


@click.command()
@_selecting
@click.option("--hold", "held", is_flag=True, help="And hold them there.")
def requeue(held: bool, **options: Any) -> int:
    """Stop running JOBS and put them back into the queue, in their old place."""
    return change("requeue", "requeued", options, **({"hold": True} if held else {}))


@click.command()
@_selecting
def suspend(**options: Any) -> int:
    """Stop running JOBS where they are, until 'rota resume'.

    They keep their memory, their GPUs and the rest of their room. The time that they are
    suspended does not count against their time limit.
    """
    return change("suspend", "suspended", options)


@click.command()
@_selecting
def resume(**options: Any) -> int:
    """Let suspended JOBS go on where they were stopped."""
    return change("resume", "resumed", options)
