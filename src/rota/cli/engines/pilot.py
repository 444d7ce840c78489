"""``rota engine pilot``: allocations of an engine that are asked for when jobs wait."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from rota.cli.cluster.gpu_table import brief_mib
from rota.cli.jobs.queue import terminal_width
from rota.cli.jobs.show import items
from rota.cli.shared import render, session, types
from rota.cli.shared.asking import confirm
from rota.cli.shared.options import json_option
from rota.client.http import segment
from rota.core.facts.errors import Conflict
from rota.core.facts.site.pilot import KINDS
from rota.core.words.units import counted, format_duration
from rota.settings.pilots import read_fields

_COLUMNS = (
    render.Column("NAME"),
    render.Column("KIND"),
    render.Column("ONE HAS"),
    render.Column("TIME"),
    render.Column("UP"),
    render.Column("COMING"),
    render.Column("MOST"),
    render.Column("REMARKS", shrinks=True),
)
_OPTIONS = (
    click.option("--most", type=types.Number(), help="How many at a time.  [default: 4]"),
    click.option("--time", help="An allocation ends after this time.  [default: 1h]"),
    click.option("--idle", help="It is let go when idle for this time.  [default: 30s]"),
    click.option("--cpus", help="CPUs of one.  [default: a whole node]"),
    click.option("--memory", help="Memory of one: 8g.  [default: what the engine gives]"),
    click.option("--gpus", type=types.Number(), help="GPUs of one.  [default: 0]"),
    click.option("--gpu-type", help="Their model.  [default: any]"),
    click.option("--price", help="What one costs in an hour.  [default: 0]"),
    click.option("--spend", help="What all may cost in an hour.  [default: no bound]"),
    click.option(
        "--unlimited/--limited",
        default=None,
        help="Whether jobs without a time limit may start in one.  [default: limited]",
    ),
    click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Of its nodes."),
    click.option("--url", help="Where its agents reach the controller.  [default: as it listens]"),
    click.option("--program", help="The program rota on its nodes.  [default: as here]"),
    click.option(
        "--set",
        "engine",
        multiple=True,
        metavar="KEY=VALUE",
        help="For the engine, as in [engines.NAME]: partition=main, folder=/shared/rota.",
    ),
)


def _with_options(command: Any) -> Any:  # noqa: ANN401 - a function of click
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.group(short_help="Allocations of an engine, asked for when jobs wait.")
def pilot() -> None:
    """Allocations of an engine that are asked for when jobs wait, and let go when idle.

    Rota's own agent runs in each of them. Also as [pilots.NAME] in rota.toml, which wins at start.
    """


@pilot.command(short_help="Ask an engine for nodes when jobs wait.")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name")
@_with_options
def add(kind: str, name: str, **asked: Any) -> None:
    """Ask an engine for nodes when jobs wait: rota engine pilot add slurm hpc --cpus 8."""
    client = session.connect()
    if name in {known["name"] for known in items(client.get("/pilots"))}:
        raise Conflict(f"pilot {name} is there already; change it with 'rota engine pilot set'")
    client.put(f"/pilots/{segment(name)}", {"kind": kind, **_body(asked)})
    _nudge()
    click.echo(f"pilot {name}: allocations are asked for when jobs wait")


@pilot.command("set", short_help="Change what is asked for from now on.")
@click.argument("name")
@_with_options
def change(name: str, **asked: Any) -> None:
    """Change what is asked for from now on; what is there stays as it is."""
    body = _body(asked)
    if not body:
        raise click.UsageError("nothing to change; see --help for what can be set")
    session.connect().patch(f"/pilots/{segment(name)}", body)
    click.echo(f"pilot {name} is changed")


@pilot.command(short_help="Ask for no more.")
@click.argument("name")
@click.option("--yes", "-y", is_flag=True, help="Do not ask first.")
def remove(name: str, yes: bool) -> None:
    """Ask for no more; what waits goes at once, what runs when its jobs are over."""
    confirm(f"remove pilot {name}", yes)
    session.connect().delete(f"/pilots/{segment(name)}")
    click.echo(f"pilot {name} is removed")


@pilot.command("list")
@json_option
def list_pilots(as_json: bool) -> None:
    """Pilots, how many are up or wait in their engines, and why."""
    found = items(session.connect().get("/pilots"))
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        click.echo("\n".join(pilot_table(found, terminal_width())))


@pilot.command(short_help="Keep pilots in the foreground.")
@click.option("--state-dir", metavar="DIR", default="", help="The state of this machine's Rota.")
def run(state_dir: str) -> None:
    """Keep the pilots of the Rota on this machine in the foreground; 'rota up' does so by itself.

    What is allocated stays after it.
    """
    import logging

    from rota.cli.service import pilots, serve

    place, settings = serve.prepare(state_dir)
    level = settings.server.log_level.upper()
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(message)s")
    pilots.serve(place)


def _body(asked: dict[str, Any]) -> dict[str, Any]:
    """What was given on the command line, in the fields of the API."""
    pairs = {name: _pairs(f"--{option}", asked.pop(name)) for name, option in _PAIRS.items()}
    table = {name: value for name, value in asked.items() if value is not None}
    body = read_fields(table, "pilot")
    if "cpu_milli" in body:
        body["cpus"] = body.pop("cpu_milli") / 1000
    if "memory_mib" in body:
        body["memory_mb"] = body.pop("memory_mib")
    if pairs["labels"]:
        body["labels"] = pairs["labels"]
    if pairs["engine"]:
        body["engine"] = {key: _plain(text) for key, text in pairs["engine"].items()}
    return body


_PAIRS = {"labels": "label", "engine": "set"}


def _pairs(option: str, words: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise click.UsageError(f"{option}: {word!r} is not valid; expected KEY=VALUE")
        found[key] = value
    return found


def _plain(text: str) -> Any:  # noqa: ANN401 - as JSON has it
    """Numbers, lists and tables as JSON writes them; anything else is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _nudge() -> None:
    """On this machine the keeper is started at once."""
    if os.environ.get("ROTA_URL"):
        return
    from rota import paths
    from rota.cli.service import pilots
    from rota.cli.service.state_folder import StateFolder

    pilots.nudge(StateFolder(paths.state_dir(os.environ)))


def pilot_table(found: list[dict[str, Any]], width: int | None = None) -> list[str]:
    """A line for each, and one more for each allocation that is not up."""
    rows = []
    for entry in found:
        made = entry["allocations"]
        up = sum(one["state"] == "up" for one in made)
        rows.append(
            (
                entry["name"],
                entry["kind"],
                _size(entry),
                format_duration(entry["time_s"]),
                up,
                len(made) - up,
                entry["most"],
                "; ".join(filter(None, [entry["problem"], *_waiting(made)])),
            )
        )
    return render.table(_COLUMNS, rows, width)


def _size(entry: dict[str, Any]) -> str:
    if not entry["cpus"]:
        return "a whole node"
    memory = f" {brief_mib(entry['memory_mb'])}" if entry["memory_mb"] else ""
    gpus = f" {counted(entry['gpus'], 'gpus')}" if entry["gpus"] else ""
    return f"{counted(entry['cpus'], 'cpus')}{memory}{gpus}"


def _waiting(allocations: list[dict[str, Any]]) -> list[str]:
    """How many wait in the engine, by its own reason."""
    reasons: dict[str, int] = {}
    for one in allocations:
        if one["state"] == "waiting":
            reasons[one["reason"]] = reasons.get(one["reason"], 0) + 1
    return [f"{count} waiting: {reason or 'no reason'}" for reason, count in reasons.items()]
