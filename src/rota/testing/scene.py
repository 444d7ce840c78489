"""A scene: a controller with pretended agents on a clock of its own, told in a few words.

    scene = Scene(cpus=4)
    first = scene.submit("first", cpus=3)
    scene.submit("second", cpus=3)
    scene.finish(first)
    assert scene.state("second") == "running"

Every step runs real ticks of the real controller, checks the invariants after each of them and
commits to a store, so a scene can also be restarted (``scene.restart()``).
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
from rota.rpc.messages import PROTOCOL, Desired, Hello, Observed, Seen, Sighting, Welcome
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
    ) -> None:
        self.now_s = 1000.0
        self.store = MemoryStore()
        self.names: dict[str, int] = {}
        self.log: list[Any] = []
        self._uids = itertools.count(1)
        self._numbers: dict[int, int] = {}
        self._session: dict[int, int] = {}
        self._link_of: dict[str, int] = {}
        self._links = itertools.count(1)
        self._specs: dict[str, NodeSpec] = {}
        self.alive: dict[str, str] = {}
        self.stopping: set[str] = set()
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

    def connect(self, node: str, *, incarnation: str = "i1", boot_id: str = "b1") -> None:
        link = next(self._links)
        self._link_of[node] = link
        self._numbers[link] = 0
        self.tick(FromLink(link, Hello(PROTOCOL, self._specs[node], incarnation, boot_id, "0")))

    def disconnect(self, node: str) -> None:
        self.tick(FromLink(self._link_of[node], None))

    def restart(self) -> None:
        """The controller dies and comes back from the store; agents dial again."""
        self.controller = self._boot()
        for node in self._specs:
            self.connect(node)
            self.report(
                *(
                    Seen(uid, Sighting.RUNNING, pid=1, started_s=self.now_s)
                    for uid, where in self.alive.items()
                    if where == node
                ),
                node=node,
            )

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
        return tick

    def _obey(self, link: int, message: Desired) -> None:
        """A pretended agent: starts what it is told, and notes what it should stop."""
        node = next(name for name, number in self._link_of.items() if number == link)
        seen = []
        for wanted in message.attempts:
            if wanted.stop is not None and wanted.uid in self.alive:
                self.stopping.add(wanted.uid)
            elif wanted.stop is not None:
                seen.append(Seen(wanted.uid, Sighting.ENDED, ended_s=self.now_s))
            elif wanted.launch is not None and wanted.uid not in self.alive:
                self.alive[wanted.uid] = node
                seen.append(Seen(wanted.uid, Sighting.RUNNING, pid=1, started_s=self.now_s))
        if seen:
            self.report(*seen, node=node)

    def report(self, *seen: Seen, node: str) -> None:
        link = self._link_of[node]
        self._numbers[link] += 1
        self.tick(FromLink(link, Observed(self._session[link], self._numbers[link], seen)))

    def ask(self, command: cmd.Command) -> Any:  # noqa: ANN401 - each command has its own answer
        """The answer, or the refusal raised."""
        answer = self.tick(Asked(1, command)).answers[0][1]
        if isinstance(answer, RotaError):
            raise answer
        return answer

    def submit(
        self,
        name: str = "job",
        *,
        array: str = "",
        hold: bool = False,
        key: str = "",
        after: dict[str, str] | None = None,
        actor: Actor = ALICE,
        tasks: int = 1,
        cpus: float = 1,
        mem: int = 0,
        disk: int = 0,
        gpus: int = 0,
        gpu_type: str = "",
        gpu_mem: int = 0,
        shared: bool = False,
        **spec: Any,
    ) -> int:
        """Submit a job; ``after={"parent": "after-ok"}`` names parents by their names."""
        request = Request(
            cpu_milli=int(cpus * 1000),
            memory_mib=mem,
            disk_mib=disk,
            device="gpu" if gpus else "",
            device_count=gpus,
            device_type=gpu_type,
            device_memory_mib=gpu_mem,
            shared=shared,
        )
        parents = tuple(
            Dependency(DependencyKind(kind), self.names.get(parent, 0) or int(parent))
            for parent, kind in (after or {}).items()
        )
        runs, cap = parse_indices(array) if array else ((), 0)
        submission = cmd.Submission(
            spec=JobSpec(
                name=name,
                user=actor.user,
                command=("true",),
                dependencies=parents,
                roles=(Role(count=tasks, request=request),),
                **spec,
            ),
            held=hold,
            runs=runs,
            cap=cap,
        )
        answer = self.ask(cmd.Submit(actor=actor, submissions=(submission,), key=key))
        self.names[name] = answer.ids[0]
        return int(answer.ids[0])

    def finish(self, job: int | str, code: int | None = 0, *, signal: int = 0) -> None:
        """Every live attempt of the job ends like this."""
        record = self.cluster.jobs[self._id(job)]
        for attempt in record.live_attempts:
            node = self.alive.pop(attempt.uid)
            self.stopping.discard(attempt.uid)
            self.report(
                Seen(
                    attempt.uid,
                    Sighting.ENDED,
                    started_s=self.now_s,
                    ended_s=self.now_s,
                    exit_code=None if signal else code,
                    signal=signal,
                ),
                node=node,
            )

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
