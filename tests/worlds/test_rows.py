"""Worlds of short jobs that stand in a row on their node, and now and then of one that is not."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from rota.agent import line
from rota.controller import commands as cmd
from rota.core.facts.indices import Run
from rota.core.facts.job import JobSpec, Role
from rota.core.facts.node import NodeSpec
from rota.core.facts.resources import Request
from rota.sim.replay import verify
from rota.worlds.judge import Broken
from rota.worlds.script import ACTORS, Script
from rota.worlds.world import World

if TYPE_CHECKING:
    from rota.core.facts.tenant import Actor

#: Enough for every fault to meet a row.
WORLDS = 80
#: How long processes run: most are over at once.
LENGTHS_S = (*(0.0, 0.001, 0.01, 0.02) * 8, 0.3, 2.0)


class Rush(Script):
    """Many equal jobs and arrays at once, with everything that people do to them meanwhile."""

    def node_specs(self) -> list[NodeSpec]:
        count = self.chance.choice((1, 1, 2))
        return [NodeSpec(f"n{i}", 2000, 8192, 1024, cpus=(0, 1)) for i in range(count)]

    def begin(self) -> None:
        for node in self.world.nodes:
            node.lengths_s = LENGTHS_S
        super().begin()

    def _submit(self) -> cmd.Submit:
        actor = ACTORS[0]
        if self.chance.random() < 0.3:
            runs = (Run(0, self.chance.randint(5, 30)),)
            wish = cmd.Submission(
                spec=self._spec(actor), runs=runs, cap=self.chance.choice((0, 0, 1, 3))
            )
            wishes: tuple[cmd.Submission, ...] = (wish,)
        else:
            wishes = (cmd.Submission(spec=self._spec(actor)),) * self.chance.randint(5, 30)
        return cmd.Submit(actor=actor, submissions=wishes, key=f"key-{self.world.number()}")

    def _spec(self, actor: Actor) -> JobSpec:
        cpu_milli = 2000 if self.chance.random() < 0.1 else 1000
        return JobSpec(
            name="w", user=actor.user, command=("true",), grace_s=1, backoff_s=0.5,
            roles=(Role(count=1, request=Request(cpu_milli=cpu_milli)),),
            retries=self.chance.choice((0, 0, 0, 2)),
        )  # fmt: skip


def play(seed: int) -> World:
    world = World(seed, plain=True, script=Rush)
    try:
        world.play()
    except Exception as error:
        pytest.fail(f"row seed {seed}: {type(error).__name__}: {error}")
    return world


def play_until_broken() -> None:
    for seed in range(WORLDS):
        World(seed, plain=True, script=Rush).play()


def test_short_jobs_in_a_row_are_neither_lost_nor_doubled_nor_started_too_early():
    counts = Counter[str]()
    for seed in range(WORLDS):
        world = play(seed)
        counts += world.judge.books.counts
        if seed % 8 == 0:
            found = verify(world.store.all_events())
            assert found.difference is None, f"row seed {seed}: {found.difference}"

    happens = ("placed in a row", "ended: requeued", "ended: cancelled", "node-silent")
    assert [kind for kind in happens if not counts[kind]] == []


def test_an_agent_that_does_not_wait_for_those_before_is_caught(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(line.Line, "_is_alive", lambda self, uid: False)

    with pytest.raises(Broken):
        play_until_broken()
