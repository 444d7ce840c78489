"""Stories from a seed that switch features on and off, so that each meets the others.

A seed draws a preset, rules of its own for preemption, shares and promises, and which of the
features its site and its jobs have. All of them age within minutes.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rota.core.changes import events as ev
from rota.core.facts.features import Feature
from rota.core.facts.job import ServiceClass
from rota.core.facts.placing import Affinity, Placement, Taint, Toleration
from rota.core.facts.policy import Estimates, Policy, PreemptMode
from rota.core.facts.tenant import Limits, Project, Queue, Quota, Reservation, User
from rota.testing.stage import Stage, node, role, spec
from tests.property import crowds
from tests.property.sites import Submission

if TYPE_CHECKING:
    from rota.core.facts.job import JobSpec, Role
    from rota.core.facts.node import NodeSpec

#: What a story may have; each seed draws some of it.
FEATURES = (
    *("preempt", "suspend", "reserve", "exclusive", "taint", "gang", "elastic", "predicted"),
    *("estimate", "deadline", "neighbour", "best-effort", "quota", "soft", "hard", "trust"),
    *("look-ahead", "no-limit", "overdue", "shared", "leave"),
)
LIMITS_S = tuple(range(20, 420, 20))


class Story:
    """What a seed draws: a site, its rules, and the jobs that come."""

    def __init__(self, name: str, seed: int, count: int) -> None:
        self.chance = chance = Random(f"{name} {seed}")
        self.has = {one for one in FEATURES if chance.random() < 0.4}
        # With a chance of its own: the rest of the story stays as it was.
        self.has |= {"early"} if Random(f"{name} {seed} early").random() < 0.4 else set()
        self.policy = self._policy(name)
        self.starts = chance.choice((1, 2, 256, 256))
        self._nodes = [self._node(number) for number in range(4)]
        self._reservations = self._reserved() if "reserve" in self.has else []
        self._users = [self._user(number, user) for number, user in enumerate(crowds.USERS)]
        self.jobs = sorted((self._job() for _ in range(count)), key=lambda job: job.at_s)
        #: When which node is drained and comes back, in steps.
        self.drains = {chance.randrange(2, 40): number % 2 for number in range(4)}

    def stage(self) -> Stage:
        """The site with its accounts and reservations, before the first job comes."""
        found = Stage(self._nodes, self.policy, starts_per_pass=self.starts, checked=False)
        for name, shares in (("vision", 4), ("text", 1)):
            found.tell(ev.ProjectSet(project=Project(name, "", shares)))
        for user in self._users:
            found.tell(ev.UserSet(user=user))
        found.tell(ev.QueueSet(queue=Queue("side", max_running=2)))
        for reservation in self._reservations:
            found.reserve(reservation)
        return crowds.tell(found, self.jobs)

    def happens(self, step: int, stage: Stage) -> None:
        """What people do to the site between two steps."""
        if "leave" in self.has and step in self.drains:
            stage.tell(ev.NodeDrained(node="n1", drained=bool(self.drains[step])))

    def _policy(self, name: str) -> Policy:
        chance, has = self.chance, self.has
        share: dict[str, float] = {}
        if "soft" in has:
            share["soft_ratio"] = chance.choice((0.8, 1.5))
        if "hard" in has:
            share["hard_ratio"] = chance.choice((1.0, 2.0))
        rules = crowds.policy(name, **share)
        preempt, backfill, order = rules.preempt, rules.backfill, rules.order
        if has & {"preempt", "suspend"}:
            modes = [PreemptMode.REQUEUE, PreemptMode.CHECKPOINT, PreemptMode.CANCEL]
            preempt = replace(
                preempt,
                enabled=True,
                mode=PreemptMode.SUSPEND if "suspend" in has else chance.choice(modes),
                gap=chance.choice((0, 100)),
                min_runtime_s=chance.choice((0, 10, 60)),
                only_willing=chance.random() < 0.6,
                max_per_pass=chance.choice((1, 16)),
            )
        if "predicted" in has:
            backfill = replace(backfill, estimates=Estimates.PREDICTED)
        if "trust" in has:
            backfill = replace(backfill, trust_s=chance.choice((60, 200)))
        if "look-ahead" in has:
            backfill = replace(backfill, look_ahead=chance.choice((1, 3)))
        if "overdue" in has:
            order = replace(order, wait_max_s=chance.choice((150, 400)))
        return replace(rules, preempt=preempt, backfill=backfill, order=order)

    def _node(self, number: int) -> NodeSpec:
        cards = 2 if number == 2 else 0
        made = node(f"n{number}", cpus=8 - 2 * (number % 2), gpus=cards, rack=f"r{number % 2}")
        tainted = "taint" in self.has and number == 1
        made = replace(made, taints=(Taint("special"),) if tainted else ())
        if "early" not in self.has or number % 2:
            return made
        able = tuple(feature for feature in Feature if feature is not Feature.IMAGES_ONLY)
        return replace(made, cpus=(), engine="lab", features=able, early=2)

    def _user(self, number: int, name: str) -> User:
        quota = Quota()
        if "quota" in self.has:
            own = Limits(cpu_milli=1000 * self.chance.choice((4, 6, 8)))
            borrow = self.chance.random() < 0.7
            quota = Quota(soft=own, borrow=True) if borrow else Quota(hard=own)
        return User(name, 1 + number % 3, quota=quota)

    def _reserved(self) -> list[Reservation]:
        chance, found = self.chance, []
        for number in range(1, 1 + chance.choice((1, 2))):
            start_s = 1_000_000.0 + chance.randrange(0, 900)
            owner = chance.choice(("ann", "ben", ""))
            end_s = start_s + chance.choice((100, 400))
            nodes = (f"n{chance.choice((0, 1, 3))}",)
            found.append(Reservation(number, owner, start_s, end_s, nodes=nodes))
        return found

    def _job(self) -> Submission:
        chance = self.chance
        limit_s = chance.choice(LIMITS_S)
        runs_s = limit_s * chance.choice((1.0, 0.8, 0.3))
        at_s = 0.0 if chance.random() < 0.6 else float(chance.randrange(1, 600))
        return Submission(self._spec(limit_s, runs_s), at_s, runs_s)

    def _spec(self, limit_s: int, runs_s: float) -> JobSpec:
        chance = self.chance
        words: dict[str, object] = {}
        if self._now_and_then("predicted"):
            # Not below what it really runs: no pass is woken for a run that outlives that.
            predicted_s = min(limit_s, int(runs_s) + chance.choice((1, 30)))
            words |= {"predicted_s": predicted_s, "predicted_most_s": predicted_s}
        if self._now_and_then("estimate"):
            words["estimate_s"] = min(limit_s, int(runs_s) + chance.choice((1, 30)))
        if self._now_and_then("deadline"):
            words["deadline_s"] = 1_000_000.0 + chance.randrange(100, 2000)
        if self._now_and_then("neighbour"):
            words["labels"] = {"app": chance.choice(("web", "db"))}
        if self._now_and_then("best-effort"):
            words["service"] = ServiceClass.BEST_EFFORT
        return spec(
            self._role(),
            time_limit_s=0 if self._now_and_then("no-limit") else limit_s,
            priority=chance.choice((10, 30, 50, 70)),
            user=chance.choice(crowds.USERS),
            project=chance.choice(crowds.PROJECTS),
            queue=chance.choice(("default", "default", "default", "side")),
            preemptible=chance.random() < 0.5,
            grace_s=chance.choice((0, 5)),
            placement=self._placement(),
            **words,
        )

    def _role(self) -> Role:
        chance = self.chance
        tasks = chance.choice((1, 2, 3)) if "gang" in self.has else 1
        least = 1 if tasks > 1 and self._now_and_then("elastic") else 0
        gpus = chance.choice((0, 0, 0, 1))
        part = 0.5 if gpus and self._now_and_then("shared") else 0.0
        cpus = chance.choice((1, 1, 1, 2, 3, 6))
        return role(tasks=tasks, at_least=least, cpus=cpus, gpus=gpus, gpu_part=part)

    def _placement(self) -> Placement:
        chance = self.chance
        words: dict[str, object] = {}
        if self._now_and_then("exclusive"):
            words["exclusive"] = True
        if self._now_and_then("taint"):
            words["tolerations"] = (Toleration("special"),)
        if self._now_and_then("neighbour"):
            near = Affinity("app", "web", apart=chance.random() < 0.5)
            words["affinities"] = (near,)
        return Placement(**words)

    def _now_and_then(self, feature: str) -> bool:
        return feature in self.has and self.chance.random() < 0.3
