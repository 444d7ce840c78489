"""A scene: a controller with pretended agents on a clock of its own, told in a few words.

    scene = Scene(cpus=4)
    first = scene.submit("first", cpus=3)
    scene.submit("second", cpus=3)
    scene.finish(first)
    assert scene.state("second") == "running"

Every step runs real ticks of the real controller, checks the invariants after each of them and
commits to a store, so a scene can also be restarted (``scene.restart()``). The pretended agents
keep to the contract of real ones: what ends while nobody listens is told later, what is no longer
wanted is ended, and what should have been there is reported missing.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from rota.controller import commands as cmd
from rota.controller.engine import Asked, Controller, FromLink, Tick
from rota.controller.recover import recover
from rota.core.errors import RotaError
from rota.core.indices import parse_indices
from rota.core.invariants import check
from rota.core.job import Dependency, DependencyKind, Job, JobSpec, Role
from rota.core.node import Device, NodeSpec
from rota.core.resources import Request
from rota.core.states import JobState
from rota.core.tenant import Access, Actor
from rota.rpc.messages import (
    PROTOCOL,
    Desired,
    Hello,
    Launch,
    Observed,
    Seen,
    Sighting,
    Wanted,
    Welcome,
)
from rota.store.memory import MemoryStore

if TYPE_CHECKING:
    from rota.core.cluster import Cluster

ALICE = Actor("alice", Access.USER)
OPERATOR = Actor("olga", Access.OPERATOR)


class Scene:
    """One node called ``box`` unless more are added; jobs start at once when their turn comes."""

    def __init__(
        self,
        *,
        cpus: int = 4,
        memory_mib: int = 16384,
        disk_mib: int = 10240,
        gpus: int = 0,
        gpu_model: str = "A100",
        gpu_memory_mib: int = 40960,
        nodes: int = 1,
        starts: bool = True,
    ) -> None:
        """With ``starts=False`` agents only start what ``scene.start(job)`` names."""
        self.now_s = 1000.0
        self.starts = starts
        self.store = MemoryStore()
        self.names: dict[str, int] = {}
        self.log: list[Any] = []
        self._uids = itertools.count(1)
        self._numbers: dict[int, int] = {}
        self._session: dict[int, int] = {}
        self._link_of: dict[str, int] = {}
        self._links = itertools.count(1)
        self._specs: dict[str, NodeSpec] = {}
        self._identity: dict[str, tuple[str, str]] = {}
        #: Nodes whose agents are connected.
        self.online: set[str] = set()
        #: What the agents were told to start, and where what they did start lives.
        self.launches: dict[str, Launch] = {}
        self.alive: dict[str, str] = {}
        self.stopping: set[str] = set()
        self._untold: dict[str, tuple[str, Seen]] = {}
        self.controller = self._boot()
        for number in range(nodes):
            name = "box" if nodes == 1 else f"box{number + 1}"
            devices = tuple(
                Device(
                    index=i,
                    uuid=f"fake-{i}",
                    model=gpu_model,
                    memory_mib=gpu_memory_mib,
                    numa=i * 2 // max(gpus, 1),
                    fake=True,
                )
                for i in range(gpus)
            )
            self.add_node(
                NodeSpec(
                    name,
                    cpus * 1000,
                    memory_mib,
                    disk_mib,
                    cpus=tuple(range(cpus)),
                    devices=devices,
                )
            )

    def _boot(self) -> Controller:
        snapshot = self.store.load()
        return Controller(
            recover(snapshot),
            snapshot.next_seq,
            new_uid=lambda: f"u{next(self._uids)}",
            new_session=lambda: next(self._uids),
            read_blob=self.store.blob,
        )

    @property
    def cluster(self) -> Cluster:
        return self.controller.cluster

    def add_node(self, spec: NodeSpec) -> None:
        self._specs[spec.name] = spec
        self.connect(spec.name)

    def connect(self, node: str, *, incarnation: str = "", boot_id: str = "") -> Tick:
        """The node's agent dials in, as the one that it was unless told otherwise."""
        old_incarnation, old_boot = self._identity.get(node, ("i1", "b1"))
        identity = (incarnation or old_incarnation, boot_id or old_boot)
        if identity[1] != old_boot:
            self.alive = {uid: where for uid, where in self.alive.items() if where != node}
        self._identity[node] = identity
        link = next(self._links)
        self._link_of[node] = link
        self._numbers[link] = 0
        self.online.add(node)
        return self.tick(FromLink(link, Hello(PROTOCOL, self._specs[node], *identity, "0")))

    def disconnect(self, node: str) -> None:
        self.online.discard(node)
        self.tick(FromLink(self._link_of[node], None))

    def crash(self) -> None:
        """The controller dies; agents and what they run go on."""
        self.online.clear()

    def restart(self) -> None:
        """The controller dies (unless it did) and comes back from the store; agents dial again."""
        self.crash()
        self.controller = self._boot()
        for node in self._specs:
            self.connect(node)

    def tick(self, *inbox: FromLink | Asked) -> Tick:
        tick = self.controller.tick(self.now_s, inbox)
        check(self.cluster)
        if tick.batch.events:
            self.store.commit(tick.batch)
        self.log.extend(record.event for record in tick.batch.events)
        for link, message in tick.to_agents:
            if isinstance(message, Welcome):
                self._session[link] = message.session
            elif isinstance(message, Desired):
                self._obey(link, message)
        for node, link in self._link_of.items():
            if link in tick.hang_up:
                self.online.discard(node)
        if tick.again:
            self.tick()
        return tick

    def _obey(self, link: int, message: Desired) -> None:
        """A pretended agent brings what lives on its node in step with what should."""
        node = next((name for name, number in self._link_of.items() if number == link), "")
        if node not in self.online:
            return
        wanted = {order.uid for order in message.attempts}
        gone = set(message.gone)
        if message.full:
            gone |= {uid for uid, where in self.alive.items() if where == node} - wanted
            gone |= {uid for uid, (where, _) in self._untold.items() if where == node} - wanted
        for uid in gone:
            self.alive.pop(uid, None)
            self.stopping.discard(uid)
            self._untold.pop(uid, None)
        seen = [self._follow(node, order, message.full) for order in message.attempts]
        told = [sighting for sighting in seen if sighting is not None]
        if told or message.full:
            self.report(*told, node=node)

    def _follow(self, node: str, order: Wanted, full: bool) -> Seen | None:
        """Carry out one order; what there is to say about it."""
        if order.launch is not None:
            self.launches[order.uid] = order.launch
        if order.uid in self._untold:
            return self._untold.pop(order.uid)[1]
        running = Seen(order.uid, Sighting.RUNNING, pid=1, started_s=self.now_s)
        if order.uid in self.alive:
            if order.stop is not None:
                self.stopping.add(order.uid)
            return running if full else None
        if order.stop is not None:
            return Seen(order.uid, Sighting.ENDED, ended_s=self.now_s)
        if order.started:
            return Seen(order.uid, Sighting.MISSING)
        if not self.starts:
            return None
        self.alive[order.uid] = node
        return running

    def start(self, job: int | str) -> None:
        """The agents start whatever of the job was placed."""
        for attempt in self.job(job).live_attempts:
            node = attempt.allocation.node
            if attempt.uid not in self.alive and node in self.online:
                self.alive[attempt.uid] = node
                seen = Seen(attempt.uid, Sighting.RUNNING, pid=1, started_s=self.now_s)
                self.report(seen, node=node)

    def report(self, *seen: Seen, node: str) -> Tick:
        link = self._link_of[node]
        self._numbers[link] += 1
        return self.tick(FromLink(link, Observed(self._session[link], self._numbers[link], seen)))

    def ask(self, command: cmd.Command) -> Any:  # noqa: ANN401 - each command has its own answer
        """The answer, or the refusal raised."""
        answer = self.tick(Asked(1, command)).answers[0][1]
        if isinstance(answer, RotaError):
            raise answer
        return answer

    def submit(
        self, name: str = "job", *, key: str = "", actor: Actor = ALICE, **wishes: Any
    ) -> int:
        """Submit a job; ``wishes`` are those of ``submission``."""
        submission = self.submission(name, user=actor.user, **wishes)
        answer = self.ask(cmd.Submit(actor=actor, submissions=(submission,), key=key))
        self.names[name] = answer.ids[0]
        return int(answer.ids[0])

    def submission(
        self,
        name: str = "job",
        *,
        array: str = "",
        hold: bool = False,
        after: dict[str, str] | None = None,
        rows: tuple[tuple[str, ...], ...] = (),
        group_cap: int | None = None,
        blobs: dict[str, bytes] | None = None,
        **wishes: Any,
    ) -> cmd.Submission:
        """``after={"parent": "after-ok"}`` names parents by their names; an ``after-ok element``
        ties equal indices of two arrays. Other wishes are resources or fields of the spec."""
        parents = tuple(
            Dependency(
                DependencyKind(kind.removesuffix(" element")),
                self.names.get(parent, 0) or int(parent),
                element=kind.endswith(" element"),
            )
            for parent, kind in (after or {}).items()
        )
        runs, cap = parse_indices(array) if array else ((), 0)
        role = Role(count=wishes.pop("tasks", 1), request=_request(wishes))
        spec: dict[str, Any] = {"user": "alice", "dependencies": parents, "roles": (role,)}
        if "script" not in wishes:
            spec["command"] = ("true",)
        return cmd.Submission(
            spec=JobSpec(name=name, **(spec | wishes)),
            held=hold,
            runs=runs,
            cap=cap,
            rows=rows,
            group_cap=group_cap,
            blobs=blobs or {},
        )

    def finish(
        self,
        job: int | str,
        code: int | None = 0,
        *,
        signal: int = 0,
        task: int | None = None,
        **more: Any,
    ) -> None:
        """Every live attempt of the job (or that of one task) ends like this."""
        record = self.cluster.jobs[self._id(job)]
        members = record.tasks if task is None else [record.tasks[task]]
        for attempt in [member.attempts[-1] for member in members if member.attempts]:
            if attempt.uid not in self.alive:
                continue
            node = self.alive.pop(attempt.uid)
            self.stopping.discard(attempt.uid)
            seen = Seen(
                attempt.uid,
                Sighting.ENDED,
                started_s=self.now_s,
                ended_s=self.now_s,
                exit_code=None if signal else code,
                signal=signal,
                **more,
            )
            if node in self.online:
                self.report(seen, node=node)
            else:
                self._untold[attempt.uid] = (node, seen)

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        self.tick()

    def state(self, job: int | str) -> str:
        state = self.cluster.state_of(self._id(job))
        return str(state) if state is not None else "unknown"

    def is_running(self, job: int | str) -> bool:
        return self.state(job) == JobState.RUNNING

    def job(self, job: int | str) -> Job:
        """The job as it is on record, finished or not."""
        item = self._id(job)
        found = self.cluster.jobs.get(item) or self.store.job(item)
        assert found is not None, f"no job {job}"
        return found

    def cause(self, job: int | str) -> str:
        outcome = self.job(job).outcome
        assert outcome is not None
        return f"{outcome.cause}: {outcome.detail}"

    def _id(self, job: int | str) -> int:
        return self.names[job] if isinstance(job, str) else job


def _request(wishes: dict[str, Any]) -> Request:
    """Takes ``cpus mem disk gpus tpus gpu_type gpu_mem shared`` out of the wishes."""
    gpus, tpus = wishes.pop("gpus", 0), wishes.pop("tpus", 0)
    return Request(
        cpu_milli=int(wishes.pop("cpus", 1) * 1000),
        memory_mib=wishes.pop("mem", 0),
        disk_mib=wishes.pop("disk", 0),
        device="gpu" if gpus else "tpu" if tpus else "",
        device_count=gpus or tpus,
        device_type=wishes.pop("gpu_type", ""),
        device_memory_mib=wishes.pop("gpu_mem", 0),
        shared=wishes.pop("shared", False),
    )
