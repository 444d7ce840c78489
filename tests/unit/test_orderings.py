"""The shipped orderings: their formulas, who passes whom, and how a priority is made up."""

import itertools
from math import inf, log2, log10

import pytest

from rota.core.derived.lanes import LaneKey, Shape
from rota.core.facts.placing import ANYWHERE
from rota.core.facts.policy import DEFAULT, Policy
from rota.core.facts.resources import Amount
from rota.core.words.units import BANDS
from rota.scheduling.api import Entry, View
from rota.scheduling.order.orderings import (
    ORDERINGS,
    aged,
    boosted,
    effective_priority,
    limit_bonus,
    order_key,
    procs,
    terms,
    waited_s,
)
from tests.unit.books import Books, make_spec, policy_with

HOUR_S = 3600.0
NOW_S = 1_770_000_000.0


class FixedShares:
    """Shares as a test wants them."""

    def __init__(self, **ratios: float) -> None:
        self.ratios = ratios

    def ratio(self, user: str, project: str) -> float:
        return self.ratios.get(user, 0.0)

    def version(self, user: str, project: str) -> int:
        return 0

    def worst(self, user: str, project: str) -> float:
        return self.ratio(user, project)


def view(policy: Policy = DEFAULT, now_s: float = NOW_S, **ratios: float) -> View:
    return View(now_s, policy, FixedShares(**ratios), Amount())


def entry(job: int = 1, *, waited_s: float = 0.0, run_s: float = 3600.0, **wishes) -> Entry:
    spec = make_spec(**({"user": "alice"} | wishes))
    shape = Shape(spec.roles, ANYWHERE, spec.service)
    key = LaneKey(
        1,
        spec.queue,
        spec.group,
        0,
        spec.user,
        spec.project,
        spec.priority,
        spec.time_limit_s,
        spec.estimate_s,
        spec.deadline_s,
        spec.type,
    )
    return Entry(job, key, shape, NOW_S - waited_s, NOW_S - waited_s, run_s)


def in_order(entries: list[Entry], seen: View, primary="priority", secondary="fairshare"):
    rules = ORDERINGS[primary], ORDERINGS[secondary]
    return [e.job for e in sorted(entries, key=lambda e: order_key(e, seen, *rules, 50))]


def test_every_ordering_is_known_by_its_name():
    assert {name: rule.name for name, rule in ORDERINGS.items()} == {n: n for n in ORDERINGS}
    assert {"fifo", "priority", "fairshare", "multifactor", "sjf", "saf", "wfp3"} < set(ORDERINGS)
    assert {"unicef", "f1", "deadline", "laxity", "limit-bonus"} < set(ORDERINGS)


@pytest.mark.parametrize(
    ("limit_s", "bonus"),
    [(0, 100.0), (1, 300 - 100 / 86400), (43200, 250.0), (86400, 200.0), (10**6, 200.0)],
)
def test_the_bonus_for_a_time_limit_is_the_higher_the_shorter_it_is(limit_s, bonus):
    assert limit_bonus(limit_s) == pytest.approx(bonus)


def test_ready_jobs_come_by_priority_then_fair_share_then_time_bonus_then_id():
    entries = [
        entry(1, user="heavy", time_limit_s=60),
        entry(2, user="light"),
        entry(3, user="light", time_limit_s=7200),
        entry(4, user="light", time_limit_s=3600),
        entry(5, user="light", time_limit_s=3600),
        entry(6, user="heavy", priority=75),
    ]

    assert in_order(entries, view(heavy=2.0, light=0.5)) == [6, 4, 5, 3, 2, 1]


def test_a_queue_of_higher_priority_comes_before_any_priority_of_a_job():
    rules = ORDERINGS["priority"], ORDERINGS["fairshare"]

    low_job = order_key(entry(2, priority=0), view(), *rules, 60)
    high_job = order_key(entry(1, priority=100), view(), *rules, 50)

    assert low_job < high_job


def test_fifo_is_the_order_of_submission_whatever_else_jobs_say():
    entries = [
        entry(3, priority=100, time_limit_s=60, waited_s=10),
        entry(1, priority=0, user="heavy", waited_s=99999),
        entry(2, deadline_s=NOW_S + 1, waited_s=50),
    ]

    assert in_order(entries, view(heavy=9.0), "fifo") == [1, 2, 3]


def test_fifo_breaks_ties_of_priority_where_it_is_the_second_rule():
    entries = [entry(2, time_limit_s=60), entry(1, user="heavy"), entry(3, priority=60)]

    assert in_order(entries, view(heavy=9.0), "priority", "fifo") == [3, 1, 2]


def test_among_all_hundred_and_one_priorities_the_higher_is_always_earlier():
    entries = [entry(1 + p, priority=p) for p in range(101)]

    assert in_order(entries, view()) == list(range(101, 0, -1))


def test_named_bands_are_ordered_and_keep_low_normal_and_high_where_they_were():
    named = ["critical", "urgent", "high", "normal", "low", "batch", "scavenger"]
    entries = [entry(1 + n, priority=BANDS[name]) for n, name in enumerate(reversed(named))]

    assert (BANDS["low"], BANDS["normal"], BANDS["high"]) == (25, 50, 75)
    assert in_order(entries, view()) == [7, 6, 5, 4, 3, 2, 1]
    assert boosted(BANDS["critical"], DEFAULT.order) == 1000
    assert boosted(BANDS["scavenger"], DEFAULT.order) == 0


@pytest.mark.parametrize(
    ("priority", "effective"),
    # Low is halved, normal stays, high comes half-way nearer to the top.
    [(0, 0), (25, 125), (33, 165), (34, 340), (50, 500), (66, 660), (67, 835), (75, 875)],
)
def test_the_boost_of_a_band_is_part_of_the_priority(priority, effective):
    assert boosted(priority, DEFAULT.order) == effective
    assert -ORDERINGS["priority"].key(entry(priority=priority), view()) == effective


def test_boosts_are_settings():
    rules = policy_with(order={"boost_low": 1.0, "boost_high": 1.0}).order

    assert [boosted(p, rules) for p in (0, 20, 40, 60, 80, 100)] == [0, 200, 400, 600, 800, 1000]


def test_a_job_that_waited_an_hour_has_a_tenth_more_priority():
    rule = ORDERINGS["priority"]

    waits = [3599.0, 3600.0, 7199.0, 7200.0]
    keys = [-rule.key(entry(waited_s=wait), view()) for wait in waits]

    assert keys == pytest.approx([500, 550, 550, 605])


def test_ageing_never_passes_the_maximum_however_long_it_lasts():
    keys = [-ORDERINGS["priority"].key(entry(waited_s=w), view()) for w in (25000.0, 1e6, 1e12)]

    assert keys[0] < 1000
    assert keys[1:] == [1000, 1000]
    assert aged(0.0, 1e12, DEFAULT.order) == 0


def test_waiting_for_a_parent_or_a_begin_time_is_no_waiting_that_ages():
    books = Books()
    job = books.wait()
    late = books.entry(job)._replace(submitted_s=NOW_S - 10**6, eligible_s=NOW_S)

    assert -ORDERINGS["priority"].key(late, view()) == 500
    assert -ORDERINGS["priority"].key(late._replace(eligible_s=0.0), view()) == 500


def test_terms_are_named_and_add_up_to_the_effective_priority():
    policy = policy_with(order={"primary": "multifactor", "limit_bonus_weight": 0.5})
    job, seen = entry(priority=75, waited_s=3600.0, time_limit_s=43200), view(policy, alice=1.0)

    parts = terms(job, seen)

    assert parts == pytest.approx(
        {"base": 750, "boost": 125, "age": 87.5, "limit bonus": 125, "share": 250}
    )
    assert effective_priority(job, seen) == pytest.approx(sum(parts.values()))
    assert -ORDERINGS["multifactor"].key(job, seen) == pytest.approx(sum(parts.values()))


def test_without_the_rule_multifactor_fair_share_is_no_term():
    job, seen = entry(priority=40), view(alice=5.0)

    assert terms(job, seen) == {"base": 400, "boost": 0, "age": 0}
    assert effective_priority(job, seen) == -ORDERINGS["priority"].key(job, seen) == 400


def test_in_the_sum_a_light_user_passes_a_slightly_higher_priority_of_a_heavy_one():
    policy = policy_with(order={"primary": "multifactor"})
    entries = [entry(1, user="heavy", priority=60), entry(2, user="light", priority=50)]

    assert in_order(entries, view(policy, heavy=4.0, light=0.0), "multifactor") == [2, 1]
    assert in_order(entries, view(policy, heavy=1.0, light=0.9), "multifactor") == [1, 2]


def test_beyond_the_soft_share_limit_an_account_comes_after_everybody_within():
    policy = policy_with(share={"soft_ratio": 1.5})
    entries = [entry(1, user="heavy", priority=100), entry(2, user="light", priority=0)]

    assert in_order(entries, view(policy, heavy=1.6)) == [2, 1]
    assert in_order(entries, view(policy, heavy=1.5)) == [1, 2]


def test_the_size_of_a_job_is_its_devices_or_else_its_cpus():
    assert procs(entry(cpus=0.5).shape) == 1
    assert procs(entry(cpus=3, tasks=4).shape) == 12
    assert procs(entry(cpus=32, gpus=2, tasks=2).shape) == 4


def test_shortest_and_smallest_come_first():
    short_wide = entry(1, run_s=60, cpus=100)
    long_narrow = entry(2, run_s=120, cpus=1)

    assert in_order([long_narrow, short_wide], view(), "sjf") == [1, 2]
    assert in_order([long_narrow, short_wide], view(), "saf") == [2, 1]


def test_wfp3_is_minus_the_cube_of_wait_over_run_times_size():
    key = ORDERINGS["wfp3"].key(entry(waited_s=7200.0, run_s=3600.0, cpus=8), view())

    assert key == pytest.approx(-(2.0**3) * 8)


def test_unicef_is_minus_wait_over_the_logarithm_of_size_times_run():
    rule = ORDERINGS["unicef"]

    assert rule.key(entry(waited_s=7200.0, cpus=8), view()) == pytest.approx(-2 / log2(8))
    assert rule.key(entry(waited_s=7200.0, cpus=1), view()) == pytest.approx(-2)


def test_f1_is_the_published_sum_on_a_clock_that_began_at_zero():
    seen = view(now_s=50_000.0)
    job = entry(run_s=1000.0, cpus=4)._replace(submitted_s=10_000.0, eligible_s=10_000.0)

    assert ORDERINGS["f1"].key(job, seen) == pytest.approx(log10(1000) * 4 + 870 * log10(10_000))


def test_f1_lets_old_jobs_pass_on_a_clock_of_today():
    large_old = entry(1, cpus=64, waited_s=20 * 86400.0)
    small_new = entry(2, cpus=1)

    assert in_order([small_new, large_old], view(), "f1") == [1, 2]


def test_deadlines_come_first_by_time_and_jobs_without_one_last():
    entries = [
        entry(1),
        entry(2, deadline_s=NOW_S + 900, run_s=60),
        entry(3, deadline_s=NOW_S + 1000, run_s=900),
        entry(4, deadline_s=NOW_S - 10, run_s=1),
    ]

    assert in_order(entries, view(), "deadline") == [4, 2, 3, 1]
    assert in_order(entries, view(), "laxity") == [4, 3, 2, 1]
    assert ORDERINGS["deadline"].key(entries[0], view()) == inf


@pytest.mark.parametrize("name", sorted(ORDERINGS))
@pytest.mark.parametrize("later_s", [0.0, 59.0, 3600.0, 86400.0, 40 * 86400.0])
def test_of_two_jobs_that_differ_in_age_alone_the_older_never_comes_later(name, later_s):
    waits = [later_s + extra for extra in (0.0, 1.0, 1800.0, 7200.0, 10**6)]
    entries = [entry(1, waited_s=w, gpus=2, time_limit_s=7200) for w in waits]

    keys = [ORDERINGS[name].key(job, view(alice=0.7)) for job in entries]

    assert all(older <= younger for younger, older in itertools.pairwise(keys))


def test_a_job_has_waited_from_the_moment_at_which_it_was_ready():
    assert waited_s(entry(waited_s=0.0), view()) == 0.0
    assert waited_s(entry(waited_s=0.5), view()) == 0.5
