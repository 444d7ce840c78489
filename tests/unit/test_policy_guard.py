"""When a change of the rules is undone: jobs of a project wait longer than was foretold."""

import pytest

from rota.controller.chores.policy_guard import Guard, breach_of
from rota.sim.trial import JobWaits, foretold_most_s
from rota.testing.scene import Scene

HOUR_S = 3600


def guard(since_s: float, **most_s: float) -> Guard:
    return Guard(
        name="sjf",
        since_s=since_s,
        until_s=since_s + 7 * 86400,
        rules={},
        undo={},
        most_s=most_s,
        others_s=HOUR_S,
    )


def waiting(count: int, project: str = "vision") -> Scene:
    """A box whose one CPU is taken, and jobs that wait for it."""
    scene = Scene(cpus=1)
    scene.submit("hog", cpus=1, project="other")
    for number in range(count):
        scene.submit(f"job{number}", cpus=1, project=project)
    return scene


@pytest.mark.parametrize(("waited_s", "is_breach"), [(1799, False), (1801, True)])
def test_a_project_may_wait_as_long_as_was_foretold_and_no_longer(waited_s, is_breach):
    scene = waiting(10)
    since_s = scene.now_s - 1
    watched = guard(since_s, vision=1800)

    found = breach_of(watched, scene.cluster.jobs.values(), scene.now_s + waited_s)

    assert (found is not None) is is_breach
    if found:
        assert str(found).startswith("10 jobs of project vision waited 30m1s on average")


def test_few_jobs_say_nothing():
    scene = waiting(9)

    assert breach_of(guard(0.0, vision=60), scene.cluster.jobs.values(), scene.now_s + 1e6) is None


def test_jobs_from_before_the_change_do_not_count():
    scene = waiting(20)

    later = guard(scene.now_s + 1, vision=60)

    assert breach_of(later, scene.cluster.jobs.values(), scene.now_s + 1e6) is None


def test_a_project_that_the_replay_did_not_have_goes_by_all_jobs():
    scene = waiting(10, "new")
    jobs = scene.cluster.jobs.values()

    assert breach_of(guard(0.0), jobs, scene.now_s + HOUR_S - 1) is None
    assert breach_of(guard(0.0), jobs, scene.now_s + HOUR_S + 1) is not None


def test_waits_of_seconds_undo_nothing():
    scene = waiting(10)

    found = breach_of(guard(0.0, vision=0.5), scene.cluster.jobs.values(), scene.now_s + 59)

    assert found is None


def waits(days: int, before_s: float, after_s: float) -> list[JobWaits]:
    return [JobWaits("ann", "vision", before_s, after_s, day) for day in range(days)]


def test_what_is_foretold_is_never_less_than_jobs_wait_now():
    assert foretold_most_s(waits(9, 100.0, 10.0)) == {"": 100.0, "vision": 100.0}


def test_few_days_leave_twice_the_mean():
    assert foretold_most_s(waits(3, 10.0, 100.0))["vision"] == 200.0


def test_days_that_differ_leave_more_room_than_days_that_are_alike():
    alike = waits(10, 10.0, 100.0)
    mixed = [JobWaits("ann", "vision", 10.0, 10.0 if day % 2 else 190.0, day) for day in range(10)]

    assert foretold_most_s(alike)["vision"] == pytest.approx(100.0)
    assert 130.0 < foretold_most_s(mixed)["vision"] < 190.0
