"""What people do in a world: seeded callers who submit, cancel, hold, release and requeue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.controller.commands import commands as cmd
from rota.core.facts.errors import RotaError, Unavailable
from rota.core.facts.indices import IndexRun
from rota.core.facts.job import Job, JobSpec, RestartPolicy, Role
from rota.core.facts.node import Device, NodeSpec
from rota.core.facts.parents import Dependency, DependencyKind
from rota.core.facts.resources import Request
from rota.core.facts.tenant import Access, Actor
from rota.worlds.wishes import richer

if TYPE_CHECKING:
    from rota.core.facts.array import Array
    from rota.worlds.world import World

ACTORS = (
    Actor("ann", Access.USER),
    Actor("bob", Access.USER),
    Actor("root", Access.ADMIN),
)

#: What jobs of a world wait for: nobody reports checkpoints there.
KINDS = tuple(DependencyKind)[:4]


class Script:
    """Plans a few dozen requests and sees each one through to an answer."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.chance = world.chance
        # A richer world has more to do for each request.
        self.left = self.chance.randint(5, 30 if world.site.plain else 26)
        self.open = 0
        self.ids: list[int] = []
        #: When everything that may keep jobs waiting is taken back.
        self.closes_s = 0.0

    @property
    def done(self) -> bool:
        return self.left <= 0 and not self.open

    def node_specs(self) -> list[NodeSpec]:
        count = self.chance.choice((1, 1, 1, 2, 3))
        gpus = self.chance.choice((0, 0, 4))
        devices = tuple(
            Device(index=i, uuid=f"g{i}", model="A100", memory_mib=40960, numa=i // 2, fake=True)
            for i in range(gpus)
        )
        specs = [
            NodeSpec(f"n{i}", 4000, 8192, 1024, cpus=(0, 1, 2, 3), devices=devices)
            for i in range(count)
        ]
        return self.world.site.equip(specs)

    def begin(self) -> None:
        for command in self.world.site.opening():
            self._send(command)
        self.world.timeline.after(self.chance.uniform(0.0, 1.0), self._next)

    def _next(self) -> None:
        site = self.world.site
        if not site.is_ready():
            self.world.timeline.after(0.2, self._next)
            return
        if self.left <= 0:
            self.closes_s = self.world.timeline.now_s + site.patience_s
            self._free_everything()
            return
        self.left -= 1
        if site.wants_a_say():
            self._send(site.command())
        elif self.ids and self.chance.random() < 0.35:
            self._send(self._change())
        else:
            self._send(self._submit())
        self.world.timeline.after(self.chance.choice((0.0, 0.05, 0.5, 3.0)), self._next)

    def _free_everything(self) -> None:
        """The last word: what is still held or suspended goes on, so that the world can end."""
        closes = self.world.timeline.now_s >= self.closes_s and not self.open
        held = [job.id for job in self._unfinished() if job.held]
        if held:
            self._send(cmd.Release(actor=ACTORS[2], ids=tuple(held)))
        if closes:
            for command in self.world.site.closing():
                self._send(command)
        stopped = [
            job.id
            for job in self._unfinished()
            if isinstance(job, Job) and job.suspended_s and not job.yields_to
        ]
        if stopped:
            self._send(cmd.Resume(actor=ACTORS[2], ids=tuple(stopped)))
        if not (self.done and self.world.quiet()):
            self.world.timeline.after(5.0, self._free_everything)

    def _unfinished(self) -> list[Job | Array]:
        cluster = self.world.cluster
        return [] if cluster is None else [*cluster.jobs.values(), *cluster.arrays.values()]

    def _send(self, command: cmd.Command) -> None:
        """Ask until there is an answer; a repeated submit carries the same key."""
        self.open += 1

        def answered(answer: object) -> None:
            if isinstance(answer, Unavailable):
                self.world.timeline.after(0.3, lambda: self.world.ask(command, answered))
                return
            self.open -= 1
            if isinstance(answer, cmd.Submitted):
                self._acknowledged(answer, command)
            elif isinstance(command, cmd.Submit | cmd.Select) and not isinstance(
                answer, RotaError | cmd.ChangedJobs
            ):
                raise AssertionError(f"no answer to {command}: {answer}")

        if isinstance(command, cmd.Cancel):
            self.world.judge.cancelled.update(command.ids)
        self.world.ask(command, answered)

    def _acknowledged(self, answer: cmd.Submitted, command: cmd.Command) -> None:
        assert isinstance(command, cmd.Submit)
        for first, submission in zip(answer.ids, command.submissions, strict=True):
            count = sum(map(len, submission.runs))
            self.ids.append(first)
            if not count:
                self.world.judge.acknowledged.add(first)

    def _change(self) -> cmd.Command:
        actor = self.chance.choice(ACTORS)
        kind = self.chance.choice(
            (cmd.Cancel, cmd.Hold, cmd.Release, cmd.Requeue, cmd.Suspend, cmd.Resume)
        )
        job = self.chance.choice(self.ids) + self.chance.choice((0, 0, 1))
        return kind(actor=actor, ids=(job,))

    def _submit(self) -> cmd.Submit:
        actor = self.chance.choice(ACTORS)
        count = self.chance.choice((1, 1, 1, 4))
        made = tuple(self._submission(actor) for _ in range(count))
        if count == 1 and _may_be_promised(made[0], self.world.now_s()):
            made = (msgspec.structs.replace(made[0], promise=True),)
        return cmd.Submit(
            actor=actor,
            submissions=made,
            key=f"key-{self.world.number()}",
        )

    def _submission(self, actor: Actor) -> cmd.Submission:
        chance = self.chance
        array = chance.random() < 0.15
        longest = 12 if self.world.site.plain else 8
        runs = (IndexRun(0, chance.randint(0, longest)),) if array else ()
        return cmd.Submission(
            spec=self._spec(actor),
            held=chance.random() < 0.1,
            runs=runs,
            cap=chance.choice((0, 2)) if array else 0,
            group_cap=2,
        )

    def _spec(self, actor: Actor) -> JobSpec:
        chance = self.chance
        gpus = any(node.spec.devices for node in self.world.nodes) and chance.random() < 0.4
        request = Request(cpu_milli=chance.choice((500, 1000, 2000)),
                          memory_mib=chance.choice((0, 1024, 4096)))  # fmt: skip
        if gpus:
            shared = chance.random() < 0.5
            request = msgspec.structs.replace(
                request, device="gpu", device_count=chance.choice((1, 2)), shared=shared,
                device_memory_mib=10240 if shared else 0)  # fmt: skip
        parents = tuple(
            Dependency(chance.choice(KINDS), chance.choice(self.ids))
            for _ in range(chance.choice((0, 0, 0, 1, 2)) if self.ids else 0)
        )
        spec = JobSpec(
            name="w",
            user=actor.user,
            command=("true",),
            priority=chance.choice((25, 50, 75)),
            roles=(Role(count=chance.choice((1, 1, 1, 2)), request=request),),
            dependencies=parents,
            group=chance.choice(("", "", f"group-{actor.user}")),
            retries=chance.choice((0, 0, 2)),
            restart=chance.choice(tuple(RestartPolicy)),
            backoff_s=0.5,
            time_limit_s=chance.choice((0, 0, 4)),
            grace_s=chance.choice((0, 1, 5)),
            scheduling_timeout_s=chance.choice((0, 0, 0, 20)),
            begin_s=self.world.now_s() + 2 if chance.random() < 0.1 else 0.0,
        )
        return spec if self.world.site.plain else richer(spec, actor, self.world)


def _may_be_promised(made: cmd.Submission, now_s: float) -> bool:
    """One job that can start at once and must end, with a deadline that is not near."""
    spec = made.spec
    single = not (made.runs or made.held or spec.dependencies or spec.begin_s)
    return single and bool(spec.time_limit_s) and spec.deadline_s > now_s + 30.0
