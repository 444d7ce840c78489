"""The driver: pods of ours, by the rules of ``states``, through the requests of ``client``."""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from lightkube.resources.core_v1 import Pod, Secret, Service

from rota.backends.api import EngineError, EnginePhase, EngineRefused, Feature, Full
from rota.backends.kubernetes import machines, objects
from rota.backends.kubernetes.client import without_excuse
from rota.backends.kubernetes.mirror import Mirror
from rota.backends.kubernetes.states import is_hopeless, is_overdue, job_of, key_of
from rota.backends.logs import COPY_BYTES_MAX, first_of
from rota.backends.orders import Key
from rota.core.facts.states import Blame

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.backends.api import ByteStream, EngineJob, EngineNode
    from rota.backends.kubernetes.client import Api
    from rota.backends.kubernetes.settings import KubernetesSettings
    from rota.backends.orders import AttemptOrder

#: The first version in which the processes of a pod may share their numbers for good.
OLDEST = (1, 17)
#: A pod that should have gone so long ago is asked for its node.
OVERDUE_S = 3.0
#: 0 would take the pod out of the books while its processes may still run.
AT_ONCE_S = 1
#: A pod of which nothing was heard for so long, after it was last asked for, does not come.
UNHEARD_S = 600.0
#: The most that is heard of what a pod prints that is being stopped.
HEARD_MAX = 8 << 20
#: So long a stop waits for that at most.
LISTEN_S = 2.0


class Kubernetes:
    """Speaks to one Kubernetes about one namespace."""

    kind = "kubernetes"
    settle_s = 2.0
    early = 0.0
    poll_s = 5.0

    def __init__(self, settings: KubernetesSettings, api: Api) -> None:
        self.cluster = ""
        self._settings, self._api = settings, api
        self._mirror: Mirror | None = None
        #: What pods have printed that are being stopped: their nodes drop it with them.
        self._heard: dict[str, bytes] = {}
        self._listeners: dict[str, asyncio.Task[None]] = {}
        #: When pods were last asked for of which nobody has heard since, by name.
        self._unheard: dict[str, float] = {}
        #: Since when a container cannot be made, by the name of its pod.
        self._hopeless: dict[str, float] = {}
        #: What keeps a pod to the nodes of its pool.
        self._selectors: dict[str, dict[str, str]] = {}
        able = {Feature.STDIN, Feature.IMAGES, Feature.MEMORY, Feature.GANGS, Feature.ROLES}
        able.add(Feature.VISITS)
        if not settings.image:
            able.add(Feature.IMAGES_ONLY)
        if settings.placement == "ours":
            able.add(Feature.PLACES)
        self.features = frozenset(able)

    async def open(self) -> None:
        version = await self._api.connect()
        if version < OLDEST:
            told, oldest = (".".join(map(str, numbers)) for numbers in (version, OLDEST))
            raise EngineRefused(
                f"Kubernetes {told} is too old; {oldest} or later is needed", Blame.NODE
            )

    async def close(self) -> None:
        if self._mirror is not None:
            self._mirror.close()
        for listener in self._listeners.values():
            listener.cancel()
        await self._api.close()

    async def nodes(self) -> list[EngineNode]:
        found = await self._api.machines(self._settings.node_selector)
        pods = await self._api.unfinished()
        listed = machines.engine_nodes(found, pods, self.cluster, self._settings)
        self._selectors = {node.spec.name: node.spec.labels for node in listed if node.pool}
        return listed

    async def submit(self, order: AttemptOrder) -> str:
        """The secret first: a pod that finds none would wait for its node's next try."""
        secret, pod = objects.build(order, self._settings, self._selectors.get(order.pool, {}))
        name = objects.name_of(order.key)
        leads = order.gang is not None and order.uid == order.gang.leader
        if leads:
            # Under the name of its first pod its members find each other.
            await self._api.create(objects.service_of(order, self._settings))
        self._unheard[name] = time.monotonic()
        await self._api.create(secret)
        try:
            fresh = await self._api.create(pod)
        except (EngineRefused, Full):
            await self._api.delete(Secret, name)
            del self._unheard[name]
            raise
        if not fresh:
            there = await self._api.pod(name)
            if there is not None and key_of(there) != order.key:
                raise EngineRefused(f"pod {name} is not ours", Blame.NODE)
        if leads:
            await self._bind_names(name)
        return name

    async def _bind_names(self, name: str) -> None:
        """The names of a gang go with its first pod; what is lost of this is left to be tidied."""
        with suppress(EngineError):
            if (first := await self._api.pod(name)) is not None:
                await self._api.change(name, objects.owned_by(first), Service)

    async def jobs(self) -> list[EngineJob]:
        labels = {objects.CLUSTER: self.cluster}
        if self._mirror is None or self._mirror.labels != labels:
            self._mirror = Mirror(self._api, labels)
        pods = await self._mirror.pods()
        lost = await self._lost_nodes(pods)
        await self._give_up(pods)
        await self._tidy({pod.metadata.name or "" for pod in pods if pod.metadata})
        return [
            job_of(pod, key, lost)
            for pod in pods
            if (key := key_of(pod)) is not None and key.cluster == self.cluster
        ]

    async def _lost_nodes(self, pods: list[Pod]) -> set[str]:
        """Nodes of pods that should have gone, as far as Kubernetes does not hear them."""
        now_s = time.time()
        overdue = [pod for pod in pods if is_overdue(pod, now_s, OVERDUE_S)]
        names = {pod.spec.nodeName or "" for pod in overdue if pod.spec is not None} - {""}
        lost = set()
        for name in sorted(names):
            machine = await self._api.machine(name)
            if machine is None or not machines.is_ready(machine):
                lost.add(name)
        return lost

    async def _give_up(self, pods: list[Pod]) -> None:
        """Kubernetes would try to make such containers for ever. Their end is told once they go."""
        whys = {pod.metadata.name or "": is_hopeless(pod) for pod in pods if pod.metadata}
        now_s = time.monotonic()
        # Not since they began to be made: to fetch an image may take long, and fail in the end.
        self._hopeless = {n: self._hopeless.get(n, now_s) for n, why in whys.items() if why}
        for name, since_s in self._hopeless.items():
            if now_s - since_s > self._settings.start_s:
                note = {"metadata": {"annotations": {objects.HOPELESS: whys[name]}}}
                with suppress(EngineRefused):  # One that cannot be given up holds up no other.
                    await self._api.change(name, note)
                    await self._api.delete(Pod, name, AT_ONCE_S)

    async def _tidy(self, names: set[str]) -> None:
        """A pod that was given up before it was made has left its secret."""
        now_s = time.monotonic()
        old = [name for name, asked_s in self._unheard.items() if now_s - asked_s > UNHEARD_S]
        for name in names.intersection(self._unheard).union(old):
            if name not in names:
                with suppress(EngineRefused):
                    await self._api.delete(Secret, name)
            del self._unheard[name]

    async def find(self, uids: Iterable[str]) -> list[EngineJob]:
        """By name. Nothing remembers a pod that is gone: our finalizer keeps them from that."""
        keys = [Key(self.cluster, uid) for uid in uids]
        pods = [(key, await self._api.pod(objects.name_of(key))) for key in keys]
        ours = [(key, pod) for key, pod in pods if pod is not None and key_of(pod) == key]
        lost = await self._lost_nodes([pod for _, pod in ours])
        return [job_of(pod, key, lost) for key, pod in ours]

    async def changes(self) -> None:
        if self._mirror is None:
            await asyncio.sleep(self.poll_s)
        else:
            await self._mirror.changed(self.poll_s)

    async def signal(self, job: EngineJob, number: int) -> None:
        raise EngineRefused(
            f"Kubernetes sends no signal {number}: it stops pod {job.id} or not at all"
        )

    async def stop(self, job: EngineJob, grace_s: float) -> None:
        """A second wish may shorten the grace of the first."""
        if job.phase is EnginePhase.RUNNING and job.id not in self._heard:
            with suppress(EngineRefused):
                await self._begin_to_listen(job.id)
        await self._api.delete(Pod, job.id, max(AT_ONCE_S, round(grace_s)))

    async def _begin_to_listen(self, name: str) -> None:
        """Before it hears TERM. A stream of which nothing has come yet may not be open."""
        self._heard[name] = before = await self._api.log(name, HEARD_MAX)
        hears = asyncio.Event()
        self._listeners[name] = asyncio.create_task(self._listen(name, hears))
        with suppress(TimeoutError):
            await asyncio.wait_for(hears.wait(), LISTEN_S if before else LISTEN_S / 10)

    async def _listen(self, name: str, hears: asyncio.Event) -> None:
        """To its last words, as far as its node lets us."""
        body = b""
        with suppress(EngineError):
            async for part in self._api.follow(name, HEARD_MAX):
                hears.set()
                body += part
                self._heard[name] = max(self._heard[name], without_excuse(body), key=len)

    async def forget(self, job: EngineJob) -> None:
        """Deleted first: a crash between the two leaves a pod that is found again."""
        await self._api.delete(Pod, job.id)
        # Without its label it is out of our sight, even if a lost node keeps it for long.
        unseen = {"finalizers": None, "labels": {objects.CLUSTER: None}}
        await self._api.change(job.id, {"metadata": unseen})
        await self._api.delete(Secret, job.id)
        self._heard.pop(job.id, None)
        if (listener := self._listeners.pop(job.id, None)) is not None:
            listener.cancel()

    async def read_log(
        self, job: EngineJob, stream: str, offset: int, limit: int, lines: int = 0
    ) -> tuple[bytes, int]:
        """Kubernetes has one stream, no way to begin in its middle, and no word on its size."""
        if stream != "stdout":
            return b"", 0
        body = await self._api.log(job.id, COPY_BYTES_MAX)
        body = max(body, self._heard.get(job.id, b""), key=len)
        if offset >= 0 and not lines:
            return body[offset : offset + limit], len(body)
        return body[first_of(body, offset, lines) :][-limit:], len(body)

    async def enter(self, job: EngineJob, argv: tuple[str, ...]) -> ByteStream:
        mark = secrets.token_hex(8)
        begin, end = objects.beside(mark, argv), objects.ended(mark)
        return await self._api.enter(job.id, begin, end)

    async def reach(self, job: EngineJob, port: int) -> ByteStream:
        return await self._api.reach(job.id, port)
