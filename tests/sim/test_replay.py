"""Every pass of a log made again: the same decisions, or the first that differs."""

import msgspec
import pytest

from rota.controller.commands import commands as cmd
from rota.core.changes import events as ev
from rota.core.facts.errors import Rejected
from rota.sim.replay import count_decisions, verify
from rota.testing.scene import ADMIN
from tests.sim.clocked import Clocked


def a_day() -> Clocked:
    """Priorities, an array with a cap, children, retries, a hold, a gang, a restart, new rules."""
    scene = Clocked(cpus=4, gpus=2)
    scene.submit("long", cpus=3, time_limit_s=100)
    scene.submit("wide", cpus=4, tasks=1, time_limit_s=100)
    scene.submit("small", cpus=1, time_limit_s=50)
    scene.submit("array", array="0-5%2", priority=20)
    scene.submit("child", after={"long": "after-ok"}, gpus=1)
    scene.submit("held", hold=True)
    scene.run_for("small", 20, code=1)
    scene.restart()
    scene.submit("again", cpus=1, retries=1, backoff_s=5)
    scene.run_for("long", 10)
    scene.release("held")
    scene.set_policy("conservative")
    scene.run_for("wide", 30)
    scene.cancel("array")
    scene.run_for("again", 10, code=1)
    scene.pass_time(30)
    scene.submit("gang", tasks=3, cpus=1)
    scene.pass_time(5)
    return scene


def test_a_day_with_a_restart_and_other_rules_comes_out_again():
    log = a_day().recorded()

    found = verify(log)

    placed = {(r.at_s, r.event.job) for r in log if isinstance(r.event, ev.AttemptPlaced)}
    assert found.difference is None
    assert found.decisions == len(placed) >= 7
    assert (found.controllers, found.events, found.unsure) == (2, len(log), 0)


def test_a_queue_that_takes_several_ticks_to_start_comes_out_again():
    scene = Clocked(cpus=700)
    scene.submit("many", array="0-599")

    found = verify(scene.recorded())

    assert (found.difference, found.decisions) == (None, 600)


def test_preemption_with_all_that_follows_comes_out_again():
    scene = Clocked(cpus=4)
    scene.set_policy("preemptive", preempt_min_runtime_s=1)
    scene.submit("victim", cpus=4, preemptible=True, priority=10)
    scene.pass_time(10)
    scene.submit("urgent", cpus=4, priority=75)
    scene.finish("victim", None, signal=15)
    scene.run_for("urgent", 10)

    found = verify(scene.recorded())

    assert scene.is_running("victim")
    assert (found.difference, found.decisions) == (None, 4)


def test_passes_that_decided_nothing_are_noted_in_the_next_commit_and_made_again():
    scene = Clocked(cpus=4)
    scene.set_policy("conservative")
    scene.submit("first", cpus=4, estimate_s=60)
    scene.submit("second", cpus=4, estimate_s=60)
    commits = len(scene.recorded())
    scene.pass_time(61)
    scene.ask(cmd.Trigger(actor=ADMIN))
    quiet = len(scene.recorded()) - commits
    scene.run_for("first", 1)

    (noted,) = [e for e in scene.log[commits:] if isinstance(e, ev.PassesMade)]
    found = verify(scene.recorded())

    assert quiet == 0
    assert len(noted.quiet_s) == 2
    assert noted.reopened_s == noted.quiet_s[1:]
    assert found.difference is None


def changed(log, place, **fields):
    event = msgspec.structs.replace(log[place].event, **fields)
    return [*log[:place], msgspec.structs.replace(log[place], event=event), *log[place + 1 :]]


def last(log, kind):
    return max(place for place, record in enumerate(log) if isinstance(record.event, kind))


def test_a_decision_that_the_rules_do_not_lead_to_is_told_with_both_sides():
    log = a_day().recorded()
    place = last(log, ev.AttemptPlaced)
    allocation = msgspec.structs.replace(log[place].event.allocation, cpu_milli=1)

    found = verify(changed(log, place, allocation=allocation)).difference

    assert (found.job, found.at_s) == (log[place].event.job, log[place].at_s)
    assert found.recorded.allocation.cpu_milli == 1
    assert found.came_out.allocation.cpu_milli == 1000


def test_a_decision_that_was_not_recorded_is_found_out():
    scene = Clocked(cpus=1)
    scene.submit("first")
    log = scene.recorded()
    kept = [record for record in log if not isinstance(record.event, ev.AttemptPlaced)]
    kept = [msgspec.structs.replace(r, seq=n) for n, r in enumerate(kept, 1) if r.at_s <= 1000.1]
    until_then = [r for r in kept if not isinstance(r.event, ev.AttemptStarted)]

    found = verify(until_then).difference

    assert found.recorded is None
    assert found.came_out.job == scene.names["first"]


def test_a_log_with_holes_is_refused_and_says_which():
    log = a_day().recorded()

    with pytest.raises(Rejected, match="events 3 to 6 are gone"):
        verify([*log[:2], *log[6:]])


def test_a_log_that_does_not_say_where_passes_begin_is_refused():
    log = [msgspec.structs.replace(record, actor="rota") for record in a_day().recorded()]

    with pytest.raises(Rejected, match="recorded by an older Rota"):
        verify(log)


def test_passes_after_a_plug_in_failed_are_counted_and_not_compared():
    log = a_day().recorded()
    first = next(n for n, r in enumerate(log) if isinstance(r.event, ev.AttemptPlaced))
    failed = ev.RuleDropped(point="scorers", name="cool", problem="ZeroDivisionError")
    log.insert(first + 1, msgspec.structs.replace(log[first], event=failed))
    log = [msgspec.structs.replace(record, seq=n) for n, record in enumerate(log, start=1)]

    found = verify(log)

    assert found.difference is None
    assert 0 < found.unsure < found.passes


def test_decisions_are_jobs_and_not_tasks():
    scene = Clocked(cpus=4)
    scene.submit("gang", tasks=4)

    assert count_decisions(scene.log) == 1
