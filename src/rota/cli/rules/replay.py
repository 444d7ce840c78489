"""``rota replay``: is every decision on record what the rules lead to?"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import click
import msgspec

from rota import paths
from rota.cli.shared import exits
from rota.cli.shared.options import json_option
from rota.cli.shared.render import clean
from rota.core.words.units import format_duration, format_when

if TYPE_CHECKING:
    from rota.sim.replay import Difference, ReplayVerdict


@click.command()
@click.argument("place", required=False, metavar="[STATE_DIR | URL | ARCHIVE]")
@json_option
def replay(place: str | None, as_json: bool) -> None:
    """Make every pass on record again and compare what it decides with what was recorded.

    Reads the log of STATE_DIR (by default this installation's), of a database's URL, or of a folder
    of 'rota archive', beside a running controller. Exits with 0 when all decisions are the same,
    with 1 at the first one that is not, with 2 when the log cannot be replayed.
    """
    from rota.controller.tick.plugins import load_plugins
    from rota.sim.replay import verify
    from rota.store.readonly import open_readonly

    store = open_readonly(place or str(paths.state_dir(os.environ)))
    try:
        verdict = verify(store.all_events(), load_plugins)
    finally:
        store.close()
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(verdict), indent=2))
    else:
        click.echo("\n".join(verdict_lines(verdict)))
    if verdict.difference is not None:
        click.get_current_context().exit(exits.NEGATIVE)


def verdict_lines(verdict: ReplayVerdict) -> list[str]:
    """What was found, for people."""
    span = format_duration(round(verdict.last_s - verdict.first_s))
    starts = _count(verdict.controllers, "start")
    lines = [f"{_count(verdict.events, 'event')} in {span}, written by {starts} of the controller"]
    if verdict.unsure:
        lines.append(f"{verdict.unsure} passes were not compared: a plug-in had failed in them")
    made = f"{_count(verdict.decisions, 'decision')} in {_count(verdict.passes, 'pass', 'es')}"
    if verdict.difference is None:
        lines.append(f"{made}, all the same")
        return lines
    return [
        *lines,
        f"{made} the same, then one that differs:",
        *_difference_lines(verdict.difference),
    ]


def _difference_lines(found: Difference) -> list[str]:
    what = f"job {found.job}" if found.job else "no job"
    return [
        clean(f"  {what} at {format_when(found.at_s)}, in the tick of event {found.seq}"),
        clean(f"  recorded: {_told(found.recorded)}"),
        clean(f"  came out: {_told(found.came_out)}"),
    ]


def _told(event: msgspec.Struct | None) -> str:
    if event is None:
        return "nothing"
    built: dict[str, Any] = msgspec.to_builtins(event)
    kind = built.pop("kind")
    return f"{kind} {json.dumps(built)}"


def _count(number: int, word: str, plural: str = "s") -> str:
    return f"{number} {word}" + ("" if number == 1 else plural)
