"""A run that outlives what it was taken to last moves promises, and a pass is called for then."""

import pytest
from msgspec.structs import replace

from rota.core.facts.policy import DEFAULT, Estimates
from rota.core.words.presets import PRESETS
from rota.testing.stage import Stage, node, spec

EASY = PRESETS["easy"]
PREDICTED = replace(EASY, backfill=replace(EASY.backfill, estimates=Estimates.PREDICTED))
BY_PREDICTION = pytest.mark.parametrize("policy", [DEFAULT, PREDICTED], ids=["default", "easy"])
LONG_S = 1000.0


def told(run_s: int, **wishes):
    """A job without a limit, and how long such jobs took before."""
    return spec(predicted_s=run_s, predicted_most_s=run_s, **wishes)


@BY_PREDICTION
def test_a_run_that_outlives_its_prediction_lets_a_job_start_that_the_promise_kept_out(policy):
    stage = Stage([node("n0", cpus=4)], policy)
    stage.submit_later(0.0, told(120, cpus=1), LONG_S)
    stage.submit_later(20.0, told(80, cpus=1), LONG_S)
    # Promised to start at 120; from 100 on, when the second is still there, at 180.
    stage.submit_later(30.0, told(1, cpus=4), 1.0)
    stage.submit_later(50.0, told(75, cpus=1, priority=1), 75.0)

    stage.play()

    assert stage.started_s[4] == stage.begin_s + 100.0


@BY_PREDICTION
def test_a_wake_up_that_comes_to_nothing_does_not_hide_the_next_one(policy):
    stage = Stage([node("n0", cpus=4), node("n1", cpus=4)], policy)
    # At 100 nothing happens any more: the first is over before, and a wide one took its node.
    stage.submit_later(0.0, told(100, cpus=3), 50.0)
    stage.submit_later(0.0, told(200, cpus=3), LONG_S)
    stage.submit_later(1.0, told(500, cpus=4), LONG_S)
    stage.submit_later(60.0, told(1, cpus=4), 1.0)
    stage.submit_later(61.0, told(150, cpus=1, priority=1), 150.0)

    stage.play()

    assert stage.started_s[3] == stage.begin_s + 50.0
    assert stage.started_s[5] == stage.begin_s + 200.0


def test_behind_a_run_of_another_kind_than_before_a_short_job_waits_only_until_that_shows():
    stage = Stage([node("n0", cpus=4)], DEFAULT)
    # Jobs of its user took a second so far; this one trains for a night.
    stage.submit_later(0.0, told(1, cpus=2), 50_000.0)
    stage.submit_later(0.1, told(1, cpus=4), 1.0)
    stage.submit_later(0.2, spec(cpus=1, time_limit_s=600), 10.0)

    stage.play()

    assert stage.started_s[3] == stage.begin_s + 1.0
    assert stage.started_s[2] == stage.begin_s + 50_000.0


def test_jobs_of_one_user_that_say_nothing_start_in_the_order_of_their_submits():
    stage = Stage([node("n0", cpus=4)], DEFAULT)
    for number in range(12):
        stage.submit_later(float(number), spec(cpus=4), 100.0)

    stage.play()

    assert sorted(stage.started_s, key=stage.started_s.__getitem__) == [*range(1, 13)]
