"""All pods of ours: a complete list first, then what a watch tells.

As long as the watch lives, nothing is listed again. When it breaks, or the server has forgotten the
version that it would go on from, the next look lists anew, and fails if it cannot.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from rota.backends.api import EngineError

if TYPE_CHECKING:
    from lightkube.resources.core_v1 import Pod

    from rota.backends.kubernetes.client import Api, PodChange

#: News come in heaps: so long is waited for the rest of one.
HEAP_S = 0.02
#: A watch that lasted so long was a good one. After one that was not the next comes later, and each
#: time later still: a server that lets nobody watch is not to be listed all the time.
GOOD_S, FIRST_S, MOST_S = 5.0, 0.5, 5.0

log = logging.getLogger("rota.engine")


class Mirror:
    """Keeps the pods with these labels."""

    def __init__(self, api: Api, labels: dict[str, str]) -> None:
        self.labels = labels
        self._api = api
        self._pods: dict[str, Pod] = {}
        self._version = ""
        self._news = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None
        self._pause_s = 0.0
        self._said = ""

    async def pods(self) -> list[Pod]:
        """All of them as of this moment, or as of the last word of a living watch."""
        if self._watch is None or self._watch.done():
            listed, self._version = await self._api.pods(self.labels)
            self._pods = {_name(pod): pod for pod in listed}
            self._watch = asyncio.create_task(self._follow())
        return list(self._pods.values())

    async def changed(self, most_s: float) -> None:
        """Until there is news, or this time has passed."""
        try:
            await asyncio.wait_for(self._news.wait(), most_s)
        except TimeoutError:
            return
        await asyncio.sleep(HEAP_S)
        self._news.clear()

    def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()

    async def _follow(self) -> None:
        """Until a watch breaks: then all are listed anew. A good one that ends is gone on from."""
        while True:
            began_s, broke = time.monotonic(), None
            try:
                async for change in self._api.watch(self.labels, self._version):
                    self._take(change)
            except EngineError as error:
                broke = error
            good = time.monotonic() - began_s > GOOD_S
            if broke is None and good:
                continue
            loop = asyncio.get_running_loop()
            loop.call_later(self._before_the_next(broke, good=good), self._news.set)
            return

    def _before_the_next(self, broke: EngineError | None, *, good: bool) -> float:
        """How long a new list has time."""
        if good:
            self._pause_s, self._said = 0.0, ""
        why = str(broke) if broke is not None else "the server ends each watch at once"
        if self._pause_s and self._said != why:
            self._said = why
            log.warning("pods are listed again and again, as they cannot be watched: %s", why)
        pause_s = max(self._pause_s, broke.after_s if broke is not None else 0.0)
        self._pause_s = min(max(FIRST_S, 2 * self._pause_s), MOST_S)
        return pause_s

    def _take(self, change: PodChange) -> None:
        self._version = change.version
        if change.pod is None:
            return
        if change.gone:
            self._pods.pop(_name(change.pod), None)
        else:
            self._pods[_name(change.pod)] = change.pod
        self._news.set()


def _name(pod: Pod) -> str:
    return (pod.metadata.name if pod.metadata is not None else None) or ""
