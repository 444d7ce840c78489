"""One takeover, told step by step, with the controller dying at every commit of it."""

from __future__ import annotations

from functools import cache, partial

import pytest

from rota.controller.commands import commands as cmd
from rota.core.facts.job import JobSpec, Role, ServiceClass
from rota.core.facts.node import NodeSpec
from rota.core.facts.resources import Request
from rota.store.memory import DiskFault
from rota.worlds.script import Script
from rota.worlds.site import ROOT
from rota.worlds.world import World

#: In this world both tasks of the victim run when their room is taken.
SEED = 33
DEATHS = (DiskFault.CRASH_BEFORE, DiskFault.CRASH_TORN, DiskFault.CRASH_AFTER)


class Takeover(Script):
    """A gang runs, somebody more important comes and takes its room, and it comes back."""

    mode = "requeue"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.left = 0

    def node_specs(self) -> list[NodeSpec]:
        return [NodeSpec("n0", 4000, 8192, 1024, cpus=(0, 1, 2, 3))]

    def begin(self) -> None:
        rules = {"preempt.grace_s": 2, "preempt.min_runtime_s": 0, "preempt.only_willing": False}
        rules["preempt.mode"] = self.mode
        self._send(cmd.SetPolicy(actor=ROOT, preset="preemptive", rules=rules))
        self.left = 3
        for delay_s, priority in ((1.0, 10), (2.0, 90)):
            self.world.timeline.after(delay_s, partial(self._ask_for, priority))
        self.world.timeline.after(3.0, self._told)

    def _ask_for(self, priority: int) -> None:
        self.left -= 1
        role = Role(count=2, request=Request(cpu_milli=2000))
        spec = JobSpec(
            name="w", user="root", command=("true",), priority=priority, roles=(role,),
            grace_s=2, service=ServiceClass.BURSTABLE, retries=9, backoff_s=0.1,
        )  # fmt: skip
        submission = cmd.Submission(spec=spec)
        self._send(cmd.Submit(actor=ROOT, submissions=(submission,), key=f"key-{priority}"))

    def _told(self) -> None:
        self.left -= 1


@cache
def commits() -> int:
    """How many commits the story has when nothing goes wrong."""
    world = World(SEED, plain=True, script=Takeover, crash=(0, DiskFault.CRASH_BEFORE))
    world.play()
    counts = world.judge.books.counts
    assert counts["job-preempted"] == 1
    assert counts["placed after others"] == 2
    return world.commits


def test_the_story_is_a_takeover_in_a_handful_of_commits() -> None:
    assert 8 <= commits() <= 40


@pytest.mark.parametrize("death", DEATHS, ids=["before", "torn", "after"])
def test_a_takeover_survives_the_controllers_death_at_every_commit(death: DiskFault) -> None:
    for number in range(1, commits() + 1):
        world = World(SEED, plain=True, script=Takeover, crash=(number, death))
        world.play()

        assert world.judge.acknowledged == {1, 2}, f"commit {number}"
