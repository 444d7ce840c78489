"""``rota queue-admin``: make, change and remove queues."""

from __future__ import annotations

import json
from typing import Any

import click

from rota.cli.jobs.queue import terminal_width
from rota.cli.jobs.show import items
from rota.cli.shared import render, session, types
from rota.cli.shared.options import json_option, quiet_option
from rota.client.http import segment

_COLUMNS = (
    render.Column("QUEUE", shrinks=True, least=8),
    render.Column("STATE"),
    render.Column("PRIO", right=True),
    render.Column("WAITING", right=True),
    render.Column("RUNNING", right=True),
    render.Column("CAPS", shrinks=True, least=8),
    render.Column("PREEMPTION"),
    render.Column("PROJECT", shrinks=True),
)
_NAMES = (
    *("priority", "max_running", "state", "project", "max_per_user", "max_per_project"),
    *("preempts", "preemptible", "hours", "zone"),
)


def queue_table(queues: list[dict[str, Any]], width: int | None = None) -> list[str]:
    """Every queue, its load and its rules."""
    rows = [
        (
            queue["name"],
            queue["state"] if queue.get("open", True) else f"{queue['state']}, shut now",
            queue["priority"],
            queue["pending_jobs"],
            queue["running_jobs"],
            _caps(queue),
            _preemption(queue),
            queue["project"],
        )
        for queue in queues
    ]
    return render.table(_COLUMNS, rows, width)


def _caps(queue: dict[str, Any]) -> str:
    caps = [
        (queue["max_running"], ""),
        (queue["max_per_user"], " per user"),
        (queue["max_per_project"], " per project"),
    ]
    return ", ".join(f"{cap}{words}" for cap, words in caps if cap) or "-"


def _preemption(queue: dict[str, Any]) -> str:
    """Whether its jobs take room and whether they give way."""
    words = ["takes"] * queue["preempts"] + ["gives"] * queue["preemptible"]
    return "+".join(words) or "none"


def _options(command: Any) -> Any:  # noqa: ANN401 - a command
    cap = types.COUNT
    for option in (
        click.option("--zone", help="The clock of --hours, such as Europe/Berlin.  [UTC]"),
        click.option("--hours", help="When its jobs may start: 'mon-fri 8:00-18:00'; '' lifts it."),
        click.option("--preemptible/--no-preemptible", default=None, help="Its jobs may give way."),
        click.option("--preempts/--no-preempts", default=None, help="Its jobs may take room."),
        click.option("--max-per-project", type=cap, help="Jobs of one project at once."),
        click.option("--max-per-user", type=cap, help="Jobs of one user at once."),
        click.option("--project", help="The project that it belongs to."),
        click.option(
            "--state",
            type=click.Choice(["active", "paused", "draining", "closed"]),
            help="Whether it takes and starts jobs.",
        ),
        click.option("--max-running", type=cap, help="Jobs at once; 0 lifts the cap."),
        click.option("--priority", type=types.Number(0, 100), help="Among queues.  [50]"),
    ):
        command = option(command)
    return command


@click.group("queue-admin")
def queue_admin() -> None:
    """Queues: where jobs wait, who comes first among them, how many may run."""


@queue_admin.command("list")
@json_option
@quiet_option
def list_queues(as_json: bool, quiet: bool) -> None:
    """List queues, their load and their rules."""
    found = items(session.connect().get("/queues"))
    if as_json:
        click.echo(json.dumps(found, indent=2))
    elif quiet:
        click.echo("".join(f"{render.clean(queue['name'])}\n" for queue in found), nl=False)
    else:
        click.echo("\n".join(queue_table(found, terminal_width())))


def _given(given: dict[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name in _NAMES if given.get(name) is not None}


def _print(answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        click.echo("\n".join(queue_table([answer], terminal_width())))


@queue_admin.command()
@click.argument("name")
@_options
@json_option
def add(name: str, as_json: bool, **given: Any) -> None:
    """Make the queue NAME."""
    client = session.connect()
    if any(queue["name"] == name for queue in items(client.get("/queues"))):
        raise click.UsageError(f"there is a queue {name} already; change it with 'queue-admin set'")
    _print(client.put(f"/queues/{segment(name)}", _given(given)), as_json)


@queue_admin.command("set")
@click.argument("name")
@_options
@json_option
def set_queue(name: str, as_json: bool, **given: Any) -> None:
    """Change the queue NAME; what is not named stays."""
    body = _given(given)
    if not body:
        raise click.UsageError("nothing to change: give at least one option")
    _print(session.connect().patch(f"/queues/{segment(name)}", body), as_json)


@queue_admin.command()
@click.argument("names", nargs=-1, required=True)
def remove(names: tuple[str, ...]) -> None:
    """Remove queues that have no jobs."""
    client = session.connect()
    for name in names:
        client.delete(f"/queues/{segment(name)}")
        click.echo(f"removed {name}")
