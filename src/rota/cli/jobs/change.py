"""``rota cancel``, ``hold``, ``release``, ``requeue``, ``suspend``, ``resume``: one shape."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from rota.cli.shared import exits, session, types
from rota.cli.shared.asking import confirm_ends
from rota.cli.shared.naming import PATTERN, chosen_jobs, jobs_named, parse_states, told
from rota.cli.shared.options import json_option, quiet_option
from rota.client.http import segment

if TYPE_CHECKING:
    from rota.client.http import Client

#: How many ids the server takes in one request; `rota cancel $(rota queue -q)` may name more.
MOST_IDS = 10_000
#: Nobody reads more lines of what was refused.
REFUSALS_SHOWN = 20


#: Options that choose jobs by what they are.
_FILTERS = ("user", "name", "label", "state", "queue", "project")
#: Verbs that end or stop what runs: where that is other people's work, a question comes first.
_ENDING = frozenset({"cancel", "requeue", "suspend"})


def _selection(options: dict[str, Any]) -> dict[str, str]:
    """The filters that were given; exactly one way to say which jobs."""
    filters = {name: str(options[name]) for name in _FILTERS if options[name] is not None}
    if not (options["jobs"] or options["all"] or filters):
        raise click.UsageError("which jobs? give ids, --all, or what they are: -n NAME, -s queued")
    if options["jobs"] and (options["all"] or filters):
        raise click.UsageError("give ids, or --all and what the jobs are, not both")
    if "state" in filters:
        filters["state"] = parse_states(filters["state"])
    return filters


def change(verb: str, past: str, options: dict[str, Any], **extra: object) -> int:
    """Ask for a change of several jobs; each one succeeds or is refused by itself."""
    filters = _selection(options)
    client = session.connect()
    if options["dry_run"]:
        click.echo(summary(f"would have {past}", told(_meant(client, options, filters))))
        return exits.OK
    bodies = _bodies(client, verb, options, filters)
    answers = [client.post(f"/jobs:{verb}", {**body, **extra}) for body in bodies]
    answer = {
        part: [entry for one in answers for entry in one.get(part) or ()]
        for part in ("changed", "refs", "refused")
    }
    return _tell(past, answer, options)


def _bodies(
    client: Client, verb: str, options: dict[str, Any], filters: dict[str, str]
) -> list[dict[str, object]]:
    """What the server is asked, in bundles. A question comes before work of others is ended."""
    asks = verb in _ENDING and not options["yes"]
    if options["jobs"]:
        names = jobs_named(client, options["jobs"])
        # What is named one by one is meant; a range may reach further than was thought.
        ranged = asks and any(PATTERN.fullmatch(text) for text in options["jobs"])
        if ranged and _may_reach_others(client):
            confirm_ends(verb, _among(client, names), session.my_name(client), yes=False)
    else:
        whole: dict[str, object] = {"all": True}
        if not options["all"]:
            whole = {"user": filters.get("user")}
        simple = not filters or (filters.keys() == {"user"} and not options["all"])
        if simple and not asks:
            return [whole]
        jobs = _jobs(client, options, filters)
        if asks:
            confirm_ends(verb, jobs, session.my_name(client), yes=False)
        if simple:
            return [whole]
        names = [_id(job) for job in jobs]
    return [{"ids": names[at : at + MOST_IDS]} for at in range(0, len(names), MOST_IDS)]


def _jobs(client: Client, options: dict[str, Any], filters: dict[str, str]) -> list[dict[str, Any]]:
    """Unfinished jobs that pass the filters; one's own, unless it is said whose."""
    if "user" not in filters:
        everybody = options["all"] and _may_reach_others(client)
        filters = filters if everybody else filters | {"user": session.my_name(client)}
    return chosen_jobs(client, filters)


def _among(client: Client, names: list[int | str]) -> list[dict[str, Any]]:
    """The unfinished ones of some jobs; elements of an array that wait together are one."""
    wanted = set(names)
    arrays = {int(name.partition("_")[0]) for name in map(str, names) if "_" in name}
    return [
        job
        for job in chosen_jobs(client, {})
        if not wanted.isdisjoint((job["id"], job.get("array_id"), job["ref"]))
        or (job.get("array_indices") and _id(job) in arrays)
    ]


def _may_reach_others(client: Client) -> bool:
    return client.get("/status")["access"] in ("admin", "operator")


def _id(job: dict[str, Any]) -> int:
    """Of an array all of it, of which the elements that wait are one item."""
    return int(job["array_id"] if job.get("array_indices") else job["id"])


def _meant(client: Client, options: dict[str, Any], filters: dict[str, str]) -> list[str]:
    """What the jobs are called that a change would reach."""
    if options["jobs"]:
        names = jobs_named(client, options["jobs"])
        return [str(client.get(f"/jobs/{segment(name)}")["ref"]) for name in names]
    jobs = _jobs(client, options, filters)
    return [str(_id(job)) if job.get("array_indices") else job["ref"] for job in jobs]


def _tell(past: str, answer: dict[str, list[Any]], options: dict[str, Any]) -> int:
    refs = answer["refs"] or [str(one) for one in answer["changed"]]
    if options["as_json"]:
        click.echo(json.dumps(answer))
    elif options["quiet"]:
        for changed in answer["changed"]:
            click.echo(changed)
    else:
        click.echo(summary(past, told(refs)))
    for refusal in answer["refused"][:REFUSALS_SHOWN]:
        session.warn(str(refusal["reason"]))
    if (more := len(answer["refused"]) - REFUSALS_SHOWN) > 0:
        session.warn(f"and {more} more were refused (--json lists all)")
    return exits.NEGATIVE if answer["refused"] else exits.OK


def summary(past: str, refs: list[str]) -> str:
    """``cancelled 12, 15_3``; a long list is counted."""
    if not refs:
        return f"{past} nothing"
    listed = ", ".join(refs[:10])
    return f"{past} {listed}" + (f" and {len(refs) - 10} more" if len(refs) > 10 else "")


def _selecting(command: Any) -> Any:  # noqa: ANN401 - decorates any command
    for decorate in (
        quiet_option,
        json_option,
        click.option("--dry-run", is_flag=True, help="Only say which jobs are meant."),
        click.option(
            "-y", "--yes", is_flag=True, help="Do not ask where jobs are many or of others."
        ),
        click.option("-p", "--project", help="Of this project."),
        click.option("--queue", help="In this queue."),
        click.option("-s", "--state", metavar="STATES", help="In these states: queued,held …"),
        click.option("-l", "--label", metavar="KEY=VALUE", help="With this label."),
        click.option("-n", "--name", help="Of this name."),
        click.option("-u", "--user", help="Unfinished jobs of this user."),
        click.option("--all", is_flag=True, help="Every unfinished job (of yours, unless admin)."),
        click.argument("jobs", nargs=-1, type=types.JobRefs()),
    ):
        command = decorate(command)
    return command


@click.command()
@_selecting
def cancel(**options: Any) -> int:
    """Cancel JOBS, waiting or running: TERM first, KILL after the job's grace.

    \b
    rota cancel 12 15_3 20-29 15_[0-3,7]     ids, elements, ranges; an array is all its elements
    rota cancel @ @~1 @_3 train              your last job, the one before, its element, by name
    rota cancel -s queued -l exp=7           yours in this state, with this label
    rota cancel --all --queue night          everybody's in that queue (asks first)
    """
    return change("cancel", "cancelled", options)


@click.command()
@_selecting
def hold(**options: Any) -> int:
    """Keep waiting JOBS from starting, until 'rota release'."""
    return change("hold", "held", options)


@click.command()
@_selecting
@click.option("--at", type=types.WHEN, help="Not now but at 18:00, tomorrow 9:00, 2h (from now).")
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
    for name in jobs_named(client, options["jobs"]):
        client.patch(f"/jobs/{segment(name)}", {"begin_at": format_when(at_s)})
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
