"""Passes look at little of what waits; whoever they pass over could not have started."""

from random import Random

import pytest

from rota.core.changes import events as ev
from rota.core.facts.policy import Backfill
from rota.core.facts.tenant import Queue
from rota.core.words.presets import PRESETS, preset
from rota.scheduling.later import promising
from rota.testing.stage import Stage, node, spec
from tests.property import crowds


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
    monkeypatch.setattr(promising, "MANY_FULL", 4)
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


def a_capped_site(chance: Random) -> Stage:
    """In the order of submission, with EASY; two of three queues have a cap."""
    stage = Stage([node(name, cpus=8) for name in "abc"], policy=preset("easy"))
    for name, most in (("one", 1), ("two", 6)):
        stage.tell(ev.QueueSet(queue=Queue(name, max_running=most)))
    for _ in range(30):
        submit_any(stage, chance)
    stage.run()
    return stage


def submit_any(stage: Stage, chance: Random) -> None:
    stage.submit(
        spec(
            cpus=chance.choice([1, 1, 2, 2, 4, 7, 8]),
            time_limit_s=chance.choice([20, 60, 100, 400, 1000]),
            queue=chance.choice(["default", "one", "two"]),
        )
    )


def time_goes_on(stage: Stage, chance: Random) -> None:
    """Nobody outstays his limit: what was promised stands."""
    stage.now_s += chance.choice([0.1, 0.3, 2.0, 10.0])
    jobs = stage.cluster.jobs
    for job in stage.running:
        over = stage.started_s[job] + jobs[job].spec.time_limit_s <= stage.now_s
        if over or chance.random() < 0.1:
            stage.end(job)
    for _ in range(chance.choice([0, 1, 2])):
        submit_any(stage, chance)


def is_capped(stage: Stage, job: int) -> bool:
    jobs = stage.cluster.jobs
    queue = stage.cluster.queues.get(jobs[job].spec.queue)
    held = sum(jobs[other].spec.queue == jobs[job].spec.queue for other in stage.running)
    return queue is not None and 0 < queue.max_running <= held


@pytest.mark.parametrize("seed", range(6))
def test_beside_caps_nobody_who_fits_waits_but_for_one_who_was_promised_the_room(seed: int):
    chance = Random(seed)
    stage = a_capped_site(chance)

    for _ in range(40):
        time_goes_on(stage, chance)
        promises, waiting = stage.run().promises, stage.waiting
        # Others of his queue started behind him: he keeps his room until the next pass.
        first_is_capped = any(is_capped(stage, promise.job) for promise in promises)
        stage.tell(ev.QueueSet(queue=stage.cluster.queues["one"]))
        stage.run()

        assert stage.waiting == waiting or first_is_capped


def passed_over(name: str, seed: int, count: int, steps: int) -> str:
    """Who starts in a look at everybody, though the promises are the same as before it."""
    chance, rules = Random(seed), crowds.policy(name)
    stage = crowds.tell(crowds.stage(rules, starts=(1, 256)[seed % 2]), crowds.jobs(seed, count))
    looks = 0
    for _ in range(steps):
        if not stage.step():
            break
        # Not each time: a look also opens what passes had closed for good.
        if chance.random() < 0.7:
            continue
        waiting, promises = stage.waiting, stage.plans[-1][1].promises
        stage.tell(ev.QueueSet(queue=stage.cluster.queues["side"]))
        again = stage.run().promises
        if stage.waiting != waiting and promises == again:
            return f"seed {seed}: {sorted({*waiting} - {*stage.waiting})} could start"
        looks += bool(waiting)
    assert looks > steps / 20, "there was nobody to look at"
    return ""


@pytest.mark.parametrize("name", PRESETS)
def test_under_every_policy_a_look_at_everybody_finds_nobody(name):
    assert [passed_over(name, seed, 60, 200) for seed in (0, 1)] == ["", ""]


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_with_many_lanes_a_look_at_everybody_finds_nobody(name):
    # Hundreds of promises in each pass take their time.
    many = PRESETS[name].backfill.kind is Backfill.CONSERVATIVE
    count = 100 if many else 300

    assert [passed_over(name, seed, count, 30) for seed in (8, 9)] == ["", ""]
