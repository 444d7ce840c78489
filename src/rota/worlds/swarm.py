"""Swarm testing: each world has some of all features, and one preset of the policy.

A world in which everything happens hides what few things do together: a shortcut that is taken
only where nobody has a quota never meets an exclusive job if quotas are everywhere. What a seed
switches on is drawn from a dice of its own: ``python -m rota.worlds swarm SEED`` plays it again.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from rota.controller.commands import commands as cmd
from rota.core.facts.job import ServiceClass
from rota.core.facts.placing import Placement
from rota.core.facts.policy import PreemptMode
from rota.core.facts.tenant import Quota
from rota.core.words.presets import PRESETS
from rota.worlds.script import Script
from rota.worlds.site import PARENTS, ROOT, Site
from rota.worlds.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.facts.job import JobSpec, Role
    from rota.core.facts.node import NodeSpec
    from rota.core.facts.tenant import Actor

FEATURES = (
    *("accounts", "arrays", "dependencies", "devices", "drains", "elastic", "exclusive", "gangs"),
    *("groups", "memory", "placement", "preemption", "queues", "quotas", "reservations", "rules"),
    *("services", "shares", "suspend", "taints", "time limits", "types", "updates"),
)
#: How many of them a world has: two on an otherwise plain site, half or most.
SHARES = (0.0, 0.5, 0.85)
#: How often a job has a node to itself where any may.
EXCLUSIVE = 0.4
#: What a job asks for where a feature is missing.
WITHOUT: tuple[tuple[str, str, object], ...] = (
    ("accounts", "project", ""),
    ("dependencies", "dependencies", ()),
    ("groups", "group", ""),
    ("queues", "queue", "default"),
    ("services", "service", ServiceClass.BURSTABLE),
    ("time limits", "time_limit_s", 0),
    ("types", "type", ""),
)


def features_of(seed: int) -> frozenset[str]:
    """What there is in a world."""
    chance = Random(f"{seed} features")
    share = chance.choice(SHARES)
    if not share:
        return frozenset(chance.sample(FEATURES, 2))
    return frozenset(name for name in FEATURES if chance.random() < share)


def preset_of(seed: int) -> str:
    """All in turn, so that few worlds have every one of them."""
    return tuple(PRESETS)[seed % len(PRESETS)]


def swarm_world(seed: int, tell: Callable[[str], None] | None = None) -> World:
    return World(seed, tell, site=SwarmSite, script=SwarmScript)


class SwarmSite(Site):
    """The operators use only what there is in this world."""

    def __init__(self, world: World, plain: bool) -> None:
        super().__init__(world, plain)
        self.has = features_of(world.seed)
        self.preset = preset_of(world.seed)
        self.busy = self.chance.choice((0.2, 0.5))
        #: Which features met while both mattered.
        self.met: Counter[str] = Counter()

    @property
    def may_pool(self) -> bool:
        """No job can have a machine of a pool to itself, name its zone, or span it and others."""
        return not self.has & {"exclusive", "placement", "gangs"}

    def opening(self) -> list[cmd.Command]:
        found: list[cmd.Command] = [self._policy()]
        if "queues" in self.has:
            found.append(self._queue())
        if "accounts" in self.has:
            found += [self._project(name) for name in PARENTS]
        if "quotas" in self.has:
            found += [self._user(), self._user()]
        return found

    def _choices(self) -> tuple[Callable[[], cmd.Command], ...]:
        def project() -> cmd.Command:
            return self._project(self.chance.choice(tuple(PARENTS)))

        by_feature: dict[str, tuple[Callable[[], cmd.Command], ...]] = {
            "rules": (self._policy,),
            "quotas": (self._user, project),
            "shares": (self._user, project),
            "queues": (self._queue,),
            "reservations": (self._reservation, self._reservation, self._reservation_removed),
            "taints": (self._mark, self._mark),
            "drains": (self._drain,),
            "updates": (self._update, self._checkpoint),
            "groups": (self._group,),
        }
        found = [one for name, some in by_feature.items() if name in self.has for one in some]
        return (*found, lambda: cmd.Trigger(actor=ROOT))

    def _policy(self) -> cmd.SetPolicy:
        """The preset of this world; its rules are others only where rules are a feature."""
        chosen = super()._policy()
        rules: dict[str, Any] = dict(chosen.rules) if "rules" in self.has else {}
        rules = {name: value for name, value in rules.items() if not name.startswith("preempt.")}
        if "preemption" in self.has:
            modes = [mode for mode in PreemptMode if self._allows(mode)]
            rules |= {
                "preempt.enabled": True,
                "preempt.mode": str(self.chance.choice(modes)),
                "preempt.gap": self.chance.choice((0, 0, 100)),
                "preempt.min_runtime_s": self.chance.choice((0, 0, 1)),
                "preempt.grace_s": self.chance.choice((0, 1, 3)),
                "preempt.only_willing": self.chance.random() < 0.5,
            }
        if "shares" in self.has:
            rules["share.hard_ratio"] = self.chance.choice((0, 0, 1, 2))
            rules["share.soft_ratio"] = self.chance.choice((0, 0, 1))
        return cmd.SetPolicy(actor=ROOT, preset=self.preset, rules=rules)

    def _allows(self, mode: PreemptMode) -> bool:
        return "suspend" in self.has or mode is not PreemptMode.SUSPEND

    def _quota(self) -> Quota:
        return super()._quota() if "quotas" in self.has else Quota()

    def _reservation(self) -> cmd.Command:
        cluster = self.world.cluster
        if cluster is not None and cluster.policy.preempt.enabled:
            self.met["reservation with preemption"] += 1
        return super()._reservation()

    def _mark(self) -> cmd.Command:
        made, cluster = super()._mark(), self.world.cluster
        if isinstance(made, cmd.MarkNode) and made.taints and cluster is not None:
            self.met["taint while jobs wait"] += bool(cluster.lanes.where)
        return made


class SwarmScript(Script):
    """People ask only for what there is in this world, and for some of it more often."""

    @property
    def _has(self) -> frozenset[str]:
        return features_of(self.world.seed)

    def node_specs(self) -> list[NodeSpec]:
        specs = super().node_specs()
        if "devices" in self._has:
            return specs
        return [msgspec.structs.replace(spec, devices=()) for spec in specs]

    def _submission(self, actor: Actor) -> cmd.Submission:
        made = super()._submission(actor)
        if "arrays" in self._has:
            return made
        return msgspec.structs.replace(made, runs=(), cap=0)

    def _spec(self, actor: Actor) -> JobSpec:
        spec, has = super()._spec(actor), self._has
        changes: dict[str, Any] = {
            "roles": _roles(spec.roles, has),
            "placement": self._placement(spec.placement, has),
        }
        if spec.preempt_mode is PreemptMode.SUSPEND and "suspend" not in has:
            changes["preempt_mode"] = None
        changes |= {field: value for name, field, value in WITHOUT if name not in has}
        return msgspec.structs.replace(spec, **changes)

    def _placement(self, wished: Placement, has: frozenset[str]) -> Placement:
        # What is drawn must not depend on what there is.
        alone = self.chance.random() < EXCLUSIVE
        kept = wished if "placement" in has else Placement()
        if "taints" in has:
            kept = msgspec.structs.replace(kept, tolerations=wished.tolerations)
        return msgspec.structs.replace(kept, exclusive=alone and "exclusive" in has)


def _roles(roles: tuple[Role, ...], has: frozenset[str]) -> tuple[Role, ...]:
    if "gangs" not in has:
        roles = (msgspec.structs.replace(roles[-1], count=1, min_count=0),)
    if "elastic" not in has:
        roles = tuple(msgspec.structs.replace(role, min_count=0) for role in roles)
    if "memory" not in has:
        roles = tuple(map(_without_memory, roles))
    return roles


def _without_memory(role: Role) -> Role:
    return msgspec.structs.replace(
        role, request=msgspec.structs.replace(role.request, memory_mib=0)
    )
