"""A wall clock that is set while the controller is away: what goes on keeps its time."""

from __future__ import annotations

import time

import pytest

from rota.controller.clock import BOOKMARK, Clock
from rota.controller.recover import recover
from rota.core.changes.compare import differences, fold
from rota.store.memory import MemoryStore
from rota.testing.scene import Scene

HOUR_S = 3600.0
STEPS_S = (HOUR_S, -HOUR_S)


def test_no_two_ticks_have_the_same_time_though_the_clock_stands_still():
    clock = Clock(wall=lambda: 1e9, steady=lambda: 5.0)

    times_s = [clock.tick_s() for _ in range(4)]

    assert times_s == sorted(set(times_s))
    assert times_s[0] == clock.now_s()
    assert times_s[-1] - times_s[0] < 1e-6


def late(**more: int) -> Scene:
    """A scene in which the clock can be set back."""
    scene = Scene(**more)
    scene.pass_time(1_000_000)
    return scene


def set_clock(scene: Scene, by_s: float) -> None:
    """The controller dies, the wall clock is set, the controller is back three seconds later."""
    scene.crash()
    scene.now_s += 3 + by_s
    scene.moved_s = by_s
    scene.restart()


@pytest.mark.parametrize("by_s", STEPS_S)
def test_a_limit_ends_a_job_after_its_time_whatever_the_clock_was_set_to(by_s: float):
    scene = late()
    scene.submit("job", time_limit_s=600)
    scene.pass_time(3)

    set_clock(scene, by_s)
    scene.pass_time(593)
    early = set(scene.stopping)
    scene.pass_time(1)

    assert early == set()
    assert scene.stopping


@pytest.mark.parametrize("by_s", STEPS_S)
def test_a_job_is_charged_for_what_it_ran(by_s: float):
    scene = late()
    scene.submit("job", cpus=2)
    scene.pass_time(10)

    set_clock(scene, by_s)
    scene.pass_time(7)
    scene.finish("job")

    (usage,) = scene.cluster.accounts.usage.values()
    assert usage.since(0.0).cpu_s == pytest.approx(40)
    assert scene.job("job").ended_s - scene.job("job").started_s == 20


@pytest.mark.parametrize("by_s", STEPS_S)
def test_a_job_that_waits_is_given_up_after_its_timeout(by_s: float):
    scene = late(cpus=1)
    scene.submit("runs", cpus=1)
    scene.submit("waits", cpus=1, scheduling_timeout_s=100)

    set_clock(scene, by_s)
    scene.pass_time(96)
    early = scene.state("waits")
    scene.pass_time(1)

    assert (early, scene.state("waits")) == ("queued", "unschedulable")


@pytest.mark.parametrize("by_s", STEPS_S)
def test_a_pause_before_the_next_try_keeps_its_length(by_s: float):
    scene = late()
    scene.submit("job", retries=1, backoff_s=60)
    scene.finish("job", 1)

    set_clock(scene, by_s)
    scene.pass_time(56)
    early = scene.state("job")
    scene.pass_time(1)

    assert (early, scene.state("job")) == ("queued", "running")


def test_a_begin_time_that_a_user_named_is_by_the_clock_as_it_is_now():
    scene = late()
    scene.submit("job", begin_s=scene.now_s + HOUR_S)

    set_clock(scene, HOUR_S)

    assert scene.is_running("job")


def test_replay_and_restart_lead_to_the_same_times():
    scene = late(nodes=2)
    scene.submit("runs", time_limit_s=600, cpus=2)
    scene.submit("array", array="0-9", cpus=4)
    scene.submit("later", begin_s=scene.now_s + 40)

    set_clock(scene, HOUR_S)

    log = list(scene.store.all_events())
    assert differences(fold(log, scene.cluster.ids.cluster_id), scene.cluster) == []
    assert differences(recover(scene.store.load()), scene.cluster) == []


def clock(ahead_s: float = 0.0) -> Clock:
    """As of a controller that starts when the wall clock is so much ahead of this machine's."""
    return Clock(lambda: time.time() + ahead_s)


def test_a_clock_that_was_not_set_moves_nothing_and_goes_on_as_it_was():
    store = MemoryStore()
    first = clock()
    first.moved_s(store, 1)
    second = clock(0.3)

    moved_s = second.moved_s(store, 5)

    assert moved_s == 0.0
    assert second.now_s() == pytest.approx(first.now_s(), abs=0.1)


@pytest.mark.parametrize("by_s", STEPS_S)
def test_how_far_the_clock_was_set_is_known_until_an_event_has_said_so(by_s: float):
    store = MemoryStore()
    clock().moved_s(store, 1)

    told = [clock(by_s).moved_s(store, 5) for _ in range(2)]
    after = clock(by_s).moved_s(store, 6)

    assert told == [pytest.approx(by_s, abs=0.1)] * 2
    assert after == 0.0


def test_times_of_another_boot_are_taken_as_they_are():
    store = MemoryStore()
    clock().moved_s(store, 1)
    body = store.bookmark(BOOKMARK)
    boot = body.split('"')[3]
    store.set_bookmark(BOOKMARK, body.replace(boot, "another"))

    assert clock(HOUR_S).moved_s(store, 5) == 0.0


def test_a_bookmark_that_makes_no_sense_is_written_anew():
    store = MemoryStore()
    store.set_bookmark(BOOKMARK, "nonsense")

    moved_s = [clock().moved_s(store, 1), clock(HOUR_S).moved_s(store, 2)]

    assert moved_s == [0.0, pytest.approx(HOUR_S, abs=0.1)]


def test_a_machine_that_slept_is_as_late_as_the_clocks_of_others(monkeypatch):
    """As the kernel has it: one clock stands still while the machine sleeps, one does not."""
    running_s, asleep_s = 1000.0, 0.0
    clocks = {
        time.CLOCK_MONOTONIC: lambda: running_s,
        time.CLOCK_BOOTTIME: lambda: running_s + asleep_s,
    }
    monkeypatch.setattr(time, "clock_gettime", lambda which: clocks[which]())
    monkeypatch.setattr(time, "monotonic", clocks[time.CLOCK_MONOTONIC])
    clock = Clock(wall=lambda: 5000.0)

    asleep_s = HOUR_S
    running_s += 1

    assert clock.now_s() == 5000.0 + HOUR_S + 1


@pytest.mark.parametrize(("by_s", "words"), [(HOUR_S, "forward by 1h"), (-HOUR_S, "back by 1h")])
def test_a_clock_that_is_set_under_running_work_moves_nothing_and_is_told(
    by_s: float, words: str, caplog: pytest.LogCaptureFixture
):
    steady_s, set_s = 1000.0, 0.0
    clock = Clock(wall=lambda: 5000.0 + set_s, steady=lambda: steady_s)

    set_s = 5.0
    clock.look()
    near = clock.warning
    set_s = by_s
    clock.look()
    clock.look()
    far = clock.warning
    set_s = 0.0
    clock.look()

    assert clock.now_s() == 5000.0
    assert (near, clock.warning) == ("", "")
    assert f"the wall clock was set {words} since the controller was started" in far
    assert caplog.text.count("wall clock was set") == 1
