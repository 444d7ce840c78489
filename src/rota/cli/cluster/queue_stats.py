"""``rota queues``: what waits in which queue, how long and why."""

from __future__ import annotations

import json
from typing import Any

import click

from rota.cli.jobs.queue import terminal_width
from rota.cli.jobs.show import items
from rota.cli.shared import job_fields, render, session
from rota.cli.shared.options import json_option

_COLUMNS = (
    render.Column("QUEUE", shrinks=True, least=8),
    render.Column("STATE"),
    render.Column("WAITING", right=True),
    render.Column("RUNNING", right=True),
    render.Column("OLDEST", right=True),
    render.Column("MEAN", right=True),
    render.Column("WANTED", right=True),
    render.Column("HELD", right=True),
    render.Column("WAIT FOR", shrinks=True, least=12),
)


def stats_table(queues: list[dict[str, Any]], width: int | None = None) -> list[str]:
    """Amounts are CPUs/GPUs; the last column counts the waiting jobs by what they wait for."""
    rows = [
        (
            queue["name"],
            queue["state"],
            queue["waiting"],
            queue["running"],
            job_fields.clock(queue["oldest_wait_s"]) if queue["waiting"] else "-",
            job_fields.clock(queue["mean_wait_s"]) if queue["waiting"] else "-",
            f"{queue['waiting_cpus']:g}/{queue['waiting_gpus']:g}",
            f"{queue['running_cpus']:g}/{queue['running_gpus']:g}",
            ", ".join(f"{code} {count}" for code, count in _ranked(queue["reasons"])) or "-",
        )
        for queue in queues
    ]
    return render.table(_COLUMNS, rows, width)


def _ranked(reasons: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(reasons.items(), key=lambda entry: (-entry[1], entry[0]))


@click.command()
@json_option
def queues(as_json: bool) -> None:
    """Say what waits in each queue, for how long and for what.

    WANTED and HELD are CPUs/GPUs of waiting and of running jobs.
    """
    found = items(session.connect().get("/queues:stats"))
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        click.echo("\n".join(stats_table(found, terminal_width())))
