"""What changed, told to every open page.

One listener hears what was committed and notes which nodes and jobs it is about; a page gets these
names, gathered over a moment, and asks again for what it shows of them. So an open page costs as
much as changes, not as much as there is.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import msgspec

from rota.api.auth import still_valid
from rota.core.changes import events as ev
from rota.store.api import job_ids_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Sequence

    from rota.api.context import Context
    from rota.controller.loop import Host
    from rota.core.changes.events import Recorded
    from rota.core.facts.tenant import Actor

#: News of so long a time are told together.
GATHER_S = 0.3
SILENCE_S = 15.0
#: With more changes than this at once the page asks for everything anew.
NAMES_MAX = 400


class OpenPage:
    """One open page: what changed since it was last told."""

    def __init__(self) -> None:
        self.nodes: set[str] = set()
        self.jobs: set[int] = set()
        self.bell = asyncio.Event()

    def take(self) -> bytes:
        """What to tell; ``null`` in place of a list: too many to name."""
        nodes, jobs, self.nodes, self.jobs = self.nodes, self.jobs, set(), set()
        self.bell.clear()
        return msgspec.json.encode({"nodes": _named(nodes), "jobs": _named(jobs)})


def _named(names: Iterable[str] | Iterable[int]) -> list[str] | list[int] | None:
    known = sorted(names)
    return known if len(known) <= NAMES_MAX else None  # type: ignore[return-value]


class PageNews:
    """Hears for all viewers; at no cost while there are none."""

    def __init__(self) -> None:
        self._viewers: set[OpenPage] = set()
        self._host: Host | None = None
        #: Where the tasks of a live job are: an end does not name its node.
        self._nodes_of: dict[int, set[str]] = {}

    def open(self, host: Host) -> OpenPage:
        if self._host is not host:
            self._host = host
            host.watch.listeners.append(self.hear)
            self._viewers.clear()
        if not self._viewers:
            self._nodes_of = {}
            for node in host.cluster.nodes.values():
                for uid in node.live:
                    self._nodes_of.setdefault(host.cluster.live.where[uid][0], set()).add(node.name)
        viewer = OpenPage()
        self._viewers.add(viewer)
        return viewer

    def close(self, viewer: OpenPage) -> None:
        self._viewers.discard(viewer)

    def hear(self, records: Sequence[Recorded]) -> None:
        if not self._viewers:
            return
        nodes: set[str] = set()
        jobs: set[int] = set()
        for record in records:
            self._note(record.event, nodes, jobs)
        if not (nodes or jobs):
            return
        for viewer in self._viewers:
            viewer.nodes |= nodes
            viewer.jobs |= jobs
            viewer.bell.set()

    def _note(self, event: ev.AnyEvent, nodes: set[str], jobs: set[int]) -> None:
        ids = job_ids_of(event)
        jobs.update(ids)
        if isinstance(event, ev.AttemptPlaced):
            self._nodes_of.setdefault(event.job, set()).add(event.allocation.node)
        elif isinstance(event, ev.NodeRegistered):
            nodes.add(event.spec.name)
        elif isinstance(event, ev.NodesVanished):
            nodes.update(event.nodes)
        elif isinstance(node := getattr(event, "node", None), str) and node:
            nodes.add(node)
        for job in ids:
            nodes.update(self._nodes_of.get(job, ()))
        if isinstance(event, ev.JobSettled | ev.JobRequeued | ev.JobRetried | ev.JobPreempted):
            self._nodes_of.pop(event.job, None)


async def told(news: PageNews, context: Context, actor: Actor) -> AsyncGenerator[bytes]:
    """Frames for one page, until it leaves, its token goes or the server stops."""
    viewer = news.open(context.host)
    try:
        yield b": rota\n\n"
        while not context.closing.is_set() and still_valid(context.host, actor):
            await context.until_closing(_rung(viewer.bell))
            if viewer.bell.is_set():
                await asyncio.sleep(GATHER_S)
                yield b"event: change\ndata: %b\n\n" % viewer.take()
            else:
                yield b": rota\n\n"
    finally:
        news.close(viewer)


async def _rung(bell: asyncio.Event) -> None:
    """Until it rings, or for as long as a line may be silent."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SILENCE_S):
            await bell.wait()
