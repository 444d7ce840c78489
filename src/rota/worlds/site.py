"""What those do who run the place: rules, accounts, reservations, marks on nodes, all seeded.

A world may be *plain*: then nobody does any of it. What is set up here could keep a job waiting
for ever, so ``closing`` takes all of it back before the world ends.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from rota.controller.commands import commands as cmd
from rota.core.facts.features import Feature
from rota.core.facts.node import Machine
from rota.core.facts.placing import Taint, TaintEffect
from rota.core.facts.policy import Backfill, Mixing, Overrun, PreemptMode
from rota.core.facts.states import QueueState
from rota.core.facts.tenant import (
    Access,
    Actor,
    Group,
    Limits,
    Project,
    Queue,
    Quota,
    Reservation,
    User,
)
from rota.core.words.presets import PRESETS

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.facts.node import Node, NodeSpec
    from rota.worlds.world import World

ROOT = Actor("root", Access.ADMIN)
#: Projects and those above them.
PARENTS = {"lab": "", "vision": "lab", "text": "lab", "ops": ""}
STRATEGIES = ("score", "score", "first-fit", "best-fit", "spread", "fgd", "dotprod", "gpu-packing")


#: In one of this many worlds jobs leave nodes that are drained; the others keep their old story.
MIGRATING = 7


def _pool(spec: NodeSpec) -> NodeSpec:
    """The same as two machines of an engine, which has its own agent here."""
    half = Machine(spec.cpu_milli // 2, spec.memory_mib // 2, spec.disk_mib // 2, count=2)
    able = tuple(feature for feature in Feature if feature is not Feature.IMAGES_ONLY)
    return msgspec.structs.replace(
        spec, cpus=(), devices=(), engine="lab", features=able, pool=True, largest=half
    )


class Site:
    """Draws from a stream of its own, so that plain worlds stay what they were."""

    def __init__(self, world: World, plain: bool) -> None:
        self.world = world
        self.plain = plain
        self.chance = Random(f"{world.seed} site")
        #: How much of it there is: from a quiet place to one that changes all the time.
        self.busy = 0.0 if plain else self.chance.choice((0.0, 0.2, 0.5))
        #: How long what was set up stays after the last request.
        self.patience_s = 0.0 if plain else self.chance.choice((0.0, 10.0, 60.0))

    @property
    def may_pool(self) -> bool:
        """Whether every job that is drawn could run although one node is a pool."""
        return False

    def equip(self, specs: list[NodeSpec]) -> list[NodeSpec]:
        """Labels, racks, now and then a taint, one node without devices, and one that is a pool."""
        if self.plain:
            return specs
        mixed = len(specs) > 1 and self.chance.random() < 0.3
        # With a chance of its own: the rest of the world stays as it was.
        pooled = len(specs) > 1 and Random(f"{self.world.seed} pool").random() < 0.3
        pooled = pooled and self.may_pool
        equipped = [
            msgspec.structs.replace(
                spec,
                labels={"zone": "ab"[number % 2], "rack": f"r{number // 2}", "speed": str(number)},
                devices=() if mixed and number == 0 else spec.devices,
                taints=(Taint("slow", effect=TaintEffect.AVOID),) if number == 1 else (),
            )
            for number, spec in enumerate(specs)
        ]
        return [*equipped[:-1], _pool(equipped[-1])] if pooled else equipped

    def opening(self) -> list[cmd.Command]:
        """What is decided before anybody comes."""
        if self.plain:
            return []
        chance = self.chance
        policy = self._policy()
        if chance.random() < 0.2:
            policy.rules["place.overcommit_cpu"] = chance.choice((1.0, 1.5, 2.0))
            policy.rules["place.overcommit_memory"] = chance.choice((1.0, 1.5))
        found: list[cmd.Command] = [policy, self._queue()]
        found += [self._project(name) for name in PARENTS]
        found += [self._user() for _ in range(chance.choice((0, 1, 2)))]
        return found

    def is_ready(self) -> bool:
        """Nobody asks for much before a node is on record: what none could run would be accepted.

        One that only a controller's memory knows is forgotten when its commit fails.
        """
        return self.plain or bool(self.world.judge.books.nodes)

    def wants_a_say(self) -> bool:
        return self.busy > 0.0 and self.chance.random() < self.busy

    def command(self) -> cmd.Command:
        """One thing that somebody changes in the middle of it."""
        return self.chance.choice(self._choices())()

    def _choices(self) -> tuple[Callable[[], cmd.Command], ...]:
        return (
            self._policy,
            self._user,
            lambda: self._project(self.chance.choice(tuple(PARENTS))),
            self._queue,
            self._reservation,
            self._reservation,
            self._reservation_removed,
            self._mark,
            self._drain,
            self._checkpoint,
            self._update,
            self._group,
            lambda: cmd.Trigger(actor=ROOT),
        )

    def closing(self) -> list[cmd.Command]:
        """Whatever might still keep a job waiting for ever is taken back."""
        cluster = self.world.cluster
        if self.plain or cluster is None:
            return []
        found: list[cmd.Command] = []
        rules = {"place.cpu_jobs_on_gpu_nodes": "allow", "share.hard_ratio": 0}
        if (cluster.policy.place.cpu_jobs_on_gpu_nodes, cluster.policy.share.hard_ratio) != (
            Mixing.ALLOW,
            0,
        ):
            found.append(cmd.SetPolicy(actor=ROOT, rules=rules))
        if cluster.queues.get("side") != Queue(name="side"):
            found.append(cmd.SetQueue(actor=ROOT, queue=Queue(name="side")))
        for project in cluster.accounts.projects.values():
            free = Project(project.name, project.parent)
            if project != free:
                found.append(cmd.SetProject(actor=ROOT, project=free))
        found += [cmd.RemoveUser(actor=ROOT, user=name) for name in cluster.accounts.users]
        found += [cmd.RemoveReservation(actor=ROOT, reservation=r) for r in cluster.reservations]
        for node in cluster.nodes.values():
            found += self._cleared(node)
        return found

    @staticmethod
    def _cleared(node: Node) -> list[cmd.Command]:
        found: list[cmd.Command] = []
        if node.drained:
            found.append(cmd.DrainNode(actor=ROOT, node=node.name, drained=False))
        if node.taints or node.labels:
            keys = tuple(dict.fromkeys(taint.key for taint in node.taints))
            labels: dict[str, str | None] = dict.fromkeys(node.labels)
            found.append(cmd.MarkNode(actor=ROOT, node=node.name, untaint=keys, labels=labels))
        return found

    def _policy(self) -> cmd.SetPolicy:
        chance = self.chance
        rules: dict[str, Any] = {
            "backfill.overrun": str(chance.choice(tuple(Overrun))),
            "place.strategy": chance.choice(STRATEGIES),
            "place.cpu_jobs_on_gpu_nodes": str(chance.choice(tuple(Mixing))),
            "place.devices": chance.choice(("sequential", "numa", "random")),
            "gang.assembly_timeout_s": chance.choice((0, 2, 600)),
            "gang.grow": chance.random() < 0.7,
        }
        if chance.random() < 0.2:
            rules["backfill.kind"] = str(chance.choice(tuple(Backfill)))
            rules["backfill.depth"] = chance.choice((0, 2))
            rules["backfill.delay_max_s"] = chance.choice((0, 5))
            rules["share.hard_ratio"] = chance.choice((0, 0, 2))
        if chance.random() < 0.6:
            rules |= {
                "preempt.enabled": True,
                "preempt.mode": str(chance.choice((*PreemptMode, *("requeue",) * 3))),
                "preempt.gap": chance.choice((0, 0, 100, 400)),
                "preempt.min_runtime_s": chance.choice((0, 0, 1)),
                "preempt.grace_s": chance.choice((0, 1, 3)),
                "preempt.max_per_job": chance.choice((1, 3, 10)),
                "preempt.only_willing": chance.random() < 0.5,
            }
        return cmd.SetPolicy(actor=ROOT, preset=chance.choice(tuple(PRESETS)), rules=rules)

    def _limits(self, share: float) -> Limits:
        """Some of the dimensions; ``share`` says how tight they are."""
        chance = self.chance
        return Limits(
            jobs=chance.choice((None, None, int(4 * share) or 1)),
            cpu_milli=chance.choice((None, int(8000 * share))),
            memory_mib=chance.choice((None, None, int(16384 * share))),
            device_milli=chance.choice((None, int(4000 * share))),
        )

    def _quota(self) -> Quota:
        chance = self.chance
        if chance.random() < 0.5:
            return Quota()
        types = {"training": Limits(jobs=1)} if chance.random() < 0.2 else {}
        hard = msgspec.structs.replace(
            self._limits(chance.choice((0.5, 1.0))),
            queued=chance.choice((None, None, 6)),
            device_hours=chance.choice((None, None, 0.002)),
        )
        if chance.random() < 0.5:
            return Quota(hard=hard, types=types)
        soft = self._limits(0.25)
        capped = {
            name: limit if (top := getattr(hard, name)) is None else min(limit, top)
            for name in ("jobs", "cpu_milli", "memory_mib", "device_milli")
            if (limit := getattr(soft, name)) is not None
        }
        return Quota(hard=hard, soft=Limits(**capped), types=types, borrow=chance.random() < 0.6)

    def _user(self) -> cmd.Command:
        name = self.chance.choice(("ann", "bob", "", "root"))
        shares = self.chance.choice((1, 1, 3))
        return cmd.SetUser(actor=ROOT, user=User(name, shares, self._quota()))

    def _project(self, name: str) -> cmd.Command:
        shares = self.chance.choice((1, 1, 4))
        project = Project(name, PARENTS[name], shares, self._quota())
        return cmd.SetProject(actor=ROOT, project=project)

    def _queue(self) -> cmd.Command:
        chance = self.chance
        states = (QueueState.ACTIVE, QueueState.ACTIVE, QueueState.ACTIVE, QueueState.PAUSED)
        queue = Queue(
            name="side",
            priority=chance.choice((25, 50, 75)),
            max_running=chance.choice((0, 0, 2)),
            state=chance.choice(states),
            max_per_user=chance.choice((0, 0, 1)),
            preempts=chance.random() < 0.8,
            preemptible=chance.random() < 0.8,
        )
        return cmd.SetQueue(actor=ROOT, queue=queue)

    def _reservation(self) -> cmd.Command:
        chance = self.chance
        start_s = self.world.now_s() + chance.choice((0.0, 0.5, 2.0, 6.0))
        specs = [node.spec for node in self.world.nodes]
        spec = chance.choice(specs)
        what: dict[str, Any] = {"nodes": (spec.name,)}
        if spec.devices and chance.random() < 0.7:
            what = chance.choice(
                (
                    {"node": spec.name, "devices": (chance.choice((0, 1)), 3)},
                    {"device_count": chance.choice((1, 2, 3))},
                    {"device_count": 2, "nodes": (spec.name,)},
                )
            )
        owner, project = chance.choice((("ann", ""), ("bob", ""), ("", "vision"), ("", "")))
        made = Reservation(
            0, owner, start_s, start_s + chance.choice((1.0, 4.0, 12.0)), project=project, **what
        )
        return self._for_job() or cmd.AddReservation(actor=ROOT, reservation=made)

    def _for_job(self) -> cmd.Command | None:
        """Now and then devices are kept for a single job."""
        cluster, chance = self.world.cluster, self.chance
        jobs = [*cluster.jobs] if cluster is not None else []
        if not jobs or chance.random() > 0.3:
            return None
        spec = chance.choice([node.spec for node in self.world.nodes])
        names = tuple(f"{spec.name}:{index}" for index in chance.choice(((0,), (0, 1), (1, 2, 3))))
        return cmd.ReserveForJob(actor=ROOT, job=chance.choice(jobs), devices=names)

    def _reservation_removed(self) -> cmd.Command:
        cluster = self.world.cluster
        known = [*cluster.reservations] if cluster is not None else []
        chosen = self.chance.choice(known) if known else 1
        return cmd.RemoveReservation(actor=ROOT, reservation=chosen)

    def _mark(self) -> cmd.Command:
        chance = self.chance
        node = chance.choice(self.world.nodes).spec.name
        if chance.random() < 0.3:
            return cmd.MarkNode(actor=ROOT, node=node, labels={"zone": chance.choice("abc")})
        if chance.random() < 0.4:
            return cmd.MarkNode(actor=ROOT, node=node, untaint=("odd",))
        effect = chance.choice(tuple(TaintEffect))
        return cmd.MarkNode(actor=ROOT, node=node, taints=(Taint("odd", effect=effect),))

    def _drain(self) -> cmd.Command:
        node = self.chance.choice(self.world.nodes).spec.name
        drained = self.chance.random() < 0.5
        if not drained or self.world.seed % MIGRATING:
            return cmd.DrainNode(actor=ROOT, node=node, drained=drained)
        hurry_s = self.chance.choice((0.0, 1.0, 5.0))
        deadline_s = self.world.now_s() + hurry_s if hurry_s else 0.0
        migrate = self.chance.random() < 0.7
        return cmd.DrainNode(
            actor=ROOT, node=node, drained=True, migrate=migrate, deadline_s=deadline_s
        )

    def _some_job(self) -> int:
        return self.chance.choice(self.world.script.ids or [1])

    def _checkpoint(self) -> cmd.Command:
        return cmd.ReportCheckpoint(actor=ROOT, job=self._some_job())

    def _update(self) -> cmd.Command:
        chance = self.chance
        changes: dict[str, Any] = chance.choice(
            (
                {"priority": chance.choice((5, 60, 90))},
                {"time_limit_s": chance.choice((0, 6, 60))},
                {"estimate_s": chance.choice((0, 2, 20))},
                {"preemptible": chance.random() < 0.5},
                {"project": chance.choice(("vision", "ops"))},
                {"queue": "side"},
            )
        )
        return cmd.Update(actor=ROOT, job=self._some_job(), changes=changes)

    def _group(self) -> cmd.Command:
        name = self.chance.choice(("group-ann", "group-bob"))
        return cmd.SetGroup(actor=ROOT, group=Group(name, "", self.chance.choice((1, 2, 3))))
