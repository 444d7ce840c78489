"""Predictions on a live system: told at submit, planned with, kept in the record."""

import pytest

from rota.controller.tick.forecast import REMEMBERED, TELLING, Forecast
from rota.core.changes.events import JobSubmitted
from rota.core.facts.errors import Rejected
from rota.scheduling.later.predict import rounded_s
from rota.store.api import JobFilter
from rota.testing.scene import Scene


def with_history(**rules: object) -> Scene:
    """Four CPUs, and twelve jobs called short that took a minute of the hour they asked for."""
    scene = Scene(cpus=4)
    scene.set_policy("easy", **rules)
    for _ in range(12):
        job = scene.submit("short", cpus=1, time_limit_s=3600)
        scene.pass_time(60)
        scene.finish(job)
    return scene


def full_house(scene: Scene) -> None:
    """Three CPUs are taken for ten minutes, and one who needs all four waits."""
    scene.submit("runs", cpus=3, time_limit_s=600)
    scene.submit("waits", cpus=4, time_limit_s=600)
    scene.submit("short", cpus=1, time_limit_s=3600)


def test_a_job_that_is_predicted_to_be_gone_in_time_passes_one_that_waits():
    scene = with_history(backfill_estimates="predicted")

    full_house(scene)

    assert scene.states("waits", "short") == ["queued", "running"]


def test_with_the_users_estimates_the_same_job_waits():
    scene = with_history()

    full_house(scene)

    assert scene.states("waits", "short") == ["queued", "queued"]


def test_what_was_predicted_stands_in_the_record_of_the_submit():
    scene = with_history(backfill_estimates="predicted")

    job = scene.submit("short", cpus=1, time_limit_s=3600)

    told = [e.spec for e in scene.log if isinstance(e, JobSubmitted) and e.job == job]
    assert [0 < spec.predicted_s <= spec.predicted_most_s + 20 for spec in told] == [True]
    assert told[0].predicted_most_s < 120


def test_a_job_that_outlives_its_prediction_is_not_stopped():
    scene = with_history(backfill_estimates="predicted")
    job = scene.submit("short", cpus=1, time_limit_s=3600)

    scene.pass_time(1800)

    assert scene.state(job) == "running"


def test_a_job_of_which_too_little_is_known_is_told_nothing():
    scene = Scene(cpus=4)
    scene.set_policy("easy", backfill_estimates="predicted")

    job = scene.submit("new", cpus=1, time_limit_s=3600)

    assert scene.cluster.jobs[job].spec.predicted_s == 0


def test_a_restart_learns_the_runs_again_and_begins_to_correct_its_bounds_anew():
    scene = with_history(backfill_estimates="predicted")
    spec = scene.submission("short", cpus=1, time_limit_s=3600).spec
    again = Forecast()

    again.remember(scene.store.list_jobs(JobFilter(states=TELLING), limit=REMEMBERED))

    told = again.tell(0, spec, scene.cluster.policy)
    before = scene.controller.forecast.tell(0, spec, scene.cluster.policy)
    assert told.predicted_s == before.predicted_s > 0
    # How far bounds were corrected is not on record: it begins anew, from the runs themselves.
    assert told.predicted_most_s == 60
    assert again.predictor.judged == 0


def test_an_unknown_source_of_estimates_is_refused_with_those_that_exist():
    scene = Scene(cpus=1)

    with pytest.raises(Rejected, match=r"backfill.estimates.*guess.*user, predicted"):
        scene.set_policy(backfill_estimates="guess")


@pytest.mark.parametrize(("seconds", "step"), [(0.0, 1), (1.0, 1), (100.0, 109), (3600.0, 3900)])
def test_estimates_are_rounded_up_to_steps_of_a_quarter(seconds, step):
    assert seconds <= rounded_s(seconds) <= max(step, 1.26 * seconds + 1)


def test_what_a_user_says_beside_the_limit_wins_over_what_was_learned():
    scene = with_history(backfill_estimates="predicted")

    said = scene.submit("short", cpus=1, time_limit_s=3600, estimate_s=3000)
    silent = scene.submit("short", cpus=1, time_limit_s=3600)

    specs = [scene.cluster.jobs[job].spec for job in (said, silent)]
    assert [spec.predicted_s > 0 for spec in specs] == [False, True]


@pytest.mark.parametrize(("runs", "state"), [(0, "queued"), (12, "running")])
def test_learned_run_times_stand_in_for_what_is_assumed_of_jobs_that_name_nothing(runs, state):
    scene = Scene(cpus=4)
    for _ in range(runs):
        job = scene.submit("short", cpus=1)
        scene.pass_time(60)
        scene.finish(job)

    scene.submit("runs", cpus=3, time_limit_s=600)
    scene.submit("waits", cpus=4, time_limit_s=600)
    scene.submit("short", cpus=1)

    # An hour is assumed; a minute is known.
    assert scene.states("waits", "short") == ["queued", state]
