"""A start may hang or be refused: that is the affair of its job alone, and nobody else waits."""

import os
import pwd
import signal
import subprocess
from pathlib import Path

import pytest

from rota.keeper.processes import attempt_uid, look, snapshot
from tests.agent.hurdles import (
    HOLD_FILE,
    STOP_ALL,
    background,
    dead_file_system,
    group_of_processes,
    own_program,
    unified_group,
)
from tests.agent.support import Keeper, is_running, keeper, of_this_run, wait_until

#: Users of which no other test has processes that it minds being stopped.
STOPPED = "games"
STARTERS = pytest.mark.parametrize("starter", ["", "python"], ids=["compiled", "python"])
#: The kernel takes no longer list.
FOLDERS = "/none:" * 15_000
LATE = "the program did not begin within 1 s: "
HUNG, LEASED = map(of_this_run, ("hung", "leased"))


def options(starter: str, start_s: float = 60) -> list[str]:
    return ["--start-s", str(start_s), *(["--starter", starter] if starter else [])]


def child_of(own: Keeper, uid: str) -> int:
    """The process of a start that is under way."""

    def found() -> int:
        table = snapshot().values()
        mine = [one.pid for one in table if one.parent == own.pid and attempt_uid(one.pid) == uid]
        # The starter bears its mark for a moment, but has no session of its own.
        return next((pid for pid in mine if (one := look(pid)) and one.session == pid), 0)

    return wait_until(found)


def starter_of(own: Keeper) -> int:
    def found() -> int:
        table = snapshot().values()
        mine = [one.pid for one in table if one.parent == own.pid]
        return next((pid for pid in mine if "starter" in _command(pid)), 0)

    return wait_until(found)


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


def status_of(pid: int, name: str) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split(":")[1].strip() for line in lines if line.startswith(f"{name}:"))


def may_lower_score() -> bool:
    """Root may, unless the machine is a container that takes the right away."""
    script = "echo -900 > /proc/self/oom_score_adj"
    return subprocess.run(["sh", "-c", script], stderr=subprocess.DEVNULL).returncode == 0


@STARTERS
class TestNobodyElseWaits:
    """Other starts, ends and signals go on while one start hangs."""

    def others_go_on(self, own: Keeper) -> None:
        own.spawn("long", "sleep", "60")
        own.started("long")
        own.send(op="signal", uid="long", signal=signal.SIGKILL)
        own.shell("short", "exit 3")
        assert own.ended("long")["signal"] == signal.SIGKILL
        assert own.ended("short")["code"] == 3

    def test_for_a_program_that_is_held_by_a_lease(self, tmp_path: Path, starter: str):
        program = own_program(tmp_path, "held")

        with keeper(*options(starter, 1)) as own, background(HOLD_FILE, str(program)):
            own.spawn("leased", str(program), "0")
            self.others_go_on(own)
            ended = own.ended("leased")

        why = "its folder, its files or its program do not answer"
        assert (ended["error"], ended["fault"]) == (LATE + why, "job")

    @pytest.mark.root
    def test_for_a_folder_that_does_not_answer(self, open_folder: Path, starter: str):
        with dead_file_system(open_folder) as dead, keeper(*options(starter, 1)) as own:
            own.spawn("dead", "true", cwd=str(dead), user="nobody")
            self.others_go_on(own)
            ended = own.ended("dead")

        assert ended["error"].startswith(LATE)
        assert (ended["code"], ended["fault"]) == (None, "node")

    @pytest.mark.root
    @pytest.mark.parametrize("field", ["stdout", "stdin"])
    def test_for_a_file_that_does_not_answer(self, open_folder: Path, starter: str, field: str):
        with dead_file_system(open_folder) as dead, keeper(*options(starter, 1)) as own:
            own.spawn("dead", "true", **{field: f"{dead}/file"})
            self.others_go_on(own)

            assert own.ended("dead")["error"].startswith(LATE)

    @pytest.mark.root
    def test_for_a_process_that_its_user_stops(self, starter: str):
        stopped = {"user": STOPPED, "env": [f"PATH={FOLDERS}/usr/bin:/bin"]}

        with keeper(*options(starter, 1)) as own, background(STOP_ALL, user=STOPPED):
            for number in range(5):
                own.spawn(f"stopped-{number}", "sleep", "60", **stopped)
            self.others_go_on(own)


@STARTERS
def test_a_path_of_many_folders_is_searched_to_its_end(starter: str):
    with keeper(*options(starter)) as own:
        own.spawn("far", "true", env=[f"PATH={FOLDERS}/usr/bin:/bin"])

        assert own.ended("far")["code"] == 0


@STARTERS
@pytest.mark.root
def test_before_its_program_a_process_is_in_the_hands_of_root_alone(
    open_folder: Path, starter: str
):
    nobody = pwd.getpwnam("nobody").pw_uid

    with dead_file_system(open_folder) as dead, keeper(*options(starter)) as own:
        own.spawn(HUNG, "true", cwd=str(dead), user="nobody")
        pid = child_of(own, HUNG)
        wait_until(lambda: status_of(pid, "State").startswith("D"))
        real, effective, saved, files = map(int, status_of(pid, "Uid").split())
        own.send(op="signal", uid=HUNG, signal=signal.SIGKILL)
        own.ended(HUNG)

    # The kernel lets a user signal what has the user's number as its real or saved one.
    assert (real, saved) == (0, 0)
    assert (effective, files) == (nobody, nobody)


@STARTERS
def test_an_agent_that_comes_meanwhile_is_told_that_it_is_starting(tmp_path: Path, starter: str):
    program = own_program(tmp_path, "held")

    with keeper(*options(starter)) as own:
        with background(HOLD_FILE, str(program)):
            own.spawn("leased", str(program), "0")
            child_of(own, "leased")
            listed = [(one["uid"], one["phase"]) for one in own.connect().all]
            own.spawn("leased", str(program), "0")

        assert own.ended("leased")["code"] == 0
        assert listed == [("leased", "starting")]


@STARTERS
def test_a_start_that_is_given_up_ends_and_one_whose_program_has_begun_goes_on(
    tmp_path: Path, starter: str
):
    program = own_program(tmp_path, "held")

    with keeper(*options(starter)) as own, background(HOLD_FILE, str(program)):
        own.shell("begun", f"while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; exit 4")
        own.started("begun")
        own.spawn("leased", str(program), "0")
        own.send_all({"op": "give_up", "uid": "leased"}, {"op": "give_up", "uid": "begun"})
        given_up = own.ended("leased")
        (tmp_path / "go").touch()

        assert (given_up["signal"], given_up["code"]) == (signal.SIGKILL, None)
        assert own.ended("begun")["code"] == 4


@STARTERS
@pytest.mark.root
def test_what_lost_its_environment_is_found_by_its_group(starter: str):
    sought = of_this_run(f"sought-{len(starter)}")
    with unified_group(f"rota-{sought}") as group, keeper(*options(starter)) as own:
        own.spawn(sought, "env", "-i", "/bin/sleep", "60", cgroup=str(group))
        pid = own.started(sought)["pid"]
        wait_until(lambda: not attempt_uid(pid))
        own.kill()
        (own.folder / "journal").unlink()
        own.start()

        own.send(op="seek", uid=sought, cgroup=str(group))

        assert own.started(sought)["pid"] == pid
        own.send(op="signal", uid=sought, signal=signal.SIGKILL)
        own.ended(sought)


@STARTERS
def test_a_start_that_hangs_can_be_ended(tmp_path: Path, starter: str):
    program = own_program(tmp_path, "held")

    with keeper(*options(starter)) as own, background(HOLD_FILE, str(program)):
        own.spawn("leased", str(program), "0")
        own.send(op="signal", uid="leased", signal=signal.SIGTERM)
        ended = own.ended("leased")

    assert (ended["code"], ended["signal"]) == (None, signal.SIGTERM)


@STARTERS
def test_what_hangs_in_its_last_step_is_known_to_the_next_keeper(tmp_path: Path, starter: str):
    program = own_program(tmp_path, "held")

    with keeper(*options(starter)) as own, background(HOLD_FILE, str(program)):
        own.spawn(LEASED, str(program), "60")
        pid = child_of(own, LEASED)
        wait_until(lambda: Path(f"/proc/{pid}/syscall").read_text().startswith("59 "))
        own.kill()
        own.start()
        listed = [(one["uid"], one["phase"], one["pid"]) for one in own.all]
        own.send(op="signal", uid=LEASED, signal=signal.SIGKILL)
        own.ended(LEASED)

        assert not is_running(pid)

    assert listed == [(LEASED, "running", pid)]


@STARTERS
@pytest.mark.root
def test_what_hangs_before_that_dies_with_its_keeper(open_folder: Path, starter: str):
    with dead_file_system(open_folder) as dead, keeper(*options(starter)) as own:
        own.spawn(HUNG, "true", cwd=str(dead), user="nobody")
        pid = child_of(own, HUNG)
        wait_until(lambda: status_of(pid, "State").startswith("D"))

        own.kill()

        wait_until(lambda: not is_running(pid))
        own.start()
        wait_until(lambda: [one["phase"] for one in own.connect().all] == ["ended"])


@STARTERS
@pytest.mark.root
class TestNoProcessToBeHad:
    """The machine's momentary state: the order is held, and given back as the node's."""

    def test_a_start_waits_for_one(self, starter: str):
        name = f"rota-{of_this_run('held')}-{len(starter)}"
        with keeper(*options(starter)) as own, group_of_processes(name) as group:
            own.shell("first", "true")
            own.ended("first")
            for pid in (own.pid, starter_of(own)):
                (group / "cgroup.procs").write_text(str(pid))
            (group / "pids.max").write_text("2")
            own.shell("held", "exit 4")
            events = group / "pids.events"
            wait_until(lambda: events.read_text().split() > ["max", "1"])

            (group / "pids.max").write_text("max")

            assert own.ended("held")["code"] == 4

    def test_after_a_while_the_start_has_failed_for_the_nodes_sake(self, starter: str):
        name = f"rota-{of_this_run('gone')}-{len(starter)}"
        with keeper(*options(starter), "--hold-s", "0.5") as own, group_of_processes(name) as group:
            own.shell("first", "true")
            own.ended("first")
            for pid in (own.pid, starter_of(own)):
                (group / "cgroup.procs").write_text(str(pid))
            (group / "pids.max").write_text("2")

            own.shell("held", "true")

            ended = own.ended("held")
            assert ended["error"].startswith("no process to be had for ")
            assert ended["error"].endswith(" s: resource temporarily unavailable")
            assert (ended["fault"], ended["code"], ended["started_s"]) == ("node", None, 0.0)

    def test_a_start_that_waits_for_one_can_be_ended(self, starter: str):
        name = f"rota-{of_this_run('told')}-{len(starter)}"
        with keeper(*options(starter)) as own, group_of_processes(name) as group:
            own.shell("first", "true")
            own.ended("first")
            for pid in (own.pid, starter_of(own)):
                (group / "cgroup.procs").write_text(str(pid))
            (group / "pids.max").write_text("2")
            own.shell("held", "true")

            own.send(op="signal", uid="held", signal=signal.SIGTERM)

            assert own.ended("held")["fault"] == "node"


@STARTERS
def test_a_starter_that_was_killed_is_replaced(starter: str):
    with keeper(*options(starter)) as own:
        own.shell("before", "exit 1")
        own.ended("before")
        os.kill(starter_of(own), signal.SIGKILL)

        for number in range(20):
            own.shell(f"after-{number}", f"exit {number}")

        assert [own.ended(f"after-{number}")["code"] for number in range(20)] == list(range(20))


def test_a_starter_that_cannot_run_here_is_done_without(tmp_path: Path):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)

    with keeper("--starter", str(broken)) as own:
        own.shell("anyway", "exit 5")

        assert own.ended("anyway")["code"] == 5
        assert "the one in Python is used" in (own.folder / "keeper.log").read_text()


@STARTERS
@pytest.mark.root
def test_a_job_is_in_its_group_and_all_of_it_goes_with_it(starter: str):
    with unified_group(f"rota-{of_this_run('group')}-{len(starter)}") as group:
        with keeper(*options(starter)) as own:
            script = "grep ^0:: /proc/self/cgroup; setsid -f sleep 60"
            own.shell("grouped", script, cgroup=str(group))
            assert own.ended("grouped")["code"] == 0
            assert own.text("grouped") == f"0::/{group.name}\n"
        assert (group / "cgroup.procs").read_text() == ""


@STARTERS
@pytest.mark.root
def test_when_memory_is_short_the_kernel_takes_a_job_and_not_the_keeper(starter: str):
    before = Path("/proc/self/oom_score_adj").read_text()
    lowered = "-900\n" if may_lower_score() else before

    with keeper(*options(starter)) as own:
        own.spawn("score", "cat", "/proc/self/oom_score_adj")
        own.ended("score")

        assert own.text("score") == before
        assert Path(f"/proc/{own.pid}/oom_score_adj").read_text() == lowered


@STARTERS
@pytest.mark.parametrize("umask", [0, 0o022, 0o777])
class TestModes:
    """What a job prints is for its user, whatever files it makes for others."""

    def test_a_log_is_for_its_owner(self, starter: str, umask: int):
        with keeper(*options(starter)) as own:
            own.shell("log", "echo secret", umask=umask)
            own.ended("log")

            modes = [Path(own.output("log", end)).stat().st_mode & 0o777 for end in ("out", "err")]
            assert modes == [0o600, 0o600]

    def test_a_file_that_the_job_named_is_made_for_its_owner(
        self, tmp_path: Path, starter: str, umask: int
    ):
        with keeper(*options(starter)) as own:
            own.shell("named", "echo secret", umask=umask, stdout=f"{tmp_path}/named")
            own.ended("named")

        assert (tmp_path / "named").stat().st_mode & 0o777 == 0o600

    def test_a_file_that_is_there_keeps_its_mode(self, tmp_path: Path, starter: str, umask: int):
        (tmp_path / "there").touch()
        (tmp_path / "there").chmod(0o664)

        with keeper(*options(starter)) as own:
            own.shell("there", "echo open", umask=umask, stdout=f"{tmp_path}/there")
            own.ended("there")

        assert (tmp_path / "there").stat().st_mode & 0o777 == 0o664
