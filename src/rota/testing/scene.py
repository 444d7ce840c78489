"""A scene: a controller with pretended agents on a clock of its own, told in a few words.

    scene = Scene(cpus=4)
    first = scene.submit("first", cpus=3)
    scene.submit("second", cpus=3)
    scene.finish(first)
    assert scene.state("second") == "running"

Every step runs real ticks of the real controller, checks the invariants after each of them and
commits to a store, so a scene can also be restarted (``scene.restart()``). Jobs are named by
their ids or by the names that they were submitted under.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from rota.controller.agents.liveness import beat_s_of
from rota.controller.commands import commands as cmd
from rota.controller.engine import Asked, Controller, FromLink, Tick
from rota.controller.recover import recover
from rota.core.changes.invariants import check
from rota.core.facts.errors import RotaError
from rota.core.facts.indices import parse_indices
from rota.core.facts.job import Job, JobSpec, Role
from rota.core.facts.node import Device, NodeSpec
from rota.core.facts.parents import Dependency, DependencyKind
from rota.core.facts.resources import Request
from rota.core.facts.states import JobState
from rota.core.facts.tenant import Access, Actor
from rota.scheduling.answers.explain import explain
from rota.store.memory import MemoryStore
from rota.testing.agents import PretendedAgents

if TYPE_CHECKING:
    from rota.core.changes.events import AnyEvent
    from rota.core.cluster import Cluster
    from rota.rpc.messages import Launch

ALICE = Actor("alice", Access.USER)
BOB = Actor("bob", Access.USER)
VIEWER = Actor("vera", Access.VIEWER)
OPERATOR = Actor("olga", Access.OPERATOR)
ADMIN = Actor("root", Access.ADMIN)


class Scene(PretendedAgents):
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
        lease_s: float = 0.0,
    ) -> None:
        """With a lease, agents must beat: ``pass_beats`` lets those that are online do so."""
        super().__init__(starts=starts)
        self.lease_s = lease_s
        #: By how much the wall clock was set since the controller was last there.
        self.moved_s = 0.0
        self.store = MemoryStore()
        self.names: dict[str, int] = {}
        self.log: list[AnyEvent] = []
        self._uids = itertools.count(1)
        self.controller = self._boot()
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
        for number in range(nodes):
            name = "box" if nodes == 1 else f"box{number + 1}"
            pins = tuple(range(cpus))
            self.add_node(
                NodeSpec(name, cpus * 1000, memory_mib, disk_mib, cpus=pins, devices=devices)
            )

    def _boot(self) -> Controller:
        snapshot, (moved_s, self.moved_s) = self.store.load(), (self.moved_s, 0.0)
        return Controller(
            recover(snapshot),
            snapshot.next_seq,
            new_uid=lambda: self.new_uid(),
            new_session=lambda: next(self._uids),
            read_blob=self.store.blob,
            read_array=self.store.array,
            lease_s=self.lease_s,
            moved_s=moved_s,
        )

    def new_uid(self) -> str:
        """Short, and the same each time the scene is played."""
        return f"u{next(self._uids)}"

    @property
    def cluster(self) -> Cluster:
        return self.controller.cluster

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
        self.heed(tick)
        if tick.again:
            self.tick()
        return tick

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
        promise: bool = False,
        chance: float = 0.0,
        **wishes: Any,
    ) -> cmd.Submission:
        """``after={"parent": "after-ok"}`` names parents by their names; an ``after-ok element``
        ties equal indices of two arrays. Other wishes are resources or fields of the spec."""
        runs, cap = parse_indices(array) if array else ((), 0)
        role = Role(count=wishes.pop("tasks", 1), request=_request(wishes))
        spec: dict[str, Any] = {"user": "alice", "roles": (role,)}
        if "script" not in wishes:
            spec["command"] = ("true",)
        return cmd.Submission(
            spec=JobSpec(name=name, dependencies=self._parents(after or {}), **(spec | wishes)),
            held=hold,
            runs=runs,
            cap=cap,
            rows=rows,
            group_cap=group_cap,
            blobs=blobs or {},
            promise=promise,
            chance=chance,
        )

    def _parents(self, after: dict[str, str]) -> tuple[Dependency, ...]:
        return tuple(
            Dependency(
                DependencyKind(kind.removesuffix(" element")),
                self.names.get(parent, 0) or int(parent),
                element=kind.endswith(" element"),
            )
            for parent, kind in after.items()
        )

    def cancel(self, *jobs: int | str, actor: Actor = ALICE) -> cmd.ChangedJobs:
        return self._select(cmd.Cancel, jobs, actor)

    def hold(self, *jobs: int | str, actor: Actor = ALICE) -> cmd.ChangedJobs:
        return self._select(cmd.Hold, jobs, actor)

    def release(self, *jobs: int | str, actor: Actor = ALICE) -> cmd.ChangedJobs:
        return self._select(cmd.Release, jobs, actor)

    def requeue(
        self, *jobs: int | str, hold: bool = False, actor: Actor = ALICE
    ) -> cmd.ChangedJobs:
        return self._select(cmd.Requeue, jobs, actor, hold=hold)

    def _select(
        self, kind: type[cmd.Select], jobs: tuple[int | str, ...], actor: Actor, **more: Any
    ) -> cmd.ChangedJobs:
        ids = tuple(self._id(job) for job in jobs)
        answer: cmd.ChangedJobs = self.ask(kind(actor=actor, ids=ids, **more))
        return answer

    def set_policy(self, preset: str = "", **rules: object) -> None:
        """A named policy, single rules (``gang_partial=0.8``), or both."""
        by_key = {key.replace("_", ".", 1): value for key, value in rules.items()}
        self.ask(cmd.SetPolicy(actor=ADMIN, preset=preset, rules=by_key))

    def update(
        self,
        job: int | str,
        *,
        after: dict[str, str] | None = None,
        cap: int | None = None,
        actor: Actor = ALICE,
        **changes: Any,
    ) -> None:
        """Change fields of the spec, the parents (``after``) or the cap of an array."""
        parents = None if after is None else self._parents(after)
        self.ask(
            cmd.Update(
                actor=actor,
                job=self._id(job),
                changes=changes,
                dependencies=parents,
                array_cap=cap,
            )
        )

    def start(self, job: int | str) -> None:
        """The agents start whatever of the job was placed."""
        self.start_placed(self.job(job).live_attempts)

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
            if attempt.uid in self.alive:
                self.end(attempt.uid, code, signal, **more)

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        self.tick()

    def pass_beats(self, count: int, *, silent: tuple[str, ...] = ()) -> None:
        """``count`` beats of every agent that is online, but for these."""
        for _ in range(count):
            self.now_s += beat_s_of(self.lease_s)
            self.beat(*sorted(self.online - set(silent)))
            self.tick()

    def state(self, job: int | str) -> str:
        state = self.cluster.state_of(self._id(job))
        return str(state) if state is not None else "unknown"

    def states(self, *jobs: int | str) -> list[str]:
        return [self.state(job) for job in jobs]

    def is_running(self, job: int | str) -> bool:
        return self.state(job) == JobState.RUNNING

    def job(self, job: int | str) -> Job:
        """The job as it is on record, finished or not."""
        item = self._id(job)
        found = self.cluster.jobs.get(item) or self.store.job(item)
        assert found is not None, f"no job {job}"
        return found

    def launch(self, job: int | str, task: int = 0) -> Launch:
        """What the agent was told about the latest attempt of a task."""
        return self.launches[self.job(job).tasks[task].attempts[-1].uid]

    def cause(self, job: int | str) -> str:
        outcome = self.job(job).outcome
        assert outcome is not None
        return f"{outcome.cause}: {outcome.detail}"

    def why(self, job: int | str) -> str:
        """The one-line reason why a job waits."""
        return explain(self.controller.scheduler, self._id(job), self.now_s).reason

    def lines(self, job: int | str) -> list[str]:
        """The whole story."""
        return explain(self.controller.scheduler, self._id(job), self.now_s).lines

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
