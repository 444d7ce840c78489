"""Launches that stand in line on a node: started as those before them end, or given back."""

from rota.agent.agent import END_TOLD_S
from rota.agent.instructions import Instruction, KeeperAll, Spawn
from rota.agent.line import PATIENCE_S
from rota.core.facts.states import Cause
from rota.rpc.messages import Sighting, Wanted
from tests.agent.test_agent import Node, ended, launch, new, running, seen, started


def behind(uid: str, *after: str) -> Wanted:
    return Wanted(uid, launch(uid), after=after)


def spawned(instructions: list[Instruction]) -> list[str]:
    return [one.uid for one in instructions if isinstance(one, Spawn)]


def test_a_launch_starts_when_all_before_it_have_ended_and_not_sooner():
    node = Node()
    node.run("a")

    told = node.change(behind("b", "a"), behind("c", "a", "b"))
    first = node.hears(ended("a"))
    node.hears(started("b"))
    second = node.hears(ended("b"))

    assert (spawned(told), spawned(first), spawned(second)) == ([], ["b"], ["c"])


def test_ends_are_told_together_while_others_stand_in_line_and_at_once_when_nobody_does():
    node = Node()
    node.run("a")
    node.run("b")
    node.change(behind("c", "a"), behind("d", "b"))

    first = node.agent.on_keeper_events([ended("a")], node.now_s)
    due_s = node.agent.next_timer_s()
    last = node.agent.on_keeper_events([ended("b")], node.now_s)

    assert (seen(first), due_s) == ([], node.now_s + END_TOLD_S)
    assert [one.uid for one in seen(last)] == ["a", "b"]


def test_one_that_comes_after_the_end_of_those_before_it_starts_at_once():
    node = Node()
    node.run("a")
    node.hears(ended("a"))

    assert spawned(node.change(behind("b", "a"), gone=("a",))) == ["b"]


def test_one_that_is_stopped_in_line_never_starts_and_lets_the_next_one_pass():
    node = Node()
    node.run("a")
    node.change(behind("b", "a"), behind("c", "a", "b"))

    (sighting,) = seen(node.change(Wanted("b", stop=Cause.CANCELLED)))
    later = node.hears(ended("a"))

    assert (sighting.uid, sighting.sighting, sighting.cause, sighting.started_s) == (
        "b",
        Sighting.ENDED,
        Cause.CANCELLED,
        0.0,
    )
    assert spawned(later) == ["c"]


def test_one_that_is_not_wanted_any_more_is_forgotten_in_line():
    node = Node()
    node.run("a")
    node.change(behind("b", "a"))

    node.change(gone=("b",))

    assert spawned(node.hears(ended("a"))) == []
    assert node.wait(PATIENCE_S) == []


def test_whoever_waits_too_long_is_given_back_with_all_behind_him():
    node = Node()
    node.run("a")
    node.change(behind("b", "a"), behind("c", "a", "b"))
    due_s = node.agent.next_timer_s()

    given = seen(node.wait(PATIENCE_S))
    later = node.hears(ended("a"))

    assert due_s == 1000.0 + PATIENCE_S
    assert [(one.uid, one.cause, one.started_s) for one in given] == [
        ("b", Cause.REQUEUED, 0.0),
        ("c", Cause.REQUEUED, 0.0),
    ]
    assert spawned(later) == []


def test_an_agent_that_comes_back_keeps_the_line_that_it_is_told():
    node = Node(running("a"))

    told = node.change(behind("b", "a"))

    assert spawned(told) == []
    assert spawned(node.hears(ended("a"))) == ["b"]


def test_a_keeper_that_comes_back_is_not_told_of_those_in_line():
    node = Node()
    node.run("a")
    node.change(behind("b", "a"))

    node.agent.on_keeper_lost()
    back = node.agent.on_keeper_all(KeeperAll((running("a"),)), node.now_s)

    assert spawned(back) == []
    assert spawned(node.hears(ended("a"))) == ["b"]


def test_one_without_anybody_before_it_is_started_as_ever():
    assert spawned(Node().change(new("a"))) == ["a"]
