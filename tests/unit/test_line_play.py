"""The line played on by the policy's own rule: who passes whom, and when each one starts."""

from math import inf

import pytest

from rota.core.words.presets import PRESETS
from rota.scheduling.answers.line_plan import pack
from rota.scheduling.answers.line_play import LinePiece, Rule, play_line, rule_of


def piece(amount: int, run_s: float, taken_s: float = 0.0) -> LinePiece:
    """A job that is taken to run for ``taken_s``, and really runs for ``run_s``."""
    return LinePiece(amount, run_s, taken_s or run_s, taken_s or run_s)


#: Six of eight are held for 100 s; the first job wants all eight.
HELD = [piece(6, 100.0)]
WIDE = piece(8, 50.0)


def test_what_may_pass_is_what_the_policy_says():
    names = ("default", "easy", "fcfs", "fifo", "conservative", "priority-easy")

    assert [rule_of(PRESETS[name]) for name in names] == [
        *(Rule.SHORTEST, Rule.HARMLESS, Rule.NOTHING, Rule.ANYTHING, Rule.PLANNED),
        Rule.HARMLESS,
    ]


@pytest.mark.parametrize(
    ("rule", "waits_s"),
    [
        (Rule.NOTHING, [100.0, 150.0, 150.0]),
        (Rule.ANYTHING, [200.0, 0.0, 100.0]),
        (Rule.HARMLESS, [100.0, 150.0, 0.0]),
        (Rule.PLANNED, [100.0, 150.0, 0.0]),
    ],
)
def test_jobs_pass_the_first_one_by_the_rule(rule: Rule, waits_s: list[float]):
    line = [WIDE, piece(2, 200.0), piece(2, 90.0)]

    assert play_line(rule, 2, HELD, line) == waits_s


def test_the_shortest_of_those_that_may_pass_is_asked_first():
    line = [WIDE, piece(2, 90.0), piece(2, 20.0)]

    assert play_line(Rule.HARMLESS, 2, HELD, line) == [100.0, 0.0, 90.0 + 60.0]
    assert play_line(Rule.SHORTEST, 2, HELD, line) == [100.0, 150.0, 0.0]


def test_a_job_that_stays_longer_may_use_what_the_first_leaves_over():
    line = [piece(7, 50.0), piece(1, 500.0), piece(1, 500.0)]

    assert play_line(Rule.HARMLESS, 2, HELD, line) == [100.0, 0.0, 150.0]


def test_who_may_pass_is_decided_by_what_the_pass_believes_and_not_by_what_will_be():
    """It will be gone in time, but its user said 300 s; what runs leaves after 40 s and not 100."""
    line = [WIDE, piece(2, 20.0, taken_s=300.0)]

    assert play_line(Rule.HARMLESS, 2, [piece(6, 40.0, taken_s=100.0)], line) == [40.0, 90.0]


def test_a_job_that_is_larger_than_the_site_keeps_nobody_waiting():
    line = [piece(9, 10.0), piece(8, 10.0)]

    assert play_line(Rule.HARMLESS, 2, HELD, line) == [inf, 100.0]


def test_every_resource_of_a_job_must_be_free():
    cpus_free, gpu_back = pack((8, 0)), pack((0, 1))
    wanted, small = pack((1, 1)), pack((2, 0))
    running = [LinePiece(gpu_back, 30.0, 0.0, 30.0)]
    line = [LinePiece(wanted, 5.0, 5.0, 5.0), LinePiece(small, 5.0, 5.0, 5.0)]

    assert play_line(Rule.HARMLESS, cpus_free, running, line, kinds=2) == [30.0, 0.0]


def test_one_job_alone_is_played_no_further_than_its_start():
    line = [piece(2, 10.0) for _ in range(50)]

    waits_s = play_line(Rule.HARMLESS, 2, HELD, line, last=3)

    assert waits_s[3] == 30.0
    assert waits_s[4:] == [inf] * 46


def test_a_long_line_is_played_in_steps_that_are_a_few_percent_of_the_wait():
    line = [piece(1, 1000.0)] * 1000

    waits_s = play_line(Rule.SHORTEST, 10, [], line)

    assert waits_s == sorted(waits_s)
    assert waits_s[-1] == pytest.approx(99_000.0, rel=0.03)
