"""``rota clusters``: what each cluster has, and whether it takes work."""

from __future__ import annotations

import json
from typing import Any

import click

from rota.cli.jobs.queue import terminal_width
from rota.cli.shared import job_fields, render, session
from rota.cli.shared.options import json_option, quiet_option

_COLUMNS = (
    render.Column("CLUSTER", shrinks=True, least=8),
    render.Column("STATE"),
    render.Column("NODES", right=True),
    render.Column("FREE CPUS", right=True),
    render.Column("FREE GPUS", right=True),
    render.Column("RUNNING", right=True),
    render.Column("WAITING", right=True),
    render.Column("ENGINES", shrinks=True, least=5),
    render.Column("NOTE", shrinks=True, least=12),
)


def cluster_table(clusters: list[dict[str, Any]], width: int | None = None) -> list[str]:
    """NODES are those that take work, of all; WAITING are the jobs bound to it."""
    rows = [
        (
            one["name"],
            one["state"],
            f"{one['ready']}/{one['nodes']}",
            f"{one['free']['cpus']:g}/{one['total']['cpus']:g}",
            f"{one['free']['gpus']:g}/{one['total']['gpus']:g}",
            one["running"],
            one["waiting"],
            ", ".join(one["engines"]) or "-",
            _note(one),
        )
        for one in clusters
    ]
    return render.table(_COLUMNS, rows, width)


def _note(cluster: dict[str, Any]) -> str:
    since = f"since {job_fields.local_time(cluster['since'])}" if cluster["since"] else ""
    return ": ".join(part for part in (since, cluster["note"]) if part) or "-"


@click.command()
@json_option
@quiet_option
def clusters(as_json: bool, quiet: bool) -> None:
    """List clusters: their nodes, what is free, and what runs and waits there.

    A cluster is up; waiting, when nothing speaks for its nodes; away, when its engine does not
    answer; or closed, when all its nodes are drained. What runs on one that is waiting or away is
    held, not given up.
    """
    answer = session.connect().get("/clusters")
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    elif quiet:
        click.echo("\n".join(one["name"] for one in answer["items"]))
    else:
        click.echo("\n".join(cluster_table(answer["items"], terminal_width())))
        if answer["unbound"]:
            click.echo(f"{answer['unbound']} waiting jobs may go to any cluster")
