"""How attempts end: signals reach the whole tree, and an end leaves nothing running."""

import os
import signal
from pathlib import Path

import pytest

from rota.keeper.processes import children_of_self, snapshot
from tests.agent.support import Keeper, is_running, pid_in, wait_until

#: Forks away from its parent and its session, as a daemon does; $1 is where its pid goes.
DAEMON = "setsid sh -c 'echo $$ > $1; exec sleep 60' sh {file} &"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1])
def test_a_signal_ends_a_job_and_is_reported(keeper: Keeper, number: int):
    uid = f"signal-{int(number)}"
    keeper.spawn(uid, "sleep", "60")
    keeper.started(uid)

    keeper.send(op="signal", uid=uid, signal=int(number))

    ended = keeper.ended(uid)
    assert (ended["code"], ended["signal"]) == (None, number)


def test_a_signal_reaches_children_too(keeper: Keeper, tmp_path: Path):
    keeper.shell("family", f"sleep 60 & echo $! > {tmp_path}/child; wait")
    child = pid_in(tmp_path / "child")

    keeper.send(op="signal", uid="family", signal=signal.SIGTERM)

    keeper.ended("family")
    assert not is_running(child)


def test_a_signal_reaches_descendants_with_a_session_of_their_own(keeper: Keeper, tmp_path: Path):
    script = f"""
        {DAEMON.format(file=tmp_path / "daemon")}
        setsid sh -c 'trap "echo heard > {tmp_path}/heard; exit" TERM; touch {tmp_path}/ready;
                      while :; do sleep 0.01; done' &
        wait"""
    keeper.shell("sessions", script)
    daemon = pid_in(tmp_path / "daemon")
    wait_until((tmp_path / "ready").exists)

    keeper.send(op="signal", uid="sessions", signal=signal.SIGTERM)

    wait_until((tmp_path / "heard").exists)
    keeper.ended("sessions")
    assert not is_running(daemon)


def test_a_stopped_job_hears_a_request_to_end(keeper: Keeper):
    keeper.spawn("stopped", "sleep", "60")
    pid = keeper.started("stopped")["pid"]
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: b") T " in Path(f"/proc/{pid}/stat").read_bytes())

    keeper.send(op="signal", uid="stopped", signal=signal.SIGTERM)

    assert keeper.ended("stopped")["signal"] == signal.SIGTERM


def test_a_job_may_catch_the_request_and_choose_its_exit_code(keeper: Keeper, tmp_path: Path):
    keeper.shell(
        "graceful",
        f"trap 'exit 3' TERM; touch {tmp_path}/ready; while :; do sleep 0.01; done",
    )
    wait_until((tmp_path / "ready").exists)

    keeper.send(op="signal", uid="graceful", signal=signal.SIGTERM)

    assert keeper.ended("graceful")["code"] == 3


def test_children_left_behind_are_killed(keeper: Keeper, tmp_path: Path):
    keeper.shell("leaver", f"sleep 60 & echo $! > {tmp_path}/child; exit 5")

    assert keeper.ended("leaver")["code"] == 5
    assert not is_running(pid_in(tmp_path / "child"))


def test_a_daemon_left_behind_is_killed(keeper: Keeper, tmp_path: Path):
    keeper.shell("daemon", f"{DAEMON.format(file=tmp_path / 'pid')} while [ ! -s {tmp_path}/pid ]; "
                           "do sleep 0.01; done")  # fmt: skip

    assert keeper.ended("daemon")["code"] == 0
    assert not is_running(pid_in(tmp_path / "pid"))


def test_a_daemon_that_clears_its_environment_is_killed(own_keeper: Keeper, tmp_path: Path):
    clean = f"env -i setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 60' &"

    own_keeper.shell("clean", f"{clean} while [ ! -s {tmp_path}/pid ]; do sleep 0.01; done")

    assert own_keeper.ended("clean")["code"] == 0
    wait_until(lambda: not is_running(pid_in(tmp_path / "pid")))


def test_the_daemon_of_a_running_job_is_left_alone(keeper: Keeper, tmp_path: Path):
    keeper.shell("host", f"(setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 60' &); sleep 60")
    daemon = pid_in(tmp_path / "pid")

    keeper.spawn("neighbour", "true")
    keeper.ended("neighbour")

    assert is_running(daemon)
    keeper.send(op="signal", uid="host", signal=signal.SIGKILL)
    keeper.ended("host")
    assert not is_running(daemon)


def test_an_end_is_told_only_when_nothing_is_left(keeper: Keeper, tmp_path: Path):
    # A chain of three that is not in the group: each link comes to the keeper in its turn.
    inner = f"setsid sh -c 'echo $$ > {tmp_path}/inner; exec sleep 60'"
    outer = f'setsid sh -c "{inner} & sleep 60; wait"'
    keeper.shell("chain", f"{outer} & while [ ! -s {tmp_path}/inner ]; do sleep 0.01; done")

    keeper.ended("chain")

    assert not is_running(pid_in(tmp_path / "inner"))


def test_zombies_of_orphans_are_reaped(keeper: Keeper):
    keeper.shell("orphans", "for i in 1 2 3 4 5; do (sh -c 'exit 1' & ) ; done; sleep 0.1")
    keeper.ended("orphans")

    def zombies() -> list[int]:
        table = snapshot().values()
        return [one.pid for one in table if one.zombie and one.parent == keeper.pid]

    wait_until(lambda: not zombies())


def test_the_reason_of_a_kill_comes_back_with_the_end(keeper: Keeper):
    keeper.spawn("noted", "sleep", "60")
    keeper.started("noted")

    keeper.send(op="signal", uid="noted", signal=9, note="used 5G of 4G")

    assert keeper.ended("noted")["note"] == "used 5G of 4G"


def test_signals_to_unknown_and_ended_attempts_do_nothing(keeper: Keeper):
    keeper.spawn("over", "true")
    keeper.ended("over")

    keeper.send(op="signal", uid="over", signal=15)
    keeper.send(op="signal", uid="never-seen", signal=15)

    keeper.spawn("still-there", "true")
    assert keeper.ended("still-there")["code"] == 0


def test_killing_many_at_once_costs_little(keeper: Keeper):
    for number in range(20):
        keeper.spawn(f"crowd-{number}", "sleep", "60")
    for number in range(20):
        keeper.started(f"crowd-{number}")

    before_s = _used_s(keeper.pid)
    for number in range(20):
        keeper.send(op="signal", uid=f"crowd-{number}", signal=15)
    for number in range(20):
        keeper.ended(f"crowd-{number}")

    # Its own time and not the clock's: others may be busy on this machine.
    assert _used_s(keeper.pid) - before_s < 2.0


def _used_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


#: Its first process hears the request and dies; a child of it does not want to.
DEAF_CHILD = "sh -c 'trap \"\" TERM; echo $$ > {file}; while :; do sleep 0.01; done' & wait"


def test_what_outlives_a_request_to_end_has_no_more_than_the_grace(keeper: Keeper, tmp_path: Path):
    keeper.shell("deaf", DEAF_CHILD.format(file=tmp_path / "pid"), keep={"grace_s": 0.3})
    main, child = keeper.started("deaf")["pid"], pid_in(tmp_path / "pid")

    keeper.send(op="signal", uid="deaf", signal=signal.SIGTERM)

    assert keeper.ended("deaf")["signal"] == signal.SIGTERM
    assert not is_running(main)
    assert not is_running(child)


def test_what_outlives_a_request_to_end_has_the_grace_and_a_kill_ends_it(
    keeper: Keeper, tmp_path: Path
):
    keeper.shell("deafer", DEAF_CHILD.format(file=tmp_path / "pid"), keep={"grace_s": 60.0})
    main, child = keeper.started("deafer")["pid"], pid_in(tmp_path / "pid")
    keeper.send(op="signal", uid="deafer", signal=signal.SIGTERM)
    wait_until(lambda: not is_running(main))
    keeper.spawn("after-deafer", "true")
    keeper.ended("after-deafer")
    outlived = is_running(child)

    keeper.send(op="signal", uid="deafer", signal=signal.SIGKILL)

    assert outlived
    assert keeper.ended("deafer")["signal"] == signal.SIGTERM
    assert not is_running(child)


def test_what_an_attempt_leaves_is_gone_before_its_end_is_told_whatever_is_being_started(
    own_keeper: Keeper, tmp_path: Path
):
    waits = f"(setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 60' &)"
    own_keeper.shell("leaves", f"{waits}; until [ -e {tmp_path}/go ]; do sleep 0.01; done")
    left = pid_in(tmp_path / "pid")
    job = own_keeper.started("leaves")["pid"]
    starters = [pid for pid in children_of_self(own_keeper.pid) if pid not in (job, left)]
    for pid in starters:
        os.kill(pid, signal.SIGSTOP)
    own_keeper.spawn("slow", "true")

    (tmp_path / "go").touch()
    own_keeper.ended("leaves")

    assert not is_running(left)
    for pid in starters:
        os.kill(pid, signal.SIGCONT)
    own_keeper.ended("slow")
