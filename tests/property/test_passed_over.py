"""Passes look at little of what waits; whoever they pass over could not have started."""

from random import Random

import pytest

from rota.core import events as ev
from rota.core.tenant import Queue
from rota.scheduling import backfill, firsts
from rota.testing.stage import Stage, node, spec


def a_busy_site(chance: Random) -> Stage:
    """Two nodes, a queue with a cap, and more jobs of all lengths than there is room for."""
    stage = Stage([node(name, cpus=8) for name in "ab"])
    stage.tell(ev.QueueSet(queue=Queue("side", max_running=2)))
    for _ in range(20):
        submit_one(stage, chance)
    stage.run()
    return stage


def submit_one(stage: Stage, chance: Random) -> None:
    """Large jobs come first, and small ones fit beside or before them."""
    cpus = chance.choice([1, 1, 1, 2, 2, 7])
    stage.submit(
        spec(
            cpus=cpus,
            time_limit_s=chance.choice([20, 60, 100, 400, 1000, 3000]),
            priority=chance.choice([25, 50]) if cpus < 7 else 75,
            user=chance.choice(["anna", "ben"]),
            queue=chance.choice(["default", "default", "side"]),
        )
    )


def something_happens(stage: Stage, chance: Random) -> None:
    stage.now_s += chance.choice([0.1, 0.1, 0.1, 0.3, 2.0, 30.0])
    for _ in range(chance.choice([0, 1, 1, 2])):
        if stage.running:
            stage.end(chance.choice(stage.running))
    for _ in range(chance.choice([0, 0, 1, 3])):
        submit_one(stage, chance)


@pytest.mark.parametrize("seed", range(6))
def test_a_look_at_everybody_right_after_a_pass_finds_nobody_who_could_start(seed, monkeypatch):
    # Few lanes count as many: promises stand for a second, as they do on large sites.
    monkeypatch.setattr(backfill, "MANY_FULL", 4)
    monkeypatch.setattr(firsts, "MANY_FULL", 4)
    chance = Random(seed)
    stage = a_busy_site(chance)

    for _ in range(60):
        before = stage.run().promises
        something_happens(stage, chance)
        promises, waiting = stage.run().promises, stage.waiting
        # A rule that is set anew, though to the same, makes the next pass ask everybody.
        stage.tell(ev.QueueSet(queue=stage.cluster.queues["side"]))
        again = stage.run().promises

        # Where the first one is another by now, others may fit beside him.
        assert stage.waiting == waiting or not before == promises == again
