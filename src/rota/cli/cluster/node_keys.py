"""``rota node approve``, ``rotate`` and ``remove``: which machines are nodes."""

from __future__ import annotations

import json

import click

from rota.cli.cluster.nodes import node as node
from rota.cli.jobs.show import items
from rota.cli.shared import session, types
from rota.cli.shared.asking import confirm
from rota.cli.shared.options import json_option
from rota.client.http import segment


@node.command(short_help="Let nodes in that wait for it.")
@click.argument("names", nargs=-1, type=types.Nodes(), callback=types.flat)
@click.option("--all", "everyone", is_flag=True, help="All that wait now.")
@json_option
def approve(names: tuple[str, ...], everyone: bool, as_json: bool) -> None:
    """Let the nodes NAMES in that wait for it: 'rota nodes' lists them as pending.

    They joined with a token that was made with --approve. For operators.
    """
    if bool(names) == everyone:
        raise click.UsageError("name the nodes, or say --all")
    client = session.connect()
    if everyone:
        names = tuple(entry["name"] for entry in client.get("/nodes")["pending"])
    answers = [client.post(f"/nodes/{segment(name)}:approve", {}) for name in names]
    if as_json:
        click.echo(json.dumps(answers))
    else:
        click.echo(f"approved {', '.join(names)}" if names else "no node waits for approval")


@node.command(short_help="Give nodes new keys.")
@click.argument("names", nargs=-1, required=True, type=types.Nodes(), callback=types.flat)
@json_option
def rotate(names: tuple[str, ...], as_json: bool) -> None:
    """Give the nodes NAMES new keys; the ones before are refused from then on. For operators.

    They must be connected. Their jobs notice nothing.
    """
    client = session.connect()
    answers = [client.post(f"/nodes/{segment(name)}:rotate", {}) for name in names]
    if as_json:
        click.echo(json.dumps(answers))
        return
    for answer in answers:
        click.echo(f"{answer['name']} has the key {answer['key']}")


@node.command(short_help="Cut nodes off and forget them.")
@click.argument("names", nargs=-1, required=True, type=types.Nodes(), callback=types.flat)
@click.option("--yes", "-y", is_flag=True, help="Do not ask first.")
@click.option("--dry-run", is_flag=True, help="Only say what would be given up.")
def remove(names: tuple[str, ...], yes: bool, dry_run: bool) -> None:
    """Cut the nodes NAMES off and forget them: their keys are refused from then on. For operators.

    What runs there is given up when the lease of the node is over, and goes on elsewhere by the
    rules of each job. A node that waits for approval is turned down.
    """
    client = session.connect()
    known = {entry["name"]: entry for entry in items(client.get("/nodes"))}
    busy = [name for name in names if (known.get(name) or {}).get("jobs")]
    for name in busy:
        jobs = ", ".join(map(str, known[name]["jobs"]))
        session.warn(f"{name} runs jobs {jobs}: they are given up when its lease is over")
    if dry_run:
        click.echo(f"would remove {', '.join(names)}")
        return
    if busy:
        confirm(f"remove {', '.join(names)}", yes)
    tokens = {entry["id"]: entry for entry in items(client.get("/tokens"))}
    for name in names:
        client.delete(f"/nodes/{segment(name)}")
        click.echo(f"removed {name}")
        joined = tokens.get((known.get(name) or {}).get("joined_with") or "")
        if joined and joined.get("uses_left") != 0:
            session.warn(
                f"{name} knows the join token {joined['id']}, which is still good: "
                f"rota token revoke {joined['id']}"
            )
