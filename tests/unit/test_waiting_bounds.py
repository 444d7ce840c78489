"""Every policy states how long a job may be passed, and keeps to it."""

import msgspec
import pytest

from rota.core.facts.policy import Policy
from rota.core.words.bound import bound_of
from rota.core.words.presets import PRESETS
from rota.testing.stage import Stage, node, spec

HOUR_S, DAY_S = 3600, 86400
#: How long a narrow job may run, and does.
NARROW_S = 6 * HOUR_S

#: Jobs that need room of which narrow ones always take a part: what they ask for, and what
#: the narrow ones do.
WIDE = {
    "node": ({"cpus": 4}, {"cpus": 1}),
    "gang": ({"cpus": 2, "tasks": 4}, {"cpus": 1}),
    "devices": ({"cpus": 1, "gpus": 4}, {"cpus": 1, "gpus": 1}),
    "gang with devices": ({"cpus": 1, "gpus": 4, "tasks": 2}, {"cpus": 1, "gpus": 1}),
}


def wait_of(policy: Policy, wide, narrow, until_s: float, **said) -> float:
    """How long a wide job waits while narrow ones come as fast as they end.

    By every rule they come before it: of higher priority, shorter, due soon, of new users.
    """
    stage = Stage([node(name, cpus=4, gpus=4) for name in ("n0", "n1")], policy, checked=False)
    words = {"time_limit_s": NARROW_S, "priority": 90} | said | narrow
    each_s = NARROW_S / 8
    before = 9
    for number in range(int(until_s / each_s)):
        due_s = stage.begin_s + number * each_s + 2 * NARROW_S
        job = spec(**words, user=f"user{number}", deadline_s=due_s)
        stage.submit_later(number * each_s, job, runs_s=NARROW_S)
    came_s = (before - 1) * each_s + 1
    stage.submit_later(came_s, spec(**wide, time_limit_s=DAY_S, priority=10, user="alice"))

    while before + 1 not in stage.started_s and stage.step():
        pass

    return stage.started_s[before + 1] - stage.begin_s - came_s


@pytest.mark.parametrize("shape", WIDE)
@pytest.mark.parametrize("name", PRESETS)
def test_a_wide_job_behind_a_stream_of_narrow_ones_starts_within_the_stated_bound(name, shape):
    policy = PRESETS[name]
    bound = bound_of(policy)
    assert bound.passed_s is not None
    most_s = bound.passed_s + NARROW_S

    waited_s = wait_of(policy, *WIDE[shape], most_s + 2 * DAY_S)

    assert waited_s <= most_s


def with_wait_max(policy: Policy, wait_max_s: int) -> Policy:
    order = msgspec.structs.replace(policy.order, wait_max_s=wait_max_s)
    return msgspec.structs.replace(policy, order=order)


@pytest.mark.parametrize("shape", ["node", "gang with devices"])
@pytest.mark.parametrize("limit_s", [0, 7 * DAY_S])
@pytest.mark.parametrize("name", PRESETS)
def test_the_bound_holds_although_no_narrow_job_keeps_to_its_estimate(name, limit_s, shape):
    """Each of them is of a user of whom nothing is known yet."""
    policy = with_wait_max(PRESETS[name], 12 * HOUR_S)
    most_s = 12 * HOUR_S + 3 * NARROW_S
    said = {"estimate_s": 10, "time_limit_s": limit_s}

    waited_s = wait_of(policy, *WIDE[shape], most_s + 2 * DAY_S, **said)

    assert waited_s <= most_s


@pytest.mark.parametrize(("name", "older_s"), [("default", 20 * 900), ("priority-easy", HOUR_S)])
def test_a_wide_job_among_its_equals_waits_until_it_is_due_and_for_what_runs_then(name, older_s):
    """Under ``default`` it is due twenty times as much later as it runs longer."""
    stage = Stage([node("n0", cpus=6)], PRESETS[name], checked=False)
    for number in range(400):
        stage.submit_later(number * 100.0, spec(cpus=1, time_limit_s=600), runs_s=550)
    stage.submit_later(1001.0, spec(cpus=6, time_limit_s=1500))

    while 12 not in stage.started_s and stage.step():
        pass

    assert stage.started_s[12] <= stage.begin_s + 1001 + older_s + 600


def test_of_jobs_that_have_waited_too_long_the_oldest_comes_first_whatever_the_rule_says():
    policy = with_wait_max(PRESETS["sjf"], HOUR_S)
    stage = Stage([node("n0")], policy)
    stage.submit(spec(cpus=4, time_limit_s=2 * HOUR_S))
    stage.run()
    stage.now_s += 1
    long = stage.submit(spec(cpus=4, time_limit_s=HOUR_S))
    stage.now_s += 1
    short = stage.submit(spec(cpus=4, time_limit_s=60))

    stage.play()

    assert stage.started_s[long] < stage.started_s[short]


def test_while_one_of_them_has_not_waited_too_long_the_rule_decides():
    policy = with_wait_max(PRESETS["sjf"], 3 * HOUR_S)
    stage = Stage([node("n0")], policy)
    stage.submit(spec(cpus=4, time_limit_s=2 * HOUR_S))
    long = stage.submit(spec(cpus=4, time_limit_s=HOUR_S))
    short = stage.submit(spec(cpus=4, time_limit_s=60))

    stage.play()

    assert stage.started_s[short] < stage.started_s[long]


def test_a_job_that_can_never_start_keeps_no_room_from_others_however_long_it_waits():
    policy = with_wait_max(PRESETS["fifo"], HOUR_S)
    stage = Stage([node("n0")], policy)
    stage.submit(spec(cpus=4, time_limit_s=2 * HOUR_S))
    stage.submit(spec(cpus=8, time_limit_s=60))
    stage.run()
    next_one = stage.submit(spec(cpus=4, time_limit_s=DAY_S))

    stage.play()

    assert stage.started_s[next_one] == stage.begin_s + 2 * HOUR_S


@pytest.mark.parametrize(
    ("policy", "passed_s", "words"),
    [
        (PRESETS["default"], 7 * DAY_S, "has waited 7d is passed no more"),
        (PRESETS["sjf"], DAY_S, "has waited 1d is passed no more"),
        (PRESETS["fcfs"], 0, "no job is passed by a later one"),
        (with_wait_max(PRESETS["sjf"], 0), None, "none: a job may be passed for ever"),
    ],
)
def test_the_bound_of_a_policy_is_said_in_words(policy, passed_s, words):
    bound = bound_of(policy)

    assert bound.passed_s == passed_s
    assert words in bound.text


def test_every_named_policy_has_a_bound_of_a_week_or_less():
    bounds = {name: bound_of(policy).passed_s for name, policy in PRESETS.items()}

    assert [name for name, bound_s in bounds.items() if bound_s is None] == []
    assert max(bounds.values()) == 7 * DAY_S
