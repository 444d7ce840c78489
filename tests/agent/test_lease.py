"""The lease: what renews it, and what the keeper does when nobody did."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.core.facts.states import Blame, Cause
from rota.keeper.lease import CUT_OFF, steady_s
from rota.rpc.messages import Beat, BeatSeen, Welcome
from rota.session.charge import sighting_of
from rota.session.instructions import Gone
from rota.session.lease import AgentLease
from tests.agent.support import Keeper, keeper, of_this_run, wait_until
from tests.support.machine import missing


def connected(at_s: float = 100.0) -> AgentLease:
    """A lease of 60 s, welcomed 5 s after the hello."""
    lease = AgentLease()
    lease.on_dialled(at_s)
    lease.on_welcome(Welcome(7, "c", lease_s=60.0, beat_s=10.0), at_s + 5.0)
    return lease


def test_the_welcome_counts_from_when_the_hello_was_sent():
    assert connected(100.0).until_s == 160.0


def test_an_answer_that_was_long_on_its_way_renews_from_when_the_beat_was_sent():
    lease = connected(100.0)
    beat = lease.beat(115.0)

    renewed = lease.on_seen(BeatSeen(7, 1))

    assert beat == Beat(7, 1)
    assert renewed
    assert lease.until_s == 175.0


def test_an_old_or_strange_answer_renews_nothing():
    lease = connected(100.0)
    lease.beat(115.0)
    lease.beat(125.0)
    lease.on_seen(BeatSeen(7, 2))

    answers = [lease.on_seen(BeatSeen(7, 1)), lease.on_seen(BeatSeen(7, 9))]
    answers.append(lease.on_seen(BeatSeen(6, 2)))

    assert answers == [False, False, False]
    assert lease.until_s == 185.0


def test_beats_come_in_their_time_and_end_with_the_connection():
    lease = connected(100.0)

    early, due = lease.beat(114.0), lease.next_beat_s()
    lease.on_hung_up()

    assert (early, due) == (None, 115.0)
    assert lease.next_beat_s() is None
    assert lease.beat(200.0) is None
    assert lease.until_s == 160.0, "being cut off does not end the lease, time does"


@pytest.mark.parametrize(("lease", "patience_s"), [(AgentLease(), 60.0), (connected(0.0), 30.0)])
def test_a_hello_that_nobody_answers_is_given_up(lease: AgentLease, patience_s: float):
    lease.on_hung_up()
    lease.on_dialled(100.0)

    due_s, early = lease.next_beat_s(), lease.is_unheard(99.0 + patience_s)

    assert (due_s, early) == (100.0 + patience_s, False)
    assert lease.is_unheard(100.0 + patience_s)
    assert lease.beat(100.0 + patience_s) is None, "there is no session to beat in"


def test_without_a_lease_there_are_no_beats():
    lease = AgentLease()
    lease.on_dialled(100.0)
    lease.on_welcome(Welcome(7, "c"), 101.0)

    assert (lease.until_s, lease.next_beat_s()) == (None, None)


def hold(keeper: Keeper, seconds: float | None) -> None:
    until_s = None if seconds is None else steady_s() + seconds
    keeper.send(op="lease", until_s=until_s)


def test_the_keeper_ends_everything_when_the_lease_is_over(own_keeper: Keeper):
    own_keeper.spawn("a", "sleep", "60")
    own_keeper.spawn("b", "sleep", "60")
    own_keeper.started("a")
    own_keeper.started("b")

    hold(own_keeper, 0.1)

    for uid in ("a", "b"):
        ended = own_keeper.ended(uid)
        assert (ended["signal"], ended["note"]) == (signal.SIGTERM, CUT_OFF)


def test_what_does_not_heed_the_term_is_killed_after_its_grace(own_keeper: Keeper, tmp_path: Path):
    script = f"trap '' TERM; touch {tmp_path}/up; while :; do sleep 0.05; done"
    own_keeper.shell("stubborn", script, keep={"grace_s": 0.3})
    wait_until((tmp_path / "up").exists)

    hold(own_keeper, 0.0)

    assert own_keeper.ended("stubborn")["signal"] == signal.SIGKILL


def test_a_lease_that_is_renewed_in_time_touches_nothing(own_keeper: Keeper):
    own_keeper.spawn("a", "sleep", "60")
    own_keeper.started("a")
    hold(own_keeper, 2.0)
    wait_until((own_keeper.folder / "lease").exists)

    hold(own_keeper, 600.0)
    own_keeper.shell("later", "sleep 2.1; exit 4")

    assert own_keeper.ended("later")["code"] == 4
    assert own_keeper.connect().all[0]["phase"] == "running"


def test_the_lease_ends_work_although_the_agent_is_dead(own_keeper: Keeper, tmp_path: Path):
    heeds = f"trap 'touch {tmp_path}/told; exit 0' TERM; sleep 60 & touch {tmp_path}/up; wait"
    own_keeper.shell("orphan", heeds)
    wait_until((tmp_path / "up").exists)
    hold(own_keeper, 0.2)
    own_keeper.disconnect()

    wait_until((tmp_path / "told").exists)
    wait_until(lambda: own_keeper.connect().all[0]["phase"] == "ended")

    assert own_keeper.all[0]["note"] == CUT_OFF


def test_the_lease_outlives_the_keeper_although_nobody_tells_the_next_one(own_keeper: Keeper):
    adopted = of_this_run("adopted")
    own_keeper.spawn(adopted, "sleep", "60")
    own_keeper.started(adopted)
    hold(own_keeper, 1.0)
    wait_until((own_keeper.folder / "lease").exists)

    own_keeper.kill()
    own_keeper.start()

    wait_until(lambda: own_keeper.connect().all[0]["phase"] == "ended")
    assert own_keeper.all[0]["note"] == CUT_OFF


def test_a_lease_that_was_lifted_is_not_remembered(own_keeper: Keeper):
    hold(own_keeper, 0.0)
    hold(own_keeper, None)
    own_keeper.shell("said", "true")
    own_keeper.ended("said")

    own_keeper.kill()
    own_keeper.start().shell("fine", "exit 3")

    assert own_keeper.ended("fine")["code"] == 3


def test_nothing_is_started_once_the_lease_is_over(own_keeper: Keeper, tmp_path: Path):
    hold(own_keeper, 0.0)
    own_keeper.shell("late", f"touch {tmp_path}/ran")

    ended = own_keeper.ended("late")

    assert (ended["note"], ended["error"]) == (CUT_OFF, "the lease of this node is over")
    assert not (tmp_path / "ran").exists()


def test_a_lease_that_is_lifted_lets_work_start_again(own_keeper: Keeper):
    hold(own_keeper, 0.0)
    hold(own_keeper, None)
    own_keeper.shell("fine", "exit 3")

    assert own_keeper.ended("fine")["code"] == 3


def test_an_attempt_that_was_not_started_because_the_lease_was_over_is_given_back():
    seen = sighting_of(Gone("u", 0.0, 2.0, error="the lease of this node is over", note=CUT_OFF))

    assert (seen.cause, seen.detail, seen.fault) == (Cause.START_FAILED, CUT_OFF, Blame.NODE)


@pytest.mark.parametrize(
    ("word", "fault"), [("job", Blame.JOB), ("node", Blame.NODE), ("", None), ("moon", None)]
)
def test_for_whose_sake_a_start_failed_is_passed_on_as_the_keeper_says_it(word, fault):
    seen = sighting_of(Gone("u", 0.0, 2.0, error="it did not start", fault=word))

    assert (seen.cause, seen.fault) == (Cause.START_FAILED, fault)


def test_an_attempt_that_the_lease_ended_is_lost_whatever_its_exit_code():
    seen = sighting_of(Gone("u", 1.0, 2.0, code=0, note=CUT_OFF))

    assert (seen.cause, seen.detail) == (Cause.NODE_LOST, CUT_OFF)


#: In a namespace of its own the clock is as far ahead as if the machine had slept for so long.
SLEPT_S = 1000


@pytest.fixture
def keeper_that_slept() -> Iterator[Keeper]:
    slept = ("unshare", "--time", "--boottime", str(SLEPT_S), "--fork")
    if subprocess.run([*slept, "true"], check=False, capture_output=True).returncode:
        missing("needs time namespaces and the right to make them")
    with keeper(before=slept) as made:
        yield made


def test_time_that_the_machine_slept_counts(keeper_that_slept: Keeper):
    keeper_that_slept.spawn("a", "sleep", "60")
    keeper_that_slept.started("a")

    hold(keeper_that_slept, SLEPT_S / 2)

    assert keeper_that_slept.ended("a")["note"] == CUT_OFF


def test_a_lease_that_is_renewed_after_it_was_over_saves_nothing(own_keeper: Keeper):
    own_keeper.spawn("a", "sleep", "60")
    own_keeper.started("a")
    over = {"op": "lease", "until_s": steady_s()}
    between = {"op": "forget", "uids": []}
    renewed = {"op": "lease", "until_s": steady_s() + 600.0}

    own_keeper.send_all(over, between, renewed)

    assert own_keeper.ended("a")["note"] == CUT_OFF
