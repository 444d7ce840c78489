"""``rota top``: a live view of nodes, GPUs and jobs."""

from __future__ import annotations

import os
import select
import shutil
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from rota.cli.cluster.top_frame import Snapshot, frame
from rota.cli.jobs.follow import patiently
from rota.cli.jobs.show import items
from rota.cli.shared import session, types

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.client.http import Client

#: More than any terminal shows.
_MOST = 100


def take(client: Client) -> Snapshot:
    """What a frame shows, from five short requests on one connection."""
    running = {"state": "running,scheduled", "arrays": "expand", "order": "id"}
    waiting = {"state": "queued,held,preempted", "arrays": "collapse", "order": "id"}
    return Snapshot(
        status=client.get("/status"),
        nodes=items(client.get("/nodes")),
        gpus=items(client.get("/gpus")),
        running=list(session.list_jobs(client, running, most=_MOST)),
        waiting=list(session.list_jobs(client, waiting, most=_MOST)),
    )


@contextmanager
def _single_keys() -> Iterator[None]:
    """Keys arrive at once and unseen; the terminal is put back whatever happens."""
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _quits_within(wait_s: float) -> bool:
    """Wait, and tell whether somebody pressed q meanwhile."""
    until_s = time.monotonic() + wait_s
    while (left_s := until_s - time.monotonic()) > 0:
        if select.select([sys.stdin], [], [], left_s)[0] and sys.stdin.read(1) in ("q", "Q", ""):
            return True
    return False


def _live(client: Client, every_s: float) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    def picture(snapshot: Snapshot) -> Text:
        lines = frame(snapshot, time.time(), console.width, console.height - 1)
        text = Text("\n".join([*lines, ""]), no_wrap=True, overflow="crop")
        text.highlight_regex(r"#+", "green")
        text.highlight_regex(r"(?m)^(RUNNING|WAITING|ID ).*$", "bold")
        text.append("q quits", style="dim")
        return text

    console = Console()
    with _single_keys(), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(picture(patiently(client, lambda: take(client))), refresh=True)
            if _quits_within(every_s):
                return


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
    """Watch nodes, GPUs and jobs. 'q' quits. Prints one frame when this is no terminal that can
    redraw (TERM=dumb)."""
    client = session.connect()
    if once or not _can_redraw():
        size = shutil.get_terminal_size((120, 50))
        click.echo("\n".join(frame(take(client), time.time(), size.columns, size.lines)))
        return
    first = take(client)
    del first  # the connection works: errors from here on are waited out
    _live(client, max(every, 0.1))
