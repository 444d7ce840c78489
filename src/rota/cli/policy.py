"""``rota policy``: show, try and change the rules of scheduling."""

from __future__ import annotations

import json
import os
import tomllib
from typing import Any

import click

from rota.cli import session
from rota.cli.options import json_option
from rota.cli.render import clean
from rota.client.errors import ClientError

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
    lines = [f"policy: {answer['name']}"]
    rules = _flat(answer["rules"]) if everything else answer["changed"]
    lines += [clean(f"{key} = {_text(value)}") for key, value in rules.items()]
    if not everything:
        more = "every rule has its default" if not rules else "all others have their defaults"
        lines.append(f"({more}; --all shows all rules)")
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


@policy.command()
@_WORDS
@json_option
def test(words: tuple[str, ...], as_json: bool) -> None:
    """Say what a change would mean, and change nothing. FILE is a rota.toml."""
    answer = session.connect().post("/policy:test", body_of(words))
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    click.echo("\n".join(trial_lines(answer)))


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
