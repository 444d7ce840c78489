"""Foretold starts on logs that no constant was chosen on, made up from a seed."""

import pytest

from bench.foresight import again, foresight_of
from bench.foresight_logs import invented
from rota.scheduling.answers.bands import SHARES, Tuning
from rota.sim.foresight import Foresight

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def foretold() -> dict[str, Foresight]:
    return {trace.name: foresight_of(trace, "default", 3) for trace in invented(seed=7, count=2500)}


def test_the_same_seed_makes_the_same_logs():
    first, again_made, other = (invented(seed, 200) for seed in (1, 1, 2))

    assert [trace.jobs for trace in first] == [trace.jobs for trace in again_made]
    assert [trace.jobs for trace in first] != [trace.jobs for trace in other]


@pytest.mark.parametrize("name", ["overestimated", "no-limits"])
def test_bands_hold_their_shares_on_logs_that_nobody_has_seen(foretold, name: str):
    assert foretold[name].coverage == pytest.approx(SHARES, abs=0.03)
    assert foretold[name].in_time == pytest.approx(0.9, abs=0.03)


def test_bands_hold_most_of_their_shares_where_jobs_come_in_bursts(foretold):
    """Jobs of a burst err together: some dozens of bursts say less than thousands of jobs."""
    assert foretold["arrays"].coverage == pytest.approx(SHARES, abs=0.12)


@pytest.mark.parametrize("name", ["overestimated", "arrays", "no-limits"])
def test_expected_starts_are_nearer_than_a_plan_by_limits(foretold, name: str):
    assert foretold[name].error_s < 0.7 * foretold[name].limits_error_s


def test_the_same_words_come_out_when_plans_are_gone_through_again(foretold):
    told = foretold["no-limits"].told

    assert [word for word, _ in again(told, Tuning())] == [each.word for each in told]
