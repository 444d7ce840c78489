"""A Scheduler that lived through a story decides as a new one would, under every policy.

Otherwise a restart, ``rota why``, a what-if and the live pass would disagree on who comes first.
``python -m tests.property.lived`` plays more stories of the same kind, as one figure.
"""

import pytest

from rota.core.words.presets import PRESETS
from tests.property.lived import crowd, lanes, many_lanes, swarm

#: Stories with preemption in which the two once parted: what victims leave over was offered late,
#: a promise that moved let a job evict only at its next look, a claim that was withdrawn in a pass
#: was no news, a moment was kept of jobs that had left.
ONCE_BROKEN = (
    *(("unicef", 1), ("horizon", 5), ("conservative", 4), ("conservative", 5)),
    *(("conservative-rebuild", 3), ("conservative-rebuild", 8), ("gang", 5)),
)


@pytest.mark.parametrize("name", PRESETS)
def test_a_scheduler_that_lived_decides_as_a_new_one(name):
    assert crowd(name, 1, 30, 60).first == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_a_scheduler_that_lived_decides_as_a_new_one_to_the_end_of_many_stories(name):
    found = [crowd(name, seed, 60, 200).first for seed in range(4)]

    assert found == [""] * 4


@pytest.mark.parametrize("name", ["default", "priority", "conservative", "multifactor", "lab"])
def test_a_scheduler_that_lived_decides_as_a_new_one_in_a_short_story_where_jobs_give_way(name):
    assert crowd(name, 4, 20, 40, preempt=True).first == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_a_scheduler_that_lived_decides_as_a_new_one_where_jobs_give_way(name):
    assert crowd(name, 2, 40, 120, preempt=True).first == ""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), ONCE_BROKEN)
def test_a_scheduler_that_lived_finds_the_same_room_of_others_at_the_same_moment(name, seed):
    assert crowd(name, seed, 60, 200, preempt=True).first == ""


def test_a_scheduler_that_lived_gives_the_room_of_a_broken_promise_to_the_first_in_line():
    assert crowd("gang", 10, 40, 60, depth=6).first == ""


@pytest.mark.slow
@pytest.mark.parametrize("number", [9, 20])
def test_a_scheduler_that_lived_decides_as_a_new_one_with_more_lanes_than_promises(number):
    assert many_lanes(number).first == ""


@pytest.mark.parametrize("name", PRESETS)
def test_a_scheduler_that_lived_decides_as_a_new_one_whichever_features_meet(name):
    assert swarm(name, 1).first == ""


@pytest.mark.parametrize("seed", range(30, 38))
def test_a_scheduler_that_lived_decides_as_a_new_one_in_stories_of_other_features(seed):
    assert swarm([*PRESETS][7 * seed % len(PRESETS)], seed).first == ""


def test_a_scheduler_that_lived_evicts_by_age_where_the_order_moves_with_time_itself():
    assert swarm("f1", 6).first == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_a_scheduler_that_lived_decides_as_a_new_one_in_a_swarm_of_features(name):
    found = [swarm(name, seed).first for seed in range(2, 8)]

    assert found == [""] * 6


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_a_scheduler_that_lived_decides_as_a_new_one_with_many_lanes(name):
    assert lanes(name, 10).first == ""
