"""The log is the trail of all decisions: why a job was placed or not can be told of any moment."""

import random

from rota.scheduling.answers.explain import explain
from rota.scheduling.answers.explain_past import explain_at
from rota.testing.scene import ALICE, BOB, Scene


def test_what_was_said_at_each_moment_is_said_again_from_the_log():
    scene = Scene(cpus=8, gpus=4)
    pick = random.Random(7)
    said: list[tuple[float, int, str]] = []
    for number in range(40):
        running = sorted(scene.cluster.census.by_state["running"])
        if running and pick.random() < 0.4:
            scene.finish(pick.choice(running))
        else:
            scene.submit(
                f"job{number}",
                cpus=pick.randint(1, 6),
                gpus=pick.choice([0, 1, 3]),
                time_limit_s=pick.choice([600, 7200]),
                hold=pick.random() < 0.1,
                actor=pick.choice([ALICE, BOB]),
            )
        scene.now_s += 1
        for job in [*scene.cluster.jobs]:
            told = explain(scene.controller.scheduler, job, scene.now_s - 0.5)
            said.append((scene.now_s - 0.5, job, told.reason))

    log = list(scene.store.all_events())
    for at_s, job, reason in pick.sample(said, 60):
        _, told = explain_at(log, job, at_s)
        assert told is not None
        assert told.reason == reason


def test_before_it_was_submitted_there_is_nothing_to_tell():
    scene = Scene()
    before_s = scene.now_s
    scene.now_s += 10
    job = scene.submit("job")

    assert explain_at(scene.store.all_events(), job, before_s) == (None, None)
