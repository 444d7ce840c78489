"""Suspended attempts: the whole tree stands still, goes on where it was, and can be ended."""

import os
import signal
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM

from rota.core.facts.states import Cause
from rota.rpc.messages import Wanted
from rota.session.instructions import KnownAttempt, Signal
from tests.agent.controllers import Scene, shell
from tests.agent.support import Keeper, of_this_run, pid_in, wait_until
from tests.agent.test_agent import Node, commands, new, running, started
from tests.agent.test_host import story

#: A first process, a child of it, and a grandchild in a group of its own that left the tree.
TREE = """
echo $$ > first
sh -c 'echo $$ > child; while :; do echo child >> beats; sleep 0.02; done' &
setsid sh -c 'echo $$ > away; while :; do echo away >> beats; sleep 0.02; done' &
while :; do echo first >> beats; sleep 0.02; done
"""


def stands_still(pid: int) -> bool:
    """Stopped or frozen, or it will be before it takes another step.

    A shell whose child was stopped between its vfork and its exec waits for it in the kernel, and
    has its own stop before it.
    """
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    awaits_stop = int(fields["ShdPnd"], 16) >> (SIGSTOP - 1) & 1
    return fields["State"].split()[0] in ("T", "t") or bool(awaits_stop) or is_frozen(pid)


def is_frozen(pid: int) -> bool:
    """Whether its control group, where there is one of version 2, keeps it from running."""
    group = Path(f"/proc/{pid}/cgroup").read_text().strip().rpartition(":")[2]
    events = Path(f"/sys/fs/cgroup/{group}/cgroup.events")
    return events.exists() and "frozen 1" in events.read_text()


def tree_of(folder: Path) -> list[int]:
    return [pid_in(folder / name) for name in ("first", "child", "away")]


def beats(folder: Path) -> int:
    file = folder / "beats"
    return len(file.read_text().splitlines()) if file.exists() else 0


def test_a_stop_reaches_the_whole_tree_and_a_continue_wakes_it(own_keeper: Keeper, tmp_path: Path):
    own_keeper.shell("tree", TREE, cwd=str(tmp_path))
    tree = tree_of(tmp_path)

    own_keeper.send(op="signal", uid="tree", signal=SIGSTOP)
    wait_until(lambda: all(map(stands_still, tree)))
    counted = beats(tmp_path)
    own_keeper.send(op="signal", uid="tree", signal=SIGCONT)

    wait_until(lambda: beats(tmp_path) > counted + 5)
    # A shell that forks just now may look stopped for an instant.
    wait_until(lambda: not any(map(stands_still, tree)))
    # Without groups the one that left would outlive its job, and this test.
    for pid in tree:
        os.kill(pid, SIGKILL)


def test_a_suspended_tree_hears_a_request_to_end(own_keeper: Keeper, tmp_path: Path):
    own_keeper.shell("tree", "trap 'exit 7' TERM; touch ready; while :; do sleep 0.02; done",
                     cwd=str(tmp_path))  # fmt: skip
    pid = own_keeper.started("tree")["pid"]
    wait_until((tmp_path / "ready").exists)
    own_keeper.send(op="signal", uid="tree", signal=SIGSTOP)
    wait_until(lambda: stands_still(pid))

    own_keeper.send(op="signal", uid="tree", signal=SIGTERM)

    assert own_keeper.ended("tree")["code"] == 7


def test_a_suspended_tree_hears_a_request_to_save_its_state(own_keeper: Keeper, tmp_path: Path):
    own_keeper.shell("tree", "trap 'exit 8' USR1; touch ready; while :; do sleep 0.02; done",
                     cwd=str(tmp_path))  # fmt: skip
    pid = own_keeper.started("tree")["pid"]
    wait_until((tmp_path / "ready").exists)
    own_keeper.send(op="signal", uid="tree", signal=SIGSTOP)
    wait_until(lambda: stands_still(pid))

    own_keeper.send(op="signal", uid="tree", signal=signal.SIGUSR1, asks=True)

    assert own_keeper.ended("tree")["code"] == 8


def test_a_keeper_that_was_killed_still_knows_what_is_suspended(own_keeper: Keeper):
    stopped, going = of_this_run("stopped"), of_this_run("going")
    own_keeper.spawn(stopped, "sleep", "60")
    own_keeper.spawn(going, "sleep", "60")
    pid = own_keeper.started(stopped)["pid"]
    own_keeper.started(going)
    own_keeper.send(op="signal", uid=stopped, signal=SIGSTOP)
    wait_until(lambda: stands_still(pid))

    own_keeper.kill()
    listed = {item["uid"]: item["suspended"] for item in own_keeper.start().all}

    assert listed == {stopped: True, going: False}
    assert stands_still(pid)


def test_a_cgroup_is_frozen_as_a_whole_and_thawed_again(own_keeper: Keeper, tmp_path: Path):
    """Where the kernel has such a switch, nothing can slip away between two looks."""
    group = tmp_path / "group"
    group.mkdir()
    for name in ("cgroup.procs", "cgroup.freeze", "cgroup.kill"):
        (group / name).touch()
    own_keeper.spawn("boxed", "sleep", "60", cgroup=str(group))
    own_keeper.started("boxed")

    own_keeper.send(op="signal", uid="boxed", signal=SIGSTOP)
    wait_until(lambda: (group / "cgroup.freeze").read_text() == "1")
    own_keeper.send(op="signal", uid="boxed", signal=SIGCONT)

    wait_until(lambda: (group / "cgroup.freeze").read_text() == "0")


def test_a_wish_becomes_one_signal_and_its_repetition_none():
    node = Node()
    node.run("a")

    stop = node.change(Wanted("a", started=True, suspended=True))
    again = node.change(Wanted("a", started=True, suspended=True))
    go_on = node.change(Wanted("a", started=True))

    assert commands(stop) == [Signal("a", SIGSTOP)]
    assert commands(again) == []
    assert commands(go_on) == [Signal("a", SIGCONT)]


def test_an_attempt_that_is_wanted_suspended_is_stopped_once_it_exists():
    node = Node()
    node.change(Wanted("a", new("a").launch, suspended=True))

    begun = node.hears(started("a"))

    assert commands(begun) == [Signal("a", SIGSTOP)]


def test_a_suspended_attempt_that_is_to_end_goes_on_after_its_signal():
    node = Node()
    node.run("a")
    node.change(Wanted("a", started=True, suspended=True))

    told = node.change(Wanted("a", started=True, stop=Cause.CANCELLED))

    assert commands(told) == [Signal("a", SIGTERM), Signal("a", SIGCONT)]


def test_a_suspended_attempt_that_nobody_wants_any_more_goes_on_after_its_signal():
    node = Node()
    node.run("a")
    node.change(Wanted("a", started=True, suspended=True))

    told = node.change(gone=("a",))

    assert commands(told) == [Signal("a", SIGTERM), Signal("a", SIGCONT)]


def test_an_agent_that_restarts_wakes_what_was_resumed_while_it_was_away():
    node = Node(
        KnownAttempt("a", "running", pid=5, start=5, started_s=1.0, suspended=True), synced=False
    )
    node.dial()

    told = node.full(Wanted("a", started=True))

    assert commands(told) == [Signal("a", SIGCONT)]


def test_an_agent_that_restarts_leaves_alone_what_was_never_suspended():
    node = Node(running("a"), synced=False)
    node.dial()

    assert commands(node.full(Wanted("a", started=True))) == []


@story
async def test_a_suspended_job_outlives_its_agent_and_goes_on_when_told_to(here: Scene):
    folder = here.state / "work"
    folder.mkdir()
    await here.start_agent("--name", "n1")
    await here.controller.want(shell("u1", TREE, workdir=str(folder)))
    await here.controller.running("u1")
    tree = tree_of(folder)

    await here.controller.want(Wanted("u1", started=True, suspended=True))
    wait_until(lambda: all(map(stands_still, tree)))
    await here.kill_agent()
    await here.start_agent("--name", "n1")
    still = all(map(stands_still, tree))
    counted = beats(folder)
    await here.controller.want(Wanted("u1", started=True))

    assert still
    wait_until(lambda: beats(folder) > counted + 5)
    # What the job left behind would outlive this test.
    for pid in tree:
        os.kill(pid, SIGKILL)
