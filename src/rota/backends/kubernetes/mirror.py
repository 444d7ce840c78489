"""All pods of ours: a complete list first, then what a watch tells.

As long as the watch lives, nothing is listed again. When it breaks, or the server has forgotten the
version that it would go on from, the next look lists anew, and fails if it cannot.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rota.backends.api import EngineError

if TYPE_CHECKING:
    from lightkube.resources.core_v1 import Pod

    from rota.backends.kubernetes.client import Api, PodChange

#: News come in heaps: so long is waited for the rest of one.
HEAP_S = 0.02


class Mirror:
    """Keeps the pods with these labels."""

    def __init__(self, api: Api, labels: dict[str, str]) -> None:
        self.labels = labels
        self._api = api
        self._pods: dict[str, Pod] = {}
        self._version = ""
        self._news = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None

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
        try:
            while True:
                async for change in self._api.watch(self.labels, self._version):
                    self._take(change)
        except EngineError:
            return
        finally:
            self._news.set()

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
