"""``rota top``: a live view of nodes, GPUs and jobs."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import TYPE_CHECKING

import click

from rota.cli.cluster.nodes import by_node
from rota.cli.cluster.top_frame import TopSnapshot, frame
from rota.cli.jobs.far import add_progress
from rota.cli.jobs.show import items
from rota.cli.shared import session, types

if TYPE_CHECKING:
    from rota.client.http import Client

#: More than anybody scrolls through.
_MOST = 1000


def take(client: Client) -> TopSnapshot:
    """What a frame shows, from a few short requests on one connection."""
    running = {"state": "running,scheduled", "arrays": "expand", "order": "id"}
    waiting = {"state": "queued,held,preempted", "arrays": "collapse", "order": "id"}
    begun = list(session.list_jobs(client, running, most=_MOST))
    add_progress(client, begun)
    return TopSnapshot(
        status=client.get("/status"),
        nodes=by_node(items(client.get("/nodes"))),
        gpus=by_node(items(client.get("/gpus")), "node"),
        running=[*begun],
        waiting=list(session.list_jobs(client, waiting, most=_MOST)),
    )


def _can_redraw() -> bool:
    """Whether there is a terminal, and one on which the cursor can be moved."""
    able = os.environ.get("TERM", "") not in ("", "dumb", "unknown")
    return able and sys.stdout.isatty() and sys.stdin.isatty()


@click.command()
@click.option("--once", is_flag=True, help="Print one frame and end.")
@click.option(
    "--every", type=types.SHORT_DURATION, default="1", metavar="S", help="Refresh.  [default: 1]"
)
def top(once: bool, every: float) -> None:
    """Watch jobs, nodes and GPUs.

    \b
    Enter  everything about the job under the cursor, its log included
    l      its log                c      cancel it (asks first)
    s      sort by another field  /      only rows with a text
    1 2 3  jobs, nodes, GPUs      q      quit

    Prints one frame when this is no terminal that can redraw (TERM=dumb).
    """
    client = session.connect()
    if once or not _can_redraw():
        size = shutil.get_terminal_size((120, 50))
        click.echo("\n".join(frame(take(client), time.time(), size.columns, size.lines)))
        return
    take(client)  # The connection works: errors from here on are waited out.
    from rota.cli.cluster.top_app import TopApp

    TopApp(client, take, max(every, 0.2)).run()
