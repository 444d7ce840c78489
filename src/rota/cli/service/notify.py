"""``rota notify``: who is told what happens to jobs, and whether that works."""

from __future__ import annotations

import json
from typing import Any

import click

from rota.cli.jobs.queue import terminal_width
from rota.cli.shared import job_fields, render, session
from rota.cli.shared.options import json_option

_HELP = """Show who is told of jobs, and whether that works.

A job names those to tell at submit; the site names its own in rota.toml, under [notify].

\b
rota submit --notify https://hooks.example.org/x -- python train.py
rota submit --notify mail:ann@example.org,on=started,failed -- python train.py

Without ,on= they are told how the job ends. Events: submitted, held, released, eligible,
started, preempted, requeued, completed, failed, cancelled, timeout, node_failed,
unschedulable; or all, end, problem.
"""

_COLUMNS = (
    render.Column("RECEIVER", shrinks=True, least=12),
    render.Column("STATE"),
    render.Column("SENT", right=True),
    render.Column("WAITING", right=True),
    render.Column("GIVEN UP", right=True),
    render.Column("LAST SENT"),
    render.Column("PROBLEM", shrinks=True, least=12),
)


def receivers_table(receivers: list[dict[str, Any]], width: int | None = None) -> list[str]:
    """One line each; a plus means that more wait in the log."""
    rows = [
        (
            one["name"],
            one["state"],
            one["sent"],
            f"{one['waiting']}{'+' if one['more'] else ''}",
            one["given_up"],
            job_fields.local_time(one["sent_at"]) or "-",
            one["problem"] or "-",
        )
        for one in receivers
    ]
    return render.table(_COLUMNS, rows, width)


@click.group(help=_HELP, invoke_without_command=True)
@json_option
@click.pass_context
def notify(ctx: click.Context, /, as_json: bool) -> None:
    if ctx.invoked_subcommand is None:
        _list(as_json)


@notify.command("list", short_help="The same: who is told, and whether that works.")
@json_option
def list_receivers(as_json: bool) -> None:
    """Show who is told of jobs, and whether that works."""
    _list(as_json)


def _list(as_json: bool) -> None:
    answer = session.connect().get("/notify/status")
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    if answer["receivers"]:
        click.echo("\n".join(receivers_table(answer["receivers"], terminal_width())))
    else:
        click.echo("nobody was told of anything since the controller started")
    ways = ["https", "http", *(["mail"] if answer["mail"] else []), *answer["notifiers"]]
    click.echo(f"jobs may name: {', '.join(ways)}")
