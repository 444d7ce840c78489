"""Stories from a seed with many accounts and hundreds of lanes, for thousands of jobs in seconds.

Jobs age within minutes, shares differ and fade within the hour, one queue has a cap: whatever a
Scheduler remembers between two passes changes in such a story.
"""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from rota.core.changes import events as ev
from rota.core.facts.policy import Policy, ShareRules
from rota.core.facts.tenant import Project, Queue, User
from rota.core.words.presets import PRESETS
from rota.testing.stage import Stage, node, spec
from tests.property.sites import Submission

USERS = ("ann", "ben", "cem", "dan", "eve", "fay")
PROJECTS = ("", "vision", "text")
#: Widths and limits by which lanes differ.
CPUS = (1, 1, 1, 2, 3, 6)
LIMITS_S = tuple(range(20, 420, 20))


def policy(name: str, *, preempt: bool = False, **share: float) -> Policy:
    """A preset under which jobs grow older every minute and use is forgotten within the hour.

    ``preempt``: jobs give way to others, whatever the preset says.
    """
    chosen = PRESETS[name]
    order = replace(chosen.order, age_after_s=60, age_factor=1.5)
    enabled = preempt or chosen.preempt.enabled
    giving = replace(chosen.preempt, enabled=enabled, min_runtime_s=10, grace_s=5)
    shares = ShareRules(half_life_s=1800, **share)
    return replace(chosen, order=order, preempt=giving, share=shares)


def stage(rules: Policy, *, starts: int = 256, checked: bool = False) -> Stage:
    """Three nodes, one of them with cards; accounts with unequal shares; a queue with a cap."""
    nodes = [node("a", cpus=8), node("b", cpus=8), node("c", cpus=8, gpus=2)]
    found = Stage(nodes, rules, starts_per_pass=starts, checked=checked)
    for name, shares in (("vision", 4), ("text", 1)):
        found.tell(ev.ProjectSet(project=Project(name, "", shares)))
    for number, name in enumerate(USERS):
        found.tell(ev.UserSet(user=User(name, 1 + number % 3)))
    found.tell(ev.QueueSet(queue=Queue("side", max_running=2)))
    return found


def forget(known: Stage) -> None:
    """The Scheduler is replaced by one that knows nothing but what was promised."""
    known.scheduler = known.scheduler.another()


def jobs(seed: int, count: int, *, spread_s: float = 600.0, early: float = 0.7) -> list[Submission]:
    """``early``: the part of them that is there from the beginning."""
    chance = Random(seed)
    found = []
    for _ in range(count):
        limit_s = chance.choice(LIMITS_S)
        wish = spec(
            cpus=chance.choice(CPUS),
            gpus=chance.choice((0, 0, 0, 1)),
            time_limit_s=limit_s,
            priority=chance.choice((10, 30, 50, 70)),
            user=chance.choice(USERS),
            project=chance.choice(PROJECTS),
            queue=chance.choice(("default", "default", "default", "side")),
            preemptible=chance.random() < 0.5,
        )
        at_s = 0.0 if chance.random() < early else float(chance.randrange(1, int(spread_s)))
        found.append(Submission(wish, at_s, limit_s * chance.choice((1.0, 0.8, 0.3))))
    return sorted(found, key=lambda one: one.at_s)


def tell(known: Stage, story: list[Submission]) -> Stage:
    for job in story:
        known.submit_later(job.at_s, job.spec, job.runs_s)
    return known
