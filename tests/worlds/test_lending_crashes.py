"""A victim lends its CPUs, with the controller dying at every commit of the story."""

from __future__ import annotations

from functools import cache

import pytest

from rota.controller.commands import commands as cmd
from rota.store.memory import DiskFault
from rota.worlds.script import Script
from rota.worlds.site import ROOT
from rota.worlds.world import World
from tests.worlds.test_takeover_crashes import SEED, Takeover

DEATHS = (DiskFault.CRASH_BEFORE, DiskFault.CRASH_TORN, DiskFault.CRASH_AFTER)


class Lending(Takeover):
    """A gang runs, somebody more important comes, and it stands still until he is gone."""

    mode = "suspend"


@cache
def commits() -> int:
    """How many commits the story has when nothing goes wrong."""
    world = World(SEED, plain=True, script=Lending, crash=(0, DiskFault.CRASH_BEFORE))
    world.play()
    counts = world.judge.books.counts
    assert counts["placed on lent CPUs"] == 2
    assert (counts["job-suspended"], counts["job-resumed"], counts["job-preempted"]) == (1, 1, 0)
    return world.commits


@pytest.mark.parametrize("death", DEATHS, ids=["before", "torn", "after"])
def test_a_loan_survives_the_controllers_death_at_every_commit(death: DiskFault) -> None:
    for number in range(1, commits() + 1):
        world = World(SEED, plain=True, script=Lending, crash=(number, death))
        world.play()

        assert world.judge.acknowledged == {1, 2}, f"commit {number}"


class Lenders(Script):
    """A world like all others, in which victims stand still wherever that helps."""

    def begin(self) -> None:
        super().begin()
        rules = {"enabled": True, "mode": "suspend", "gap": 0, "min_runtime_s": 0}
        rules |= {"only_willing": False, "max_per_job": 10}
        self._send(cmd.SetPolicy(actor=ROOT, rules={f"preempt.{k}": v for k, v in rules.items()}))


def test_worlds_with_faults_in_which_victims_lend_their_cpus_keep_all_promises() -> None:
    lent = 0
    for seed in range(40):
        world = World(seed, script=Lenders)
        world.play()
        lent += world.judge.books.counts["placed on lent CPUs"]

    assert lent > 10
