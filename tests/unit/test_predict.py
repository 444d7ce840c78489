"""Run-time prediction: what it says about a job, how it learns, and when it is not trusted."""

import random
from math import ceil, exp, log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.scheduling.later.predict import Prediction, Predictor, rounded_s
from rota.scheduling.later.predict_runs import KINDS, RECENT, RunHistory, Runs, kinds_of


def played(predictor: Predictor, runs: list[float], limit_s: float = 0.0) -> list[Prediction]:
    """One user's jobs one after the other: predicted, run, learned."""
    made = []
    for run_s in runs:
        prediction = predictor.predict("ann", "train", 4, limit_s)
        predictor.learn("ann", "train", 4, limit_s, run_s, prediction)
        made.append(prediction)
    return made


def test_a_job_of_which_nothing_is_known_is_taken_to_run_to_its_limit():
    made = Predictor().predict("ann", "train", 4, 7200.0)

    assert (made.estimate_s, made.stay_s, made.bound_s) == (7200.0, 7200.0, 7200.0)


def test_a_job_without_limit_and_history_is_taken_to_run_as_long_as_assumed():
    made = Predictor(assumed_s=900.0).predict("ann", "train", 4, 0.0)

    assert (made.estimate_s, made.bound_s) == (900.0, 900.0)


def test_a_job_is_taken_to_run_about_as_long_as_the_same_user_s_last_ones():
    predictor = Predictor()
    played(predictor, [600.0] * 20, limit_s=7200.0)

    made = predictor.predict("ann", "train", 4, 7200.0)

    assert made.likely_s == 600.0
    assert made.estimate_s <= 600.0
    assert made.bound_s < 700.0


def test_the_estimate_of_a_job_that_waits_leaves_out_a_fifth_of_the_work_of_a_typical_job():
    predictor = Predictor()
    for run_s in (100.0, 400.0, 900.0, 400.0):
        predictor.learn("ann", "train", 4, 7200.0, run_s)

    made = predictor.predict("ann", "train", 4, 7200.0)

    # The mean of the roots of 100, 400, 900 and 400 is 20: a typical job runs for 400 seconds.
    assert made.likely_s - made.estimate_s == pytest.approx(0.2 * 400.0)


def test_a_running_job_is_taken_to_stay_until_its_limit_however_short_the_last_ones_were():
    predictor = Predictor()
    played(predictor, [600.0] * 20, limit_s=7200.0)

    assert predictor.predict("ann", "train", 4, 7200.0).stay_s == 7200.0


def test_a_user_s_new_shape_is_measured_by_his_other_jobs_as_a_part_of_the_limit():
    predictor = Predictor()
    played(predictor, [600.0] * 20, limit_s=6000.0)

    made = predictor.predict("ann", "train", 16, 1000.0)

    assert abs(made.likely_s - 100.0) < 1e-6


def test_the_bound_holds_for_nine_of_ten_jobs_that_are_like_each_other():
    chance = random.Random(5)
    predictor = Predictor()

    played(predictor, [chance.lognormvariate(6.0, 1.5) for _ in range(4000)])

    assert 0.88 <= predictor.coverage <= 0.92


def test_the_bound_comes_back_to_nine_of_ten_when_jobs_keep_growing():
    chance = random.Random(6)
    predictor = Predictor()

    played(predictor, [chance.lognormvariate(3.0 + at / 1000, 1.0) for at in range(4000)])

    assert 0.88 <= predictor.coverage <= 0.92


def test_the_limit_stands_in_for_a_bound_that_fails_and_goes_when_it_holds_again():
    predictor = Predictor()
    played(predictor, [10.0] * 200, limit_s=36_000.0)
    before = predictor.predict("ann", "train", 4, 36_000.0)

    # Many came at once: their runs are learned long after they were predicted.
    for _ in range(100):
        predictor.learn("ann", "train", 4, 36_000.0, 20_000.0, before)
    drifted = predictor.predict("ann", "train", 4, 36_000.0)
    was_trusted = predictor.trusted
    played(predictor, [10.0] * 600, limit_s=36_000.0)

    assert before.bound_s < 100.0
    assert (was_trusted, drifted.bound_s) == (False, 36_000.0)
    assert predictor.trusted
    assert predictor.predict("ann", "train", 4, 36_000.0).bound_s < 36_000.0


def test_a_run_that_was_never_predicted_teaches_but_is_not_judged():
    predictor = Predictor()

    for _ in range(20):
        predictor.learn("ann", "train", 4, 3600.0, 60.0)

    assert predictor.judged == 0
    assert predictor.predict("ann", "train", 4, 3600.0).likely_s == 60.0


def test_a_kind_keeps_its_recent_runs_only():
    runs = Runs()

    for part in range(RECENT + 10):
        runs.add(float(part))

    assert len(runs) == RECENT
    assert runs.quantile(0.0001) == 10.0


def test_kinds_that_were_used_longest_ago_are_forgotten():
    history = RunHistory()
    first = kinds_of("first", "", 1, 60.0)
    history.add(first[:1], 0.5)

    for number in range(KINDS):
        history.add(kinds_of(f"user{number}", "", 1, 60.0)[:1], 0.5)

    assert history.find(first[:1], 1) == (None, 0)


JOBS = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob", ""]),
        st.sampled_from(["train", ""]),
        st.integers(1, 64),
        st.sampled_from([0.0, 0.5, 60.0, 3600.0]),
        st.floats(0.0, 1e6),
    ),
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(jobs=JOBS)
def test_no_prediction_is_above_the_limit_and_equal_inputs_give_equal_answers(jobs):
    one, other = Predictor(), Predictor()

    for user, name, procs, limit_s, run_s in jobs:
        made = one.predict(user, name, procs, limit_s)
        assert made == other.predict(user, name, procs, limit_s)
        assert 0.0 <= made.estimate_s <= made.bound_s
        assert not limit_s or max(made.bound_s, made.stay_s, made.likely_s) <= limit_s
        one.learn(user, name, procs, limit_s, run_s, made)
        other.learn(user, name, procs, limit_s, run_s, made)


def test_two_runs_are_enough_for_an_estimate_and_nine_for_a_bound():
    made = played(Predictor(), [100.0] * 10, limit_s=1000.0)

    assert [one.likely_s for one in made[:3]] == [1000.0, 1000.0, 100.0]
    assert [one.learned_s for one in made[7:9]] == [1000.0, 1000.0]
    assert made[9].learned_s < 1000.0


def a_prediction(bound_s: float = 100.0) -> Prediction:
    return Prediction(bound_s, bound_s, bound_s, bound_s, bound_s, 1)


@pytest.mark.parametrize(
    ("run_s", "factor"), [(100.0, exp(-0.003)), (100.1, exp(0.027))], ids=["held", "missed"]
)
def test_a_bound_that_held_narrows_the_next_a_little_and_one_that_was_missed_widens_it(
    run_s, factor
):
    corrected, plain = Predictor(), Predictor()
    for predictor in (corrected, plain):
        for _ in range(20):
            predictor.learn("ann", "train", 4, 0.0, 50.0)

    corrected.learn("ann", "train", 4, 0.0, run_s, a_prediction())
    plain.learn("ann", "train", 4, 0.0, run_s)

    before, after = (one.predict("ann", "train", 4, 0.0).learned_s for one in (plain, corrected))
    assert after / before == pytest.approx(factor)
    assert (corrected.judged, corrected.covered) == (1, int(run_s == 100.0))


@pytest.mark.parametrize(("run_s", "width"), [(1e6, 20.0), (0.0, 1 / 20)])
def test_bounds_are_corrected_up_to_twenty_times_and_no_further(run_s, width):
    predictor = Predictor()
    for _ in range(1_500):
        predictor.learn("bob", "other", 1, 0.0, run_s, a_prediction())
    for _ in range(64):
        predictor.learn("ann", "train", 1, 0.0, 1000.0)

    made = predictor.predict("ann", "train", 1, 0.0)

    assert max(made.learned_s, made.bound_s) == pytest.approx(max(1000.0 * width, made.estimate_s))


def test_trust_is_lost_below_three_of_four_of_late_and_comes_back_at_seventeen_of_twenty():
    predictor, lost, back = Predictor(), 0, 0

    while predictor.trusted:
        predictor.learn("ann", "train", 1, 0.0, 200.0, a_prediction())
        lost += 1
    while not predictor.trusted:
        predictor.learn("ann", "train", 1, 0.0, 50.0, a_prediction())
        back += 1

    # Two hundred jobs are "of late": 0.9 falls by a two hundredth of itself with each miss.
    assert lost == ceil(log(0.75 / 0.9) / log(1 - 1 / 200))
    late = 0.9 * (1 - 1 / 200) ** lost
    assert back == ceil(log(0.15 / (1 - late)) / log(1 - 1 / 200))


def test_without_a_limit_a_bound_that_is_not_trusted_is_the_longest_run():
    predictor = Predictor()
    for run_s in (*[10.0] * 30, 500.0):
        predictor.learn("ann", "train", 1, 0.0, run_s)
    trusted = predictor.predict("ann", "train", 1, 0.0)

    predictor.trusted = False
    made = predictor.predict("ann", "train", 1, 0.0)

    assert (trusted.bound_s, trusted.stay_s) == (10.0, 10.0)
    assert (made.bound_s, made.stay_s, made.learned_s) == (500.0, 500.0, 10.0)


@pytest.mark.parametrize(
    ("user", "name", "procs", "breadth"),
    [("ann", "train", 4, 1), ("ann", "train", 8, 2), ("ann", "test", 4, 3), ("bob", "test", 4, 4),
     ("ann", "", 4, 3), ("bob", "", 4, 4)],
)  # fmt: skip
def test_the_narrowest_kind_with_enough_runs_is_the_one_that_speaks(user, name, procs, breadth):
    predictor = Predictor()
    played(predictor, [600.0] * 20, limit_s=7200.0)

    assert predictor.predict(user, name, procs, 7200.0).breadth == breadth


@given(seconds=st.floats(0.0, 1e7))
def test_estimates_are_rounded_up_by_less_than_a_quarter(seconds):
    steps = rounded_s(seconds)

    assert max(seconds, 1.0) <= steps < max(seconds, 1.0) * 1.25 + 1.0
    assert rounded_s(steps) <= steps * 1.25 + 1.0


def test_estimates_within_one_step_are_one():
    assert [rounded_s(seconds) for seconds in (0.5, 1.0, 1.2, 1.3, 590.0, 700.0, 720.0)] == [
        1, 1, 2, 2, 647, 808, 808,
    ]  # fmt: skip


class TestMiddle:
    """How long a job that runs will have run in all, as answers count with it."""

    def test_of_an_unknown_job_is_its_limit_or_what_is_assumed_or_twice_what_it_ran(self):
        predictor, kinds = Predictor(assumed_s=900.0), kinds_of("ann", "train", 4, 0.0)

        assert predictor.middle_s(kinds, 7200.0) == 7200.0
        assert predictor.middle_s(kinds, 0.0) == 900.0
        assert predictor.middle_s(kinds, 0.0, ran_s=700.0) == 1400.0

    def test_is_that_of_the_runs_that_lasted_as_long_already(self):
        predictor = Predictor()
        played(predictor, [100.0, 200.0, 300.0, 400.0, 500.0])
        kinds = kinds_of("ann", "train", 4, 0.0)

        middles = [predictor.middle_s(kinds, 0.0, ran_s) for ran_s in (0.0, 250.0, 450.0, 600.0)]

        assert middles == [300.0, 400.0, 500.0, 1200.0]

    def test_is_never_beyond_the_limit(self):
        predictor = Predictor()
        played(predictor, [100.0] * 5, limit_s=150.0)

        assert predictor.middle_s(kinds_of("ann", "train", 4, 150.0), 150.0, ran_s=120.0) == 150.0
