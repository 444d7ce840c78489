"""``rota group``: how many jobs of a group may run at once."""

from __future__ import annotations

import json
from typing import Any

import click

from rota.cli.jobs.show import items
from rota.cli.shared import session, types
from rota.cli.shared.options import json_option, quiet_option
from rota.cli.shared.render import clean
from rota.client.http import segment


@click.group()
def group() -> None:
    """Groups: jobs submitted with --group NAME share a cap on how many run at once."""


def _line(answer: dict[str, Any]) -> str:
    cap = answer.get("max_concurrent") or 0
    running = answer.get("running_jobs") or 0
    return f"{answer['name']}: {f'at most {cap} at once' if cap else 'no cap'}, {running} running"


def _print(answer: dict[str, Any], as_json: bool) -> None:
    click.echo(json.dumps(answer) if as_json else clean(_line(answer)))


@group.command("list")
@json_option
@quiet_option
def list_groups(as_json: bool, quiet: bool) -> None:
    """List groups, their caps and how many of their jobs run."""
    found = items(session.connect().get("/groups"))
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    for entry in found:
        click.echo(clean(entry["name"] if quiet else _line(entry)))


@group.command("show")
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> None:
    """Show the cap of the group NAME."""
    _print(session.connect().get(f"/groups/{segment(name)}"), as_json)


@group.command("set")
@click.argument("name")
@click.option(
    "--max-concurrent", type=types.COUNT, required=True, help="Jobs at once; 0 lifts the cap."
)
@json_option
def set_cap(name: str, max_concurrent: int, as_json: bool) -> None:
    """Change the cap of the group NAME; running jobs go on."""
    body = {"max_concurrent": max_concurrent}
    _print(session.connect().put(f"/groups/{segment(name)}", body), as_json)
