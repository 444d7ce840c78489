"""The agent's state machine as stories: what it hears, what it has done about it."""

from signal import SIGKILL, SIGTERM

import pytest

from rota.core.facts.states import Cause
from rota.rpc.messages import Desired, Launch, Observed, Seen, Sighting, Wanted, Welcome
from rota.session.agent import KILL_AGAIN_S, START_TOLD_S, Agent
from rota.session.instructions import (
    Began,
    Forget,
    GiveUp,
    Gone,
    Instruction,
    Keep,
    KeeperAll,
    KnownAttempt,
    Redial,
    Seek,
    Signal,
    Spawn,
)

SESSION = 7


def launch(uid: str, grace_s: float = 30.0, memory_mib: int = 0) -> Launch:
    return Launch(uid, 1, "ann", ("true",), "/", {}, grace_s=grace_s, memory_mib=memory_mib)


def new(uid: str, **fields: float) -> Wanted:
    return Wanted(uid, launch(uid, **fields))


def started(uid: str, pid: int = 100) -> Began:
    return Began(uid, pid, 5, 1.0)


def ended(uid: str, code: int | None = 0, **fields: object) -> Gone:
    return Gone(uid, 1.0, 2.0, code, **fields)


def running(uid: str, pid: int = 100, keep: Keep = Keep()) -> KnownAttempt:  # noqa: B008
    return KnownAttempt(uid, "running", keep, pid=pid, start=5, started_s=1.0)


class Node:
    """An agent with a clock, a keeper that has nothing yet, and a controller on the line."""

    def __init__(self, *known: KnownAttempt, synced: bool = True) -> None:
        self.agent = Agent()
        self.now_s = 1000.0
        self.number = 0
        self.agent.on_keeper_all(KeeperAll(known), self.now_s)
        if synced:
            self.dial()
            self.full(*(Wanted(item.uid, started=True) for item in known))

    def dial(self, session: int = SESSION) -> None:
        self.number = 0
        self.session = session
        self.agent.on_connected()
        self.agent.on_welcome(Welcome(session, "home"))

    def full(self, *wanted: Wanted) -> list[Instruction]:
        return self._desired(wanted, (), full=True)

    def change(self, *wanted: Wanted, gone: tuple[str, ...] = ()) -> list[Instruction]:
        return self._desired(wanted, gone, full=False)

    def _desired(
        self, wanted: tuple[Wanted, ...], gone: tuple[str, ...], *, full: bool
    ) -> list[Instruction]:
        self.number += 1
        message = Desired(self.session, self.number, wanted, gone, full)
        return self.agent.on_desired(message, self.now_s)

    def hears(self, *events: Began | Gone) -> list[Instruction]:
        """News of the keeper, and the moment after which a start is reported."""
        out = self.agent.on_keeper_events(events, self.now_s)
        return out + self.agent.on_timer(self.now_s + START_TOLD_S)

    def wait(self, seconds: float) -> list[Instruction]:
        self.now_s += seconds
        return self.agent.on_timer(self.now_s)

    def run(self, uid: str, **fields: float) -> None:
        self.change(new(uid, **fields))
        self.hears(started(uid))


def seen(instructions: list[Instruction]) -> list[Seen]:
    return [item for one in instructions if isinstance(one, Observed) for item in one.attempts]


def commands(instructions: list[Instruction]) -> list[Instruction]:
    return [one for one in instructions if not isinstance(one, Observed)]


def test_a_second_welcome_is_not_taken_and_the_agent_dials_again():
    """Orders of one session must not be counted in the numbers of another."""
    node = Node()
    node.run("a")

    told = node.agent.on_welcome(Welcome(SESSION + 1, "home"))

    assert told == [Redial("a second welcome")]
    assert node.agent.session == SESSION
    node.dial(SESSION + 2)
    assert node.agent.session == SESSION + 2


def test_a_new_attempt_is_started_reported_running_and_reported_ended():
    node = Node()

    told = node.change(new("a"))
    begun = node.hears(started("a", pid=42))
    over = node.hears(ended("a", 3, maxrss_kb=2049, cpu_s=0.5))

    assert told == [Spawn("a", launch("a"))]
    assert seen(begun) == [Seen("a", Sighting.RUNNING, pid=42, started_s=1.0)]
    assert seen(over) == [
        Seen("a", Sighting.ENDED, started_s=1.0, ended_s=2.0, exit_code=3, peak_memory_mib=3,
             cpu_s=0.5)
    ]  # fmt: skip


def test_messages_are_numbered_from_one_in_each_session():
    node = Node()
    node.run("a")

    node.dial(session=8)
    (full,) = node.full(Wanted("a", started=True))
    (change,) = node.hears(ended("a"))

    assert isinstance(full, Observed)
    assert isinstance(change, Observed)
    assert (full.session, full.number, full.full) == (8, 1, True)
    assert (change.session, change.number, change.full) == (8, 2, False)


def test_a_start_and_an_end_that_arrive_together_are_one_report():
    node = Node()
    node.change(new("a"))

    told = node.hears(started("a"), ended("a", 0))

    assert [item.sighting for item in seen(told)] == [Sighting.ENDED]


def test_a_start_that_is_over_in_a_moment_is_not_reported_by_itself():
    node = Node()
    node.change(new("a"))

    at_once = node.agent.on_keeper_events((started("a"),), node.now_s)
    over = node.agent.on_keeper_events((ended("a"),), node.now_s)

    assert at_once == []
    assert [item.sighting for item in seen(over)] == [Sighting.ENDED]
    assert node.agent.next_timer_s() is None


def test_an_attempt_is_not_started_twice():
    node = Node()
    node.change(new("a"))

    while_starting = node.change(new("a"))
    node.hears(started("a"))
    while_running = node.change(new("a"))

    assert while_starting == []
    assert while_running == []


def test_one_that_was_started_and_is_unknown_is_sought_and_not_started():
    node = Node(synced=False)
    node.dial()

    told = node.full(Wanted("a", launch("a", grace_s=3.0), started=True))
    found = node.hears(started("a", pid=8))

    assert commands(told) == [Seek("a", Keep(3.0, user="ann"))]
    assert seen(told) == []
    assert [(item.sighting, item.pid) for item in seen(found)] == [(Sighting.RUNNING, 8)]


def test_one_that_was_sought_in_vain_is_lost():
    node = Node(synced=False)
    node.dial()

    told = node.full(Wanted("a", started=True))
    (item,) = seen(node.hears(ended("a", None, error="lost: no process", lost=True)))

    assert commands(told) == [Seek("a", Keep(grace_s=0.0))]
    assert (item.sighting, item.cause) == (Sighting.ENDED, Cause.NODE_LOST)


def test_one_that_is_found_although_nobody_wants_it_any_more_is_ended():
    node = Node(synced=False)
    node.dial()
    node.full(Wanted("a", started=True))

    node.change(gone=("a",))
    found = node.hears(started("a"))

    assert found == [Signal("a", SIGTERM)]


def test_one_without_a_launch_cannot_be_started_and_is_missing():
    node = Node()

    told = node.change(Wanted("a"))

    assert seen(told) == [Seen("a", Sighting.MISSING)]


def test_an_end_is_repeated_in_every_session_until_it_is_let_go():
    node = Node()
    node.run("a")
    node.hears(ended("a", 5))

    node.dial(session=8)
    again = node.full(Wanted("a", started=True))
    let_go = node.change(gone=("a",))
    node.dial(session=9)
    after = node.full()

    assert [item.exit_code for item in seen(again)] == [5]
    assert let_go == [Forget(("a",))]
    assert seen(after) == []


def test_an_end_while_the_controller_is_away_is_told_when_it_is_back():
    node = Node()
    node.run("a")
    node.agent.on_disconnected()

    silent = node.hears(ended("a", 1))
    node.dial()
    told = node.full(Wanted("a", started=True))

    assert silent == []
    assert [item.exit_code for item in seen(told)] == [1]


def test_nothing_is_decided_before_the_keeper_has_spoken():
    agent = Agent()
    agent.on_connected()
    agent.on_welcome(Welcome(SESSION, "home"))

    before = agent.on_desired(Desired(SESSION, 1, (new("a"), new("b")), (), True), 1.0)
    change = agent.on_desired(Desired(SESSION, 2, (), ("b",)), 1.0)
    after = agent.on_keeper_all(KeeperAll((running("a", pid=9),)), 1.0)

    assert before == change == []
    assert [item.pid for item in seen(after) if item.uid == "a"] == [9]
    assert Spawn("a", launch("a")) not in after


def test_nothing_is_stopped_before_the_controller_has_spoken():
    node = Node(running("a"), synced=False)

    assert node.agent.on_connected() == []
    assert node.agent.on_welcome(Welcome(SESSION, "home")) == []
    assert node.wait(3600) == []


def test_what_runs_unwanted_is_ended_and_forgotten_in_silence():
    node = Node(running("stray", keep=Keep(grace_s=5.0)), synced=False)
    node.dial()

    told = node.full()
    late = node.wait(5.0)
    over = node.hears(ended("stray", None, signal=9))

    assert commands(told) == [Signal("stray", SIGTERM)]
    assert late == [Signal("stray", SIGKILL)]
    assert over == [Forget(("stray",))]


def test_what_still_runs_unwanted_is_in_the_full_set():
    node = Node(running("stray"), synced=False)
    node.dial()

    told = node.full()

    assert [(item.uid, item.sighting) for item in seen(told)] == [("stray", Sighting.RUNNING)]


def test_what_ended_unwanted_is_forgotten():
    node = Node(KnownAttempt("old", "ended", code=0), synced=False)
    node.dial()

    told = node.full()

    assert commands(told) == [Forget(("old",))]
    assert seen(told) == []


def test_a_stop_asks_waits_for_the_grace_and_kills():
    node = Node()
    node.run("a", grace_s=10.0)

    asked = node.change(Wanted("a", started=True, stop=Cause.CANCELLED))
    due_s = node.agent.next_timer_s()
    early = node.wait(9.9)
    late = node.wait(0.1)
    over = node.hears(ended("a", None, signal=9))

    assert asked == [Signal("a", SIGTERM)]
    assert due_s == 1010.0
    assert early == []
    assert late == [Signal("a", SIGKILL)]
    assert [item.signal for item in seen(over)] == [9]
    assert node.agent.next_timer_s() is None


def test_a_stop_without_grace_kills_at_once():
    node = Node()
    node.run("a", grace_s=0.0)

    asked = node.change(Wanted("a", started=True, stop=Cause.TIME_LIMIT))

    assert asked == [Signal("a", SIGKILL)]


def test_a_kill_is_repeated_until_the_end():
    node = Node()
    node.run("a", grace_s=1.0)
    node.change(gone=("a",))

    kills = node.wait(1.0) + node.wait(KILL_AGAIN_S - 0.1) + node.wait(0.1)

    assert kills == [Signal("a", SIGKILL)] * 2


def test_a_second_stop_does_not_prolong_the_grace():
    node = Node()
    node.run("a", grace_s=10.0)
    node.change(Wanted("a", started=True, stop=Cause.PREEMPTED))
    node.wait(6.0)

    again = node.change(Wanted("a", started=True, stop=Cause.CANCELLED))
    late = node.wait(4.0)

    assert again == []
    assert late == [Signal("a", SIGKILL)]


def test_a_stop_during_the_start_gives_it_up_and_is_applied_if_it_runs_all_the_same():
    node = Node()
    node.change(new("a", grace_s=3.0))

    during = node.change(Wanted("a", stop=Cause.CANCELLED))
    node.now_s += 1
    begun = node.hears(started("a"))

    assert during == [GiveUp("a")]
    assert commands(begun) == [Signal("a", SIGTERM)]
    assert node.agent.next_timer_s() == 1004.0


def test_one_let_go_during_its_start_is_ended_once_it_runs_and_never_reported():
    node = Node()
    node.change(new("a"))

    node.change(gone=("a",))
    begun = node.hears(started("a"))
    over = node.hears(ended("a", None, signal=15))

    assert begun == [Signal("a", SIGTERM)]
    assert over == [Forget(("a",))]


def test_a_stop_before_the_start_means_it_never_starts():
    node = Node()

    told = node.change(Wanted("a", launch("a"), stop=Cause.CANCELLED))

    assert commands(told) == []
    (item,) = seen(told)
    assert (item.sighting, item.cause) == (Sighting.ENDED, Cause.CANCELLED)
    assert (item.started_s, item.exit_code) == (0.0, None)


def test_a_grace_survives_the_agent():
    node = Node(running("a", keep=Keep(grace_s=2.0)))

    node.change(Wanted("a", started=True, stop=Cause.CANCELLED))

    assert node.agent.next_timer_s() == 1002.0


def test_the_grace_goes_on_while_the_controller_is_away():
    node = Node()
    node.run("a", grace_s=10.0)
    node.change(Wanted("a", started=True, stop=Cause.CANCELLED))

    node.agent.on_disconnected()

    assert node.wait(10.0) == [Signal("a", SIGKILL)]


@pytest.mark.parametrize(
    ("session", "number", "full"),
    [(SESSION, 3, False), (SESSION, 1, False), (SESSION + 1, 2, False), (SESSION + 1, 1, True)],
    ids=["gap", "repeat", "later session", "full set of a later session"],
)
def test_a_message_out_of_order_means_dialling_again(session: int, number: int, full: bool):
    node = Node()

    told = node.agent.on_desired(Desired(session, number, (new("a"),), (), full), 1.0)

    assert [type(one) for one in told] == [Redial]
    assert node.change(new("b")) == []


def test_a_message_of_an_earlier_session_is_ignored():
    node = Node()

    assert node.agent.on_desired(Desired(SESSION - 1, 2, (new("a"),)), 1.0) == []
    assert node.change(new("b")) == [Spawn("b", launch("b"))]


def test_a_change_before_the_full_set_means_dialling_again():
    node = Node(synced=False)
    node.dial()

    assert [type(one) for one in node.change(new("a"))] == [Redial]


def test_a_desired_set_before_the_welcome_means_dialling_again():
    agent = Agent()
    agent.on_connected()

    told = agent.on_desired(Desired(1, 1, (), (), True), 1.0)

    assert [type(one) for one in told] == [Redial]


def test_memory_above_the_limit_kills_at_once_and_names_the_cause():
    node = Node()
    node.run("a", memory_mib=4096)
    limits = node.agent.alive()

    told = node.agent.on_oom("a", "used 5.1G of 4G", node.now_s)
    over = node.hears(ended("a", None, signal=9, note="used 5.1G of 4G"))

    assert limits == [("a", 100, 4096, (), 5)]
    assert told == [Signal("a", SIGKILL, "used 5.1G of 4G")]
    (item,) = seen(over)
    assert (item.cause, item.detail) == (Cause.OUT_OF_MEMORY, "used 5.1G of 4G")


def test_one_that_finished_well_before_the_kill_is_not_called_out_of_memory():
    node = Node()
    node.run("a")

    over = node.hears(ended("a", 0, note="used 5.1G of 4G"))

    assert [item.cause for item in seen(over)] == [None]


@pytest.mark.parametrize(
    ("event", "cause", "code"),
    [
        (Gone("a", 0.0, 2.0, error="working folder /x: no such directory"),
         Cause.START_FAILED, None),
        (Gone("a", 1.0, 2.0, 127, error="command not found: foo"), Cause.EXIT, 127),
        (Gone("a", 1.0, 2.0, error="exit code lost: keeper was killed", lost=True),
         Cause.NODE_LOST, None),
        (Gone("a", 0.0, 2.0, error="whether it ran is not known", lost=True),
         Cause.NODE_LOST, None),
    ],
    ids=["no start", "no command", "no exit code", "no pid"],
)  # fmt: skip
def test_trouble_is_reported_with_its_cause(event: Gone, cause: Cause, code: int | None):
    node = Node()
    node.change(new("a"))

    (item,) = seen(node.hears(event))

    assert (item.cause, item.exit_code, item.detail) == (cause, code, event.error)


class TestKeeperComesBack:
    """The keeper was killed and another took its place: its list is the truth."""

    def test_an_order_that_got_lost_is_given_again(self):
        node = Node()
        node.change(new("a"))
        node.agent.on_keeper_lost()

        told = node.agent.on_keeper_all(KeeperAll(()), node.now_s)

        assert told == [Spawn("a", launch("a"))]

    def test_an_order_that_arrived_is_not_given_again(self):
        node = Node()
        node.change(new("a"))
        node.agent.on_keeper_lost()

        told = node.agent.on_keeper_all(KeeperAll((running("a", pid=8),)), node.now_s)

        assert commands(told) == []
        assert [item.pid for item in seen(told)] == [8]

    def test_an_end_that_nobody_heard_is_reported(self):
        node = Node()
        node.run("a")
        node.agent.on_keeper_lost()

        told = node.agent.on_keeper_all(
            KeeperAll((KnownAttempt("a", "ended", code=6),)), node.now_s
        )

        assert [item.exit_code for item in seen(told)] == [6]

    def test_one_that_the_keeper_does_not_know_any_more_is_sought(self):
        node = Node()
        node.run("a", grace_s=4.0)
        node.agent.on_keeper_lost()

        told = node.agent.on_keeper_all(KeeperAll(()), node.now_s)
        found = node.hears(started("a", pid=9))

        assert told == [Seek("a", Keep(4.0, user="ann"))]
        assert [(item.sighting, item.pid) for item in seen(found)] == [(Sighting.RUNNING, 9)]

    def test_a_start_that_is_given_up_is_given_up_by_the_next_keeper_too(self):
        node = Node()
        node.change(new("a"))
        node.change(Wanted("a", stop=Cause.CANCELLED))
        node.agent.on_keeper_lost()

        told = node.agent.on_keeper_all(KeeperAll((KnownAttempt("a", "starting"),)), node.now_s)

        assert told == [GiveUp("a")]

    def test_a_request_to_end_is_repeated(self):
        node = Node()
        node.run("a")
        node.change(Wanted("a", started=True, stop=Cause.CANCELLED))
        node.agent.on_keeper_lost()

        told = node.agent.on_keeper_all(KeeperAll((running("a"),)), node.now_s)

        assert told == [Signal("a", SIGTERM)]

    def test_wishes_that_came_meanwhile_are_fulfilled_then(self):
        node = Node()
        node.agent.on_keeper_lost()

        meanwhile = node.change(new("a"))
        told = node.agent.on_keeper_all(KeeperAll(()), node.now_s)

        assert meanwhile == []
        assert told == [Spawn("a", launch("a"))]

    def test_wishes_of_a_session_that_is_over_are_not(self):
        node = Node()
        node.agent.on_keeper_lost()
        node.change(new("a"))

        node.dial(session=8)
        node.full()
        told = node.agent.on_keeper_all(KeeperAll(()), node.now_s)

        assert commands(told) == []


def test_a_full_set_answers_with_everything_and_lets_go_of_the_rest():
    node = Node()
    for uid in ("running", "over", "unwanted", "done-unwanted"):
        node.run(uid)
    node.hears(ended("over", 0), ended("done-unwanted", 0))

    node.dial(session=8)
    told = node.full(
        Wanted("running", started=True), Wanted("over", started=True), new("fresh"),
        Wanted("lost", started=True),
    )  # fmt: skip

    assert commands(told) == [
        Signal("unwanted", SIGTERM), Forget(("done-unwanted",)), Spawn("fresh", launch("fresh")),
        Seek("lost", Keep(grace_s=0.0)),
    ]  # fmt: skip
    assert {item.uid: item.sighting for item in seen(told)} == {
        "running": Sighting.RUNNING, "over": Sighting.ENDED, "unwanted": Sighting.RUNNING,
    }  # fmt: skip
