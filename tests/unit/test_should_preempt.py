"""``should_preempt``: one running job that gives way for a new one, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from rota.core.changes import events as ev
from rota.core.changes.apply import apply
from rota.core.facts.policy import Policy, PreemptRules
from rota.core.facts.states import JobState
from rota.scheduling.answers.next_job import CorePolicy
from rota.scheduling.registry import Catalog
from rota.scheduling.scheduler import Scheduler
from rota.testing.scene import Scene
from rota.testing.stage import Stage, node, spec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.scheduling.api import Entry, Victim

HOUR_S = 3600
ANYBODY = PreemptRules(enabled=True, min_runtime_s=0, only_willing=False)


class Chosen:
    """A victim rule of a site: the job that has run for the longest time, and never for bob.

    By cost alone the other one would go.
    """

    name = "mine"

    def cost(self, victim: Victim) -> float:
        return victim.ran_s

    def should_preempt(self, running: Sequence[Victim], job: Entry) -> int | None:
        if job.key.user == "bob" or not running:
            return None
        return max(running, key=lambda victim: (victim.ran_s, victim.job)).job


class Foolish(Chosen):
    def should_preempt(self, running: Sequence[Victim], job: Entry) -> int | None:
        return 4711


def full_stage(rule: Chosen, *more: str) -> tuple[Stage, int, int]:
    """A long and a short job fill the node, and anybody may be evicted."""
    policy = Policy(preempt=ANYBODY, victims=("mine", *more))
    stage = Stage([node("a", cpus=2)], policy)
    stage.scheduler = Scheduler(stage.cluster, lambda _: Catalog(victims={"mine": rule}))
    jobs = []
    for _ in range(2):
        jobs.append(stage.submit(spec(cpus=1, priority=10, time_limit_s=100 * HOUR_S)))
        stage.run()
        stage.now_s += 600
    return stage, jobs[0], jobs[1]


def evicted(stage: Stage) -> list[int]:
    return [eviction.job for _, plan in stage.plans for eviction in plan.evictions]


@pytest.mark.parametrize("more", [(), ("lost-work",)])
def test_a_rule_of_the_site_names_the_job_that_gives_way(more):
    stage, long, _ = full_stage(Chosen(), *more)

    stage.submit(spec(cpus=1, priority=90))
    stage.run()

    assert evicted(stage) == [long]


def test_where_the_rule_names_none_the_job_waits():
    stage, _, _ = full_stage(Chosen())

    job = stage.submit(spec(cpus=1, priority=90, user="bob"))
    stage.run()

    assert evicted(stage) == []
    assert stage.waiting == [job]


def test_only_the_one_job_goes_so_that_a_job_that_needs_more_waits():
    stage, _, _ = full_stage(Chosen())

    stage.submit(spec(cpus=2, priority=90))
    stage.run()

    assert evicted(stage) == []


def test_a_rule_that_names_nobody_who_may_go_is_switched_off_and_the_built_in_one_decides():
    stage, _, _ = full_stage(Foolish())

    stage.submit(spec(cpus=2, priority=90))
    plan = stage.run()

    assert len(evicted(stage)) == 2
    assert "named 4711" in plan.dropped[0].problem


@pytest.mark.parametrize(("cpus", "expected"), [(1, True), (2, False)])
def test_tools_that_ask_job_by_job_get_one_victim_or_none(cpus, expected):
    scene = Scene(cpus=2)
    scene.set_policy("priority", preempt_only_willing=False, preempt_min_runtime_s=0)
    running = [scene.job(scene.submit(name, priority=10)) for name in ("first", "second")]
    scene.pass_time(60)
    new = scene.job(scene.submit("urgent", cpus=cpus, priority=70))
    on = replace(scene.cluster.policy, preempt=ANYBODY)
    apply(scene.cluster, ev.PolicySet(policy=on), scene.now_s)

    victim = CorePolicy(scene.controller.scheduler, scene.now_s).should_preempt(running, new)

    assert (victim in running) is expected
    assert new.state is JobState.QUEUED
