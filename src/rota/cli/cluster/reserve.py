"""``rota reserve``: GPUs or nodes for somebody from when to when, and maintenance windows."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click

from rota.cli.cluster import timeline
from rota.cli.jobs.queue import terminal_width
from rota.cli.jobs.show import items
from rota.cli.shared import render, session, types
from rota.cli.shared.options import json_option, quiet_option
from rota.core.words.units import format_when
from rota.moments import parse_moment, zone_named

if TYPE_CHECKING:
    from datetime import tzinfo

_ZONE = click.option(
    "--zone", default="", help="Times are of this zone: Europe/Berlin.  [default: this machine's]"
)


class _Devices(click.ParamType[tuple[int, ...]]):
    """``0,1`` or ``0-3``."""

    name = "indices"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        from rota.core.facts.errors import Rejected
        from rota.core.facts.indices import parse_indices

        try:
            runs, cap = parse_indices(str(value))
        except Rejected:
            runs, cap = (), 1
        found = tuple(run.first + n * run.step for run in runs for n in range(len(run)))
        if cap or not found or len(found) > 1000:
            self.fail(f"'{value}' is not valid; expected indices such as 0,1 or 0-3", param, ctx)
        return found


@click.group()
def reserve() -> None:
    """Reservations: GPUs or whole nodes for a user or a project, or maintenance."""


@reserve.command()
@click.option("--gpus", type=types.AT_LEAST_ONE, help="How many GPUs, wherever they are.")
@click.option("--gpu-type", metavar="MODEL", help="Only of this model.")
@click.option("--gpu", "devices", type=_Devices(), help="These GPUs of --node: 0,1 or 0-3.")
@click.option("--node", help="The node of --gpu.")
@click.option("--nodes", type=types.Nodes(), help="Whole nodes; with --gpus: where these are.")
@click.option("--user", help="For this user.")
@click.option("--project", help="For the jobs of this project.")
@click.option("--maintenance", is_flag=True, help="For nobody: nothing may run there then.")
@click.option("--start", default="now", help="18:00, tomorrow 9:00, 1h (from now).  [now]")
@click.option("--duration", type=types.DURATION, help="How long: 4h, 2d.")
@click.option("--until", help="When it ends, instead of --duration.")
@_ZONE
@click.option("--note", default="", help="What it is for.")
@json_option
@quiet_option
def add(as_json: bool, quiet: bool, **given: Any) -> None:
    """Reserve something and print its id.

    \b
    rota reserve add --gpus 2 --gpu-type A100 --user ada --start 18:00 --duration 4h
    rota reserve add --gpu 0,1 --node box --project vision --start 'mon 9:00' --until 'mon 17:00'
    rota reserve add --nodes n[1-4] --maintenance --start 'tomorrow 6:00' --duration 2h

    It is refused when what it promises is promised to somebody else at any moment of it. For
    operators.
    """
    answer = session.connect().post("/reservations", body_of(given, time.time()))
    if as_json:
        click.echo(json.dumps(answer))
    elif quiet:
        click.echo(answer["id"])
    else:
        zone = timeline.zone_of(answer["zone"])
        line = timeline.table([answer], None, zone)
        click.echo(f"reserved {answer['id']}\n" + "\n".join(line))


def body_of(given: dict[str, Any], now_s: float) -> dict[str, Any]:
    """The request; moments are read here, on the clock of the zone, and sent as UTC."""
    body = {
        name: given[name]
        for name in ("gpus", "gpu_type", "node", "user", "project", "maintenance", "note", "zone")
        if given.get(name)
    }
    for name in ("devices", "nodes"):
        if given.get(name):
            body[name] = list(given[name])
    zone = _zone(given["zone"])
    start_s = _moment("--start", given["start"], now_s, zone)
    body["start_at"] = format_when(start_s)
    if given.get("until"):
        # "tomorrow 17:00" counts from today; a mere "17:00" is the first one behind the start.
        end_s = _moment("--until", given["until"], now_s, zone)
        if end_s <= start_s:
            end_s = _moment("--until", given["until"], start_s, zone)
        body["end_at"] = format_when(end_s)
    if bool(given.get("until")) == (given.get("duration") is not None):
        raise click.UsageError("give --duration or --until, one of them")
    if given.get("duration") is not None:
        body["duration_s"] = given["duration"]
    return body


def _zone(name: str) -> tzinfo | None:
    try:
        return zone_named(name)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--zone") from None


def _moment(option: str, text: str, now_s: float, zone: tzinfo | None) -> float:
    try:
        return parse_moment(text, now_s, zone)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None


@reserve.command("job", short_help="Keep GPUs for one job.")
@click.argument("job", type=types.JobRefType())
@click.argument("gpus", nargs=-1, required=True, metavar="GPU…")
@json_option
def keep_for_job(job: str, gpus: tuple[str, ...], as_json: bool) -> None:
    """Keep GPUs for one JOB: it runs on these and on no others, and nobody else does.

    
    rota reserve job 12 box:0 box:1     by node and index
    rota reserve job 12 GPU-6b1e…       by uuid, as 'rota gpus --json' shows it

    Until the job has ended, or 'rota reserve remove 12'.
    """
    client = session.connect()
    body = {"job_id": session.job_id(client, job), "gpu_ids": list(gpus)}
    answer = client.post("/reservations", body)
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    kept = "; ".join(timeline.what(entry) for entry in answer["items"])
    click.echo(f"kept for job {answer['job_id']}: {kept}")


@reserve.command("list")
@_ZONE
@json_option
@quiet_option
def list_reservations(zone: str, as_json: bool, quiet: bool) -> None:
    """List reservations, and when they are on a line of time."""
    found = items(session.connect().get("/reservations"))
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    if quiet:
        click.echo("".join(f"{entry['id']}\n" for entry in found), nl=False)
        return
    place, width = _zone(zone), terminal_width()
    lines = timeline.table(found, width, place)
    chart = timeline.bars(found, time.time(), width or 80, place)
    click.echo("\n".join([*lines, *([""] if chart else []), *chart]))


@reserve.command()
@click.argument("number", metavar="ID", type=types.COUNT)
@json_option
def show(number: int, as_json: bool) -> None:
    """Show the reservation ID."""
    found = session.connect().get(f"/reservations/{number}")
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    pairs = [("for", timeline.holder(found)), ("what", timeline.what(found))]
    keys = ("state", "start_at", "end_at", "zone", "note")
    click.echo("\n".join(render.block([("id", number), *pairs, *((k, found[k]) for k in keys)])))


@reserve.command()
@click.argument("numbers", metavar="ID…", type=types.COUNT, nargs=-1, required=True)
@quiet_option
def remove(numbers: tuple[int, ...], quiet: bool) -> None:
    """Remove reservations, by their ids; jobs that use them go on."""
    client = session.connect()
    for number in numbers:
        client.delete(f"/reservations/{number}")
        click.echo(number if quiet else f"removed {number}")


# As other schedulers call it.
reserve.add_command(remove, "cancel")
