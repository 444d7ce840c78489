"""What the keeper may forget is told in company, and empty groups go when there is time."""

import json
import os
from pathlib import Path

import pytest

from rota.agent.attempts.launch import FORGET_S, GROUPS_MAX, Launcher
from rota.agent.machine.cgroups import Cgroups
from rota.session.instructions import Forget, Signal


@pytest.fixture
def launcher(tmp_path: Path) -> Launcher:
    return Launcher(tmp_path)


def orders(lines: list[bytes]) -> list[dict[str, object]]:
    return [json.loads(line) for line in lines]


def test_what_may_be_forgotten_goes_along_with_the_next_order(launcher: Launcher):
    alone, _ = launcher.lines([Forget(("a",)), Forget(("b",))], 5.0)

    together, _ = launcher.lines([Signal("c", 15)], 5.001)

    assert alone == []
    assert [order["op"] for order in orders(together)] == ["signal", "forget"]
    assert orders(together)[1]["uids"] == ["a", "b"]
    assert launcher.due_s is None


def test_without_another_order_it_is_told_a_moment_later(launcher: Launcher):
    launcher.lines([Forget(("a",))], 5.0)
    early, _ = launcher.lines([Forget(("b",))], 5.01)
    due_s = launcher.due_s

    later, _ = launcher.lines([], 5.0 + FORGET_S)

    assert (early, due_s) == ([], 5.0 + FORGET_S)
    assert [order["uids"] for order in orders(later)] == [["a", "b"]]


def test_an_agent_that_leaves_can_say_it_at_once_and_once(launcher: Launcher):
    launcher.lines([Forget(("a",))], 5.0)

    first, second = launcher.farewell(), launcher.farewell()

    assert [order["uids"] for order in orders(first)] == [["a"]]
    assert second == []


def groups_in(folder: Path) -> Cgroups:
    (folder / "groups").mkdir()
    (folder / "groups/cgroup.controllers").write_text("cpu memory\n")
    return Cgroups(folder / "groups")


def test_in_a_quiet_moment_groups_go(tmp_path: Path):
    groups = groups_in(tmp_path)
    launcher = Launcher(tmp_path, groups)
    made = [groups.make(uid) for uid in ("a", "b")]

    launcher.lines([Forget(("a",)), Signal("c", 15)], 5.0)
    busy = [os.path.exists(group) for group in made]
    launcher.lines([Forget(("b",))], 5.0)
    launcher.lines([], 5.0 + FORGET_S)

    assert busy == [True, True]
    assert [os.path.exists(group) for group in made] == [False, False]


def test_while_there_is_no_quiet_moment_many_of_them_go_together(tmp_path: Path):
    groups = groups_in(tmp_path)
    launcher = Launcher(tmp_path, groups)
    removals: list[int] = []
    launcher.in_thread = lambda work: (removals.append(len(groups.left)), work())

    for number in range(2 * GROUPS_MAX):
        groups.make(f"u{number}")
        launcher.lines([Forget((f"u{number}",)), Signal("c", 15)], 5.0)

    assert removals == [GROUPS_MAX, GROUPS_MAX]
    assert list((tmp_path / "groups").glob("attempt-*")) == []
