"""``rota policy``: show, try and change the rules of scheduling."""

from __future__ import annotations

import json
import os
import tomllib
from typing import TYPE_CHECKING, Any

import click

from rota.cli.jobs.queue import terminal_width
from rota.cli.rules.policy_trial import replay_lines, span
from rota.cli.shared import session, types
from rota.cli.shared.options import json_option
from rota.cli.shared.render import clean
from rota.client.errors import ClientError, Refused
from rota.core.words.presets import PARTS

if TYPE_CHECKING:
    from rota.client.http import Client

#: A mean wait below this never undoes a change.
NOTICED_S = 60.0
#: A replay of many jobs takes its time; the server gives up before.
REPLAY_S = 300.0
#: At a terminal a long replay is worth the wait; the most that is allowed.
PATIENCE_S = 240

_WORDS = click.argument("words", nargs=-1, required=True, metavar="KEY=VALUE… | NAME | FILE")


@click.group()
def policy() -> None:
    """The rules of scheduling: who comes first, what may pass, where jobs go, who gives way."""


@policy.command()
@click.option("--all", "everything", is_flag=True, help="Every rule, not only changed ones.")
@json_option
def show(everything: bool, as_json: bool) -> None:
    """Show the rules: by default those that are not the default."""
    answer = session.connect().get("/policy")
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    click.echo("\n".join(policy_lines(answer, everything)))


def policy_lines(answer: dict[str, Any], everything: bool) -> list[str]:
    """``key = value`` lines, as they could stand in rota.toml."""
    lines = [f"policy: {answer['name']}", f"bound: {answer['bound']}"]
    named = answer["name"] != "custom"
    rules = _flat(answer["rules"]) if everything else answer["changed"]
    for key, value in rules.items():
        kept = key in answer["changed"] and key.partition(".")[0] not in PARTS
        mark = "  # stays under every named policy" if kept and named else ""
        lines.append(clean(f"{key} = {_text(value)}") + mark)
    lines += guard_lines(answer.get("guard"))
    if not everything:
        more = "every rule has its default" if not rules else "all others have their defaults"
        lines.append(f"({more}; --all shows all rules)")
    return lines


def guard_lines(guard: dict[str, Any] | None) -> list[str]:
    """What a change with a guard is watched for, or why it is no more."""
    if guard is None:
        return []
    if guard["ended"]:
        return [clean(f"guard of {guard['name']}: {guard['ended']}")]
    lines = [f"guard of {guard['name']}: until {guard['until']}, undone if jobs wait on average"]
    for bar in guard["bars"]:
        whose = f"of project {bar['project']}" if bar["project"] else "of any other project"
        lines.append(clean(f"  {whose}: more than {span(max(bar['most_s'], NOTICED_S))}"))
    return lines


def _flat(tables: dict[str, Any]) -> dict[str, Any]:
    rules: dict[str, Any] = {}
    for name, value in tables.items():
        if isinstance(value, dict):
            rules |= {f"{name}.{inner}": value[inner] for inner in value}
        else:
            rules[name] = value
    return rules


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


@policy.command("set")
@_WORDS
@json_option
def set_policy(words: tuple[str, ...], as_json: bool) -> None:
    """Change rules from the next pass on; kept over restarts.

    \b
    rota policy set order.primary=wfp3 backfill.kind=conservative
    rota policy set preemptive preempt.grace_s=2m

    What rota.toml names in [scheduling] wins at every start.
    """
    answer = session.connect().patch("/policy", body_of(words))
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    click.echo("\n".join(policy_lines(answer, everything=False)))


_LAST = click.option(
    "--last", type=types.PERIOD, default="7d", help="Replay this time.  [default: 7d]"
)
_JOBS = click.option(
    "--jobs",
    type=types.Number(1, 20_000),
    default=5000,
    show_default=True,
    help="The most jobs to replay, the newest first.",
)


@policy.command()
@_WORDS
@_LAST
@_JOBS
@click.option(
    "--guard",
    type=types.DURATION,
    default="7d",
    help="Undo the change in this time if jobs wait longer than foretold.  [default: 7d]",
)
@json_option
def apply(words: tuple[str, ...], last: int, jobs: int, guard: int, as_json: bool) -> None:
    """Change rules with a guard that may undo it.

    The past is played first, as `rota policy test` does.

    For as long as the guard watches, the rules go back to what they were as soon as the jobs of a
    project wait longer on average than the replay foretold. `rota policy show` tells what it
    watches for, and what came of it.
    """
    body = {**body_of(words), "last_s": last, "jobs": jobs, "patience_s": PATIENCE_S}
    answer = session.connect().call(
        "POST", "/policy:apply", body={**body, "guard_s": guard}, timeout_s=REPLAY_S
    )
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    lines = replay_lines(answer["replay"], terminal_width())
    click.echo("\n".join([*lines, "", *policy_lines(answer["policy"], everything=False)]))


@policy.command()
@_WORDS
@_LAST
@_JOBS
@click.option("--changes", is_flag=True, help="Only the rules that would change; replay nothing.")
@json_option
def test(words: tuple[str, ...], last: int, jobs: int, changes: bool, as_json: bool) -> None:
    """Say what a change would mean, and change nothing. FILE is a rota.toml.

    Plays the jobs of the last days again under the present rules and under these, and prints who
    would have gained and who lost. For operators; others see the rules that would change.
    """
    client, body = session.connect(), body_of(words)
    answer = client.post("/policy:test", body)
    if answer["changes"] and not changes:
        answer["replay"], problem = _replayed(client, {**body, "last_s": last, "jobs": jobs})
        if problem:
            session.warn(f"nothing was replayed: {problem}")
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    lines = trial_lines(answer)
    if answer.get("replay"):
        lines += ["", *replay_lines(answer["replay"], terminal_width())]
    click.echo("\n".join(lines))


def _replayed(client: Client, body: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """The past under other rules; or why there is none to show."""
    try:
        asked = {**body, "patience_s": PATIENCE_S}
        return client.call("POST", "/policy:replay", body=asked, timeout_s=REPLAY_S), ""
    except Refused as refusal:
        if refusal.status not in (403, 409):
            raise
        return None, str(refusal)


def trial_lines(answer: dict[str, Any]) -> list[str]:
    """Each rule that would change, before and after."""
    changes = answer["changes"]
    if not changes:
        return ["nothing would change"]
    lines = [f"{len(changes)} rules would change (policy: {answer['name']}):"]
    for change in changes:
        before, after = _text(change["before"]), _text(change["after"])
        lines.append(clean(f"  {change['key']}: {before} -> {after}"))
    return lines


def body_of(words: tuple[str, ...]) -> dict[str, Any]:
    """``KEY=VALUE`` are rules, a file is read, any other word is the name of a policy."""
    body: dict[str, Any] = {"policy": "", "rules": {}}
    for word in words:
        key, equals, value = word.partition("=")
        if equals:
            body["rules"][key.strip()] = value.strip()
        elif word.endswith(".toml") or os.sep in word or os.path.isfile(word):
            _add_file(body, word)
        elif body["policy"]:
            raise click.UsageError(f"two policies are named: {body['policy']} and {word}")
        else:
            body["policy"] = word
    return body


def _add_file(body: dict[str, Any], path: str) -> None:
    """The [scheduling] of a file, as the server takes it."""
    try:
        with open(path, "rb") as file:
            section = tomllib.load(file).get("scheduling", {})
    except tomllib.TOMLDecodeError as error:
        raise ClientError(f"{path}: {error}") from None
    for name, value in section.items():
        if name == "policy":
            body["policy"] = value
        elif name not in {"interval_ms", "quota_provider"}:
            body["rules"] |= _flat({name: value})
