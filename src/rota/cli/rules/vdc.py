"""``rota vdc``: virtual data centres, pools of clusters with rules of their own."""

from __future__ import annotations

import json
from typing import Any

import click

from rota.cli.jobs.queue import terminal_width
from rota.cli.jobs.show import items
from rota.cli.rules.accounts import limits_text
from rota.cli.shared import render, session, types
from rota.cli.shared.options import json_option, quiet_option
from rota.client.errors import ClientError
from rota.client.http import segment
from rota.core.words import units
from rota.digits import is_digits

STRATEGIES = ("load", "fit", "weight", "affinity", "cost")
_COLUMNS = (
    render.Column("VDC", shrinks=True, least=6),
    render.Column("STRATEGY"),
    render.Column("CLUSTERS", shrinks=True, least=12),
    render.Column("RUNNING", right=True),
    render.Column("LIMITS", shrinks=True, least=12),
)


def vdc_table(vdcs: list[dict[str, Any]], width: int | None = None) -> list[str]:
    """Each with the states of its clusters."""
    rows = [
        (
            vdc["name"],
            vdc["strategy"],
            ", ".join(f"{one['name']} ({one['state']})" for one in vdc["clusters"]),
            vdc["used"]["jobs"],
            _limits(vdc),
        )
        for vdc in vdcs
    ]
    return render.table(_COLUMNS, rows, width)


def _limits(vdc: dict[str, Any]) -> str:
    parts = [limits_text(vdc["offered"])]
    parts += [f"{vdc['max_per_user']} jobs per user"] if vdc["max_per_user"] else []
    return ", ".join(part for part in parts if part) or "-"


def _member(text: str) -> dict[str, Any]:
    """``NAME``, ``NAME:WEIGHT`` or ``NAME:WEIGHT:PRIORITY``."""
    name, _, rest = text.partition(":")
    weight, _, priority = rest.partition(":")
    try:
        member: dict[str, Any] = {"name": name}
        member |= {"weight": types.DECIMAL.read(weight)} if weight else {}
        if priority and not is_digits(priority):
            raise ValueError(priority)
        return member | ({"priority": int(priority)} if priority else {})
    except ValueError:
        raise ClientError(
            f"--clusters: {text!r} is not valid; expected NAME, NAME:WEIGHT or NAME:WEIGHT:PRIORITY"
        ) from None


@click.group()
def vdc() -> None:
    """Virtual data centres: some clusters, how to choose among them, what may be held.

    \b
    rota vdc set science --clusters hpc,local --strategy cost --gpus 16
    rota submit --vdc science -- python train.py
    """


@vdc.command("list")
@json_option
@quiet_option
def list_vdcs(as_json: bool, quiet: bool) -> None:
    """List them, with the states of their clusters."""
    found = items(session.connect().get("/vdcs"))
    if as_json:
        click.echo(json.dumps(found, indent=2))
    elif quiet:
        click.echo("\n".join(one["name"] for one in found))
    else:
        click.echo("\n".join(vdc_table(found, terminal_width())))


@vdc.command()
@click.argument("name")
def show(name: str) -> None:
    """All about one, as JSON."""
    click.echo(json.dumps(session.connect().get(f"/vdcs/{segment(name)}"), indent=2))


@vdc.command("set")
@click.argument("name")
@click.option("--clusters", type=types.Words(), help="NAME[:WEIGHT[:PRIORITY]], with commas.")
@click.option("--strategy", type=click.Choice(STRATEGIES), help="How clusters are chosen.")
@click.option("--preferred", type=types.Words(), help="For affinity: the best cluster first.")
@click.option("--label", type=types.Pair(), multiple=True, help="A label that its nodes must have.")
@click.option("--jobs", type=types.COUNT, help="Jobs that run at once.")
@click.option("--cpus", type=types.DECIMAL, help="CPUs at once.")
@click.option("--mem", help="Memory at once: 500G.")
@click.option("--gpus", type=types.DECIMAL, help="GPUs at once.")
@click.option("--overcommit", type=types.DECIMAL, help="A factor on these amounts.  [default: 1]")
@click.option("--max-per-user", type=types.COUNT, help="Jobs of one user at once; 0: any number.")
@json_option
def set_vdc(name: str, as_json: bool, **given: Any) -> None:
    """Make one, or change what is named of one that exists.

    Strategies: load (the least loaded), fit (the tightest), weight (priority times weight),
    affinity (the preferred ones in order), cost (the cheapest).
    """
    body = body_of(given)
    client = session.connect()
    known = [one["name"] for one in items(client.get("/vdcs"))]
    path = f"/vdcs/{segment(name)}"
    if name not in known and "clusters" not in body:
        raise click.UsageError("a new virtual data centre needs --clusters")
    if not body:
        raise click.UsageError("nothing to set: give at least one option")
    answer = client.patch(path, body) if name in known else client.put(path, body)
    click.echo(json.dumps(answer, indent=2) if as_json else "\n".join(vdc_table([answer])))


def body_of(given: dict[str, Any]) -> dict[str, Any]:
    """The request that the options make."""
    plain = ("strategy", "overcommit", "max_per_user")
    body = {key: given[key] for key in plain if given[key] is not None}
    if given["clusters"]:
        body["clusters"] = [_member(text) for text in given["clusters"]]
    if given["preferred"]:
        body["preferred"] = list(given["preferred"])
    if given["label"]:
        body["labels"] = dict(given["label"])
    limits = {key: given[key] for key in ("jobs", "cpus", "gpus") if given[key] is not None}
    if given["mem"]:
        limits["memory_mb"] = units.parse_memory_mib(given["mem"])
    return body | ({"limits": limits} if limits else {})


@vdc.command()
@click.argument("name")
def remove(name: str) -> None:
    """Remove one that has no jobs."""
    session.connect().delete(f"/vdcs/{segment(name)}")
    click.echo(f"removed {name}")
