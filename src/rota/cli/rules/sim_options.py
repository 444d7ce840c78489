"""Options of ``rota sim``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.cli.shared.types import DURATION, Number

if TYPE_CHECKING:
    from collections.abc import Callable

SCALES = ("load", "run")
_FILE = click.Path(path_type=Path)


class Scale(click.ParamType[tuple[str, float]]):
    """``load=1.2``: what is scaled, and by how much."""

    name = "scale"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        what, _, text = str(value).partition("=")
        try:
            factor = float(text)
        except ValueError:
            factor = 0.0
        if what not in SCALES or not 0.0 < factor < 1e6:
            self.fail(f"{value!r} is not load=FACTOR or run=FACTOR with a factor above 0")
        return what, factor


class NameList(click.ParamType[tuple[str, ...]]):
    """Names with commas between them."""

    name = "names"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        names = tuple(word for word in (part.strip() for part in str(value).split(",")) if word)
        if not names:
            self.fail("no policy is named; see docs/sim.md for all")
        return names


_OPTIONS = (
    click.option(
        "--policy",
        type=NameList(),
        default="default",
        show_default=True,
        metavar="LIST",
        help="Policies, such as easy,sjf; placements, such as score,fgd; both, such as easy+fgd.",
    ),
    click.option(
        "--procs", type=Number(min=1), help="Processors of the machine; they have no names."
    ),
    click.option(
        "--nodes",
        type=Number(min=1),
        help="This many named nodes; reservations are tied to single nodes.",
    ),
    click.option(
        "--per-node", type=Number(min=1), help="Processors or GPUs of each node (GPUs: 8, else 1)."
    ),
    click.option("--cluster", type=_FILE, metavar="FILE", help="Nodes from a TOML or CSV file."),
    click.option(
        "--events",
        type=click.Choice(["batch", "single"]),
        default="batch",
        show_default=True,
        help="Events of one instant: all, then one pass; or one by one, arrivals first.",
    ),
    click.option(
        "--estimates",
        type=click.Choice(["user", "exact", "predicted"]),
        help="How long jobs are taken to run; without it, as the policy says.",
    ),
    click.option(
        "--overrun",
        type=click.Choice(["kill", "extend"]),
        default="kill",
        show_default=True,
        help="What becomes of jobs that run longer than their users said.",
    ),
    click.option(
        "--spare/--no-spare",
        default=True,
        help="EASY: long jobs may run on what the first in line leaves over (default), or not.",
    ),
    click.option("--jobs", type=Number(min=1), metavar="N", help="Play N jobs."),
    click.option(
        "--skip", type=Number(min=0), default=0, metavar="N", help="Leave the first N out."
    ),
    click.option(
        "--from", "from_", type=DURATION, metavar="TIME", help="Jobs from here on, such as 7d."
    ),
    click.option(
        "--to", type=DURATION, metavar="TIME", help="Jobs before this moment of the trace."
    ),
    click.option(
        "--scale",
        type=Scale(),
        multiple=True,
        metavar="WHAT=FACTOR",
        help="load=1.2: jobs come 1.2 times as fast; run=1.1: they take longer.",
    ),
    click.option(
        "--foresight",
        is_flag=True,
        help="What jobs that wait would have been told at submit, and how true it was.",
    ),
    click.option(
        "--foresight-every",
        type=Number(min=1),
        metavar="N",
        help="With --foresight: ask only about every N-th job that waits.",
    ),
    click.option("--seed", type=Number(), default=0, show_default=True, help="Of the intervals."),
    click.option("--out", type=_FILE, metavar="DIR", help="Write jobs.csv and summary.json."),
    click.option("--parquet", is_flag=True, help="With --out: jobs.parquet as well."),
    click.option("--report", type=_FILE, metavar="FILE", help="Write a page with pictures."),
    click.option("--kind", metavar="KIND", help="Format of TRACE, where it cannot be told."),
    click.option("--sort", is_flag=True, help="Put a log that is out of order in order."),
    click.option(
        "--history",
        metavar="STATE_DIR",
        help="Play what this installation recorded, or a folder of 'rota archive'.",
    ),
    click.option("--arrivals", type=_FILE, metavar="FILE", help="Names in order of arrival."),
    click.option("--node-order", type=_FILE, metavar="FILE", help="Names of nodes in order."),
    click.option("--quiet", is_flag=True, help="No progress bar."),
)


def sim_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
