"""Bands around a foretold start: how they are learned, kept, and worked out for a whole line."""

from math import exp, inf
from random import Random

import msgspec
import pytest

from rota.scheduling.answers.bands import CLASSES, REMEMBERED, SHARES, Bands, Record
from rota.scheduling.answers.line_plan import pack, plan_line


def coverage(bands: Bands, waits: list[tuple[float, float]]) -> list[float]:
    """Say and learn one after the other: the share that each band held, and nine in ten."""
    held = [0] * (len(SHARES) + 1)
    for planned_s, waited_s in waits:
        word = bands.say(planned_s)
        for at, (low, high) in enumerate(word.bands_s):
            held[at] += low <= waited_s <= high
        held[-1] += waited_s <= word.most_s
        bands.learn(word, waited_s)
    return [count / len(waits) for count in held]


def drifting(count: int, seed: int = 1) -> list[tuple[float, float]]:
    """Plans that are too long at first and too short at the end, more and more at random."""
    random = Random(seed)
    made = []
    for at in range(count):
        planned_s = random.uniform(10, 50_000)
        off = random.gauss(2.0 * at / count - 1.0, 0.2 + at / count)
        made.append((planned_s, planned_s * exp(off)))
    return made


def test_bands_hold_their_share_while_a_site_drifts():
    found = coverage(Bands(), drifting(6000))

    assert found == pytest.approx([*SHARES, 0.9], abs=0.03)


def test_a_new_site_has_bands_from_its_first_job_on():
    word = Bands().say(3600.0)

    assert word.wait_s == pytest.approx(3600.0)
    lows, highs = [low for low, _ in word.bands_s], [high for _, high in word.bands_s]
    assert sorted(lows, reverse=True) == lows
    assert sorted(highs) == highs
    assert lows[0] < 3600.0 < highs[0]
    assert word.wait_s < word.most_s


def test_the_expected_start_follows_what_came_of_plans_before():
    bands = Bands()

    coverage(bands, [(7200.0, 1800.0)] * 300)

    assert bands.say(7200.0).wait_s == pytest.approx(1800.0, rel=0.02)


def test_what_was_learned_outlives_a_restart_and_stays_small():
    bands = Bands()
    coverage(bands, drifting(4000))

    kept = msgspec.json.encode(bands.record)

    again = Bands(msgspec.json.decode(kept, type=Record))
    assert [again.say(wait) for wait in (5, 500, 50_000)] == [
        bands.say(wait) for wait in (5, 500, 50_000)
    ]
    assert all(len(window.ratios) <= REMEMBERED for window in again.record.windows)
    assert len(kept) < 24 * REMEMBERED * (CLASSES + 1)


def test_a_record_of_another_form_is_begun_anew():
    assert Bands(Record([])).say(60.0) == Bands().say(60.0)


def test_each_job_of_a_line_gets_the_room_that_those_before_it_leave():
    running = [(6, 100.0)]
    line = [(8, 50.0), (2, 90.0), (2, 200.0)]

    waits = [*plan_line(2, running, line)]

    assert waits == [100.0, 0.0, 150.0]


def test_a_job_that_is_larger_than_the_site_never_starts_and_is_in_no_way():
    assert [*plan_line(4, [], [(5, 10.0), (4, 10.0)])] == [inf, 0.0]


def test_every_resource_of_a_job_must_be_free():
    cpus_free, gpus_back = pack((8, 0)), pack((0, 1))

    waits = [*plan_line(cpus_free, [(gpus_back, 30.0)], [(pack((1, 1)), 5.0)], kinds=2)]

    assert waits == [30.0]


def test_a_long_line_is_planned_in_steps_that_are_a_few_percent_of_the_wait():
    line = [(1, 1000.0)] * 1000

    waits = [*plan_line(10, [], line)]

    assert waits == sorted(waits)
    assert waits[-1] == pytest.approx(99_000.0, rel=0.03)
