"""Promised deadlines hold, whatever comes after them, as long as nodes and limits do."""

from heapq import heappop, heappush
from random import Random
from typing import Any

import pytest

from rota.controller.commands import commands as cmd
from rota.core.changes import events as ev
from rota.core.facts.errors import Rejected
from rota.core.facts.tenant import Access, Actor
from rota.testing.scene import Scene

ROOT = Actor("root", Access.ADMIN)
PRESETS = ("default", "easy", "conservative", "priority", "fifo", "deadline", "fairshare")


class Story:
    """Jobs of two users come at random; each one ends within its limit, if it has one."""

    def __init__(self, seed: int, preset: str) -> None:
        self.chance = Random(seed)
        self.scene = Scene(cpus=4, gpus=2, nodes=2)
        self.scene.ask(cmd.SetPolicy(actor=ROOT, preset=preset))
        #: (when, which job) to end, and jobs whose end is planned.
        self._ends: list[tuple[float, int]] = []
        self._planned: dict[int, None] = {}
        self.promised: list[int] = []

    def play(self, count: int) -> None:
        for number in range(count):
            self.pass_to(self.scene.now_s + self.chance.choice((0.0, 5.0, 60.0, 400.0)))
            self.submit(number)
        while self._ends:
            self.pass_to(self._ends[0][0])

    def submit(self, number: int) -> None:
        chance, scene = self.chance, self.scene
        limit_s = chance.choice((60, 300, 1200))
        wishes: dict[str, Any] = {
            "cpus": chance.choice((1, 2, 4)),
            "gpus": chance.choice((0, 0, 1, 2)),
            "tasks": chance.choice((1, 1, 2)),
            "priority": chance.choice((10, 50, 70)),
            "estimate_s": chance.choice((0, 0, 20)),
            "time_limit_s": limit_s if chance.random() < 0.9 else 0,
        }
        if chance.random() < 0.4:
            due_s = scene.now_s + limit_s * chance.choice((2, 5, 20))
            wishes |= {"time_limit_s": limit_s, "deadline_s": due_s, "promise": True}
        try:
            job = scene.submit(
                f"j{number}", actor=Actor(chance.choice("ab"), Access.USER), **wishes
            )
        except Rejected:
            return
        if wishes.get("promise"):
            self.promised.append(job)
        self.watch()

    def watch(self) -> None:
        """Plan the ends of jobs that run since the last look."""
        for job in self.scene.cluster.jobs.values():
            if job.started_s and job.id not in self._planned:
                self._planned[job.id] = None
                most_s = job.spec.time_limit_s or 2000
                runs_s = most_s * self.chance.choice((0.1, 0.6, 0.99))
                heappush(self._ends, (job.started_s + runs_s, job.id))

    def pass_to(self, at_s: float) -> None:
        while self._ends and self._ends[0][0] <= at_s:
            end_s, job = heappop(self._ends)
            self.scene.pass_time(max(end_s - self.scene.now_s, 0.0))
            self.scene.finish(job)
            self.watch()
        self.scene.pass_time(max(at_s - self.scene.now_s, 0.0))
        self.watch()


@pytest.mark.parametrize("preset", PRESETS)
def test_no_promise_is_broken_while_nodes_and_limits_hold(preset):
    kept = 0
    for seed in range(2):
        story = Story(seed, preset)

        story.play(45)

        assert [e for e in story.scene.log if isinstance(e, ev.PromiseBroken)] == []
        late = [e.job for e in story.scene.log if isinstance(e, ev.DeadlineMissed)]
        assert set(late).isdisjoint(story.promised)
        kept += len(story.promised)
    assert kept > 5
