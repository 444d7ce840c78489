"""What would have been said at submit: only by what was known then, and judged by what came."""

import pytest

from rota.core.words.presets import PRESETS
from rota.sim.foresight import foresee
from rota.sim.settings import SimSettings
from tests.sim.runs import job, played


def two_behind_one():
    """One job holds all for 100 s and says 300; two wait behind it."""
    jobs = [
        job(1, 0, 100, 4, estimate_s=300, user="ann"),
        job(2, 10, 50, 4, estimate_s=100, user="ann"),
        job(3, 20, 50, 4, estimate_s=100, user="ann"),
    ]
    return played(jobs, [0, 100, 150])


def test_only_jobs_that_wait_are_asked_about():
    found = foresee(two_behind_one(), PRESETS["easy"], SimSettings())

    assert [(each.job, each.said_s, each.waited_s) for each in found.told] == [
        (2, 10, 90),
        (3, 20, 130),
    ]


def test_the_plan_by_limits_takes_every_job_to_last_as_long_as_its_user_said():
    found = foresee(two_behind_one(), PRESETS["easy"], SimSettings())

    assert [each.limits_s for each in found.told] == [290, 380]


def test_nothing_is_learned_before_it_has_happened():
    """The first runs end after the last submit: no word may differ from the plan by limits."""
    found = foresee(two_behind_one(), PRESETS["easy"], SimSettings())

    assert [each.word.planned_s for each in found.told] == [290, 380]


def test_runs_that_have_ended_shorten_the_next_plan():
    past = [job(at, at * 1000, 100, 4, estimate_s=400, user="ann") for at in range(1, 9)]
    last = [
        job(9, 9000, 100, 4, estimate_s=400, user="ann"),
        job(10, 9001, 9, 4, estimate_s=9, user="ann"),
    ]
    run = played([*past, *last], [*(each.submit_s for each in past), 9000, 9100])

    found = foresee(run, PRESETS["easy"], SimSettings())

    (told,) = found.told
    assert told.limits_s == pytest.approx(399)
    assert told.word.planned_s == pytest.approx(99)
    assert found.error_s < found.limits_error_s


def test_every_nth_job_that_waits_is_asked_about():
    jobs = [job(at, at, 10, 4, estimate_s=10) for at in range(1, 42)]
    run = played(jobs, [1 + 10 * at for at in range(41)])

    found = foresee(run, PRESETS["easy"], SimSettings(), every=4)

    assert found.waited == 40
    assert [each.job for each in found.told] == [*range(5, 42, 4)]


def test_the_order_of_the_line_is_the_one_of_the_policy():
    """Under the shortest first a long job is told to wait for the short one behind it."""
    jobs = [
        job(1, 0, 100, 4, estimate_s=100),
        job(2, 10, 80, 4, estimate_s=80),
        job(3, 20, 10, 4, estimate_s=10),
        job(4, 30, 90, 4, estimate_s=90),
    ]
    run = played(jobs, [0, 110, 100, 190], estimate_s=[100, 80, 10, 90])

    told = {each.job: each.limits_s for each in foresee(run, PRESETS["sjf"], SimSettings()).told}

    assert told == {2: 90, 3: 80, 4: 160}
