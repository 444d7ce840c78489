"""``rota inventory``: which GPUs there are, who has them, and what an inventory outside says."""

from __future__ import annotations

import json
from typing import Any

import click

from rota.cli.jobs.show import items
from rota.cli.shared import exits, render, session, types
from rota.cli.shared.options import json_option

COLUMNS = (
    render.Column("MODEL"),
    render.Column("GPUS", right=True),
    render.Column("NODES", right=True),
    render.Column("STATES"),
)
#: In which order states are counted.
STATES = ("free", "used", "shared", "reserved", "foreign", "elsewhere", "closed", "broken")


@click.command()
@click.option("--type", "kind", metavar="MODEL", help="Only GPUs of this model.")
@click.option("--available", is_flag=True, help="Only those that are free now.")
@click.option("--limit", type=types.AT_LEAST_ONE, metavar="N", help="The first N.")
@json_option
def inventory(kind: str | None, available: bool, limit: int | None, as_json: bool) -> int:
    """List every GPU of the site by model and state, and say how the inventory outside is.

    Exits with 1 when there is an inventory outside and it is silent; its last answer stands then.
    """
    client = session.connect()
    given: dict[str, object] = {"type": kind, "limit": limit}
    gpus = items(client.get("/gpus", **given, **({"available": 1} if available else {})))
    outside = client.get("/status").get("inventory")
    if as_json:
        click.echo(json.dumps({"gpus": gpus, "outside": outside}, indent=2))
    else:
        click.echo("\n".join([*summary(gpus), *standing(outside)]))
    return exits.NEGATIVE if outside and outside["state"] == "silent" else exits.OK


def summary(gpus: list[dict[str, Any]]) -> list[str]:
    """One line per model: how many, on how many nodes, in which states."""
    if not gpus:
        return ["no GPUs"]
    rows = []
    for model in sorted({str(gpu["model"]) for gpu in gpus}):
        those = [gpu for gpu in gpus if gpu["model"] == model]
        nodes = {gpu["node"] for gpu in those}
        counts = [sum(gpu["state"] == state for gpu in those) for state in STATES]
        words = [f"{count} {state}" for count, state in zip(counts, STATES, strict=True) if count]
        rows.append([model or "?", str(len(those)), str(len(nodes)), ", ".join(words)])
    return render.table(COLUMNS, rows)


def standing(outside: dict[str, Any] | None) -> list[str]:
    if not outside:
        return []
    line = f"inventory {outside['url']}: {outside['state']}"
    if outside["elsewhere"]:
        line += f", GPUs in use elsewhere: {outside['elsewhere']}"
    if outside["problem"]:
        line += f"; {outside['problem']}"
    return [line]
