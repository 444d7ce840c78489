"""When running jobs are worth less: found at once for all amounts, and said for one by one here."""

from math import inf, log2

from hypothesis import given
from hypothesis import strategies as st

from rota.scheduling.evict.worth import HALVED, Fading, Length

RUNS = st.sampled_from([1.0, 2.0, 30.0, 60.0, 61.5, 3600.0])
AGES = st.sampled_from([0.5, 1.0, 30.0, 60.0, 120.0, 5000.0])
#: A limit as a multiple of the run time.
LIMITS = st.sampled_from([1.0, 1.5, 2.0, 8.0, 100.0, inf])
NOW_S = 1e6
#: So often a run is taken to last twice as long before its last limit here.
DOUBLED = 30


def worth(run_s: float) -> float:
    return -HALVED * log2(run_s) if run_s < inf else -inf


def drops(job: Length) -> list[tuple[float, float, float]]:
    """What it is worth before and after each of its doublings, and when they are."""
    found: list[tuple[float, float, float]] = []
    for times in range(DOUBLED):
        run_s = job.run_s * 2.0**times
        if run_s < job.limit_s:
            after = worth(min(2.0 * run_s, job.limit_s))
            found.append((worth(run_s), after, job.started_s + run_s))
    return found


@given(st.lists(st.tuples(RUNS, AGES, LIMITS), max_size=6), st.integers(-2500, 0))
def test_the_first_job_that_drops_to_an_amount_is_found_for_every_amount(jobs, amount):
    running = [Length(NOW_S - age_s, run_s, run_s * limit) for run_s, age_s, limit in jobs]
    moments = [
        at_s
        for job in running
        for before, after, at_s in drops(job)
        if before > amount >= after and at_s > NOW_S
    ]

    assert Fading(running, NOW_S).below_s(amount) == min(moments, default=inf)


def test_a_job_at_its_limit_is_worth_the_same_for_good():
    assert Fading([Length(NOW_S - 10.0, 60.0, 60.0)], NOW_S).below_s(worth(120.0)) == inf


def test_a_drop_that_is_over_does_not_come_again():
    late = Length(NOW_S - 61.0, 60.0, 120.0)

    assert Fading([late], NOW_S).below_s(worth(120.0)) == inf
    assert Fading([late._replace(started_s=NOW_S)], NOW_S).below_s(worth(120.0)) == NOW_S + 60.0
