"""How the keeper starts a process: identity, folder, files, limits, and every way to fail."""

import os
import pwd
import time
from json import loads
from pathlib import Path

import pytest

from tests.agent.support import Keeper, wait_until
from tests.support.machine import missing


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_an_exit_code_is_reported_as_it_was(keeper: Keeper, code: int):
    keeper.shell(f"code-{code}", f"exit {code}")

    ended = keeper.ended(f"code-{code}")
    assert (ended["code"], ended["signal"], ended["error"]) == (code, 0, "")


def test_a_start_is_reported_with_pid_and_start_time(keeper: Keeper, tmp_path: Path):
    go = tmp_path / "go"
    waits = f"while [ ! -e {go} ]; do sleep 0.01; done"
    keeper.shell("identity", f"cut -d ' ' -f 1,22 /proc/$$/stat; {waits}")

    started = keeper.started("identity")
    go.touch()
    keeper.ended("identity")
    pid, start = map(int, keeper.text("identity").split())
    assert (started["pid"], started["start"]) == (pid, start)


def test_a_start_that_is_told_is_written_down(own_keeper: Keeper):
    own_keeper.spawn("lasting", "sleep", "60")

    pid = own_keeper.started("lasting")["pid"]

    journal = [loads(line) for line in (own_keeper.folder / "journal").read_text().splitlines()]
    assert [fact["pid"] for fact in journal if fact["ev"] == "started"] == [pid]


def test_times_and_use_come_with_the_end(keeper: Keeper):
    keeper.shell("usage", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")

    ended = keeper.ended("usage")
    assert 0 < ended["started_s"] <= ended["ended_s"]
    assert ended["cpu_s"] > 0
    assert ended["maxrss_kb"] > 0


def test_a_process_has_its_own_session_its_folder_and_its_environment(
    keeper: Keeper, tmp_path: Path
):
    keeper.shell(
        "context",
        "pwd; echo \"$FLAVOUR\"; echo $ROTA_ATTEMPT_UID; cut -d ' ' -f 1,5,6 /proc/$$/stat",
        cwd=str(tmp_path),
        env=["FLAVOUR=vanilla = good\tüñ", f"PATH={os.environ['PATH']}"],
    )

    keeper.ended("context")
    where, flavour, uid, numbers = keeper.text("context").splitlines()
    assert (where, flavour, uid) == (str(tmp_path), "vanilla = good\tüñ", "context")
    assert len(set(numbers.split())) == 1


def test_no_descriptor_of_the_keeper_reaches_a_job(keeper: Keeper):
    keeper.spawn("descriptors", "ls", "/proc/self/fd")
    keeper.spawn("careful-descriptors", "ls", "/proc/self/fd", ulimits={"nofile": 64})

    for uid in ("descriptors", "careful-descriptors"):
        keeper.ended(uid)
        assert keeper.text(uid).split() == ["0", "1", "2", "3"]


def test_signals_have_their_default_meaning_in_a_job(keeper: Keeper):
    keeper.spawn("signals", "cat", "/proc/self/status")
    keeper.spawn("careful-signals", "cat", "/proc/self/status", ulimits={"nofile": 64})

    for uid in ("signals", "careful-signals"):
        keeper.ended(uid)
        masks = dict(line.split(None, 1) for line in keeper.text(uid).splitlines() if "Sig" in line)
        assert [int(masks[name], 16) for name in ("SigBlk:", "SigIgn:", "SigCgt:")] == [0, 0, 0]


def test_output_goes_to_its_files_and_is_appended(keeper: Keeper):
    Path(keeper.output("append")).write_text("before\n")

    keeper.shell("append", "echo out; echo err >&2")

    keeper.ended("append")
    assert keeper.text("append") == "before\nout\n"
    assert keeper.text("append", "err") == "err\n"


def test_a_log_that_nobody_wrote_to_is_used_again_and_no_other(keeper: Keeper):
    keeper.shell("silent", "true")
    keeper.ended("silent")
    keeper.shell("loud", "echo loud; echo louder >&2")
    keeper.ended("loud")
    keeper.shell("later", "echo later")
    keeper.ended("later")

    assert not Path(keeper.output("silent")).exists()
    assert keeper.text("loud") == "loud\n"
    assert keeper.text("loud", "err") == "louder\n"
    assert keeper.text("later") == "later\n"


def test_both_outputs_may_go_to_one_file(keeper: Keeper):
    both = keeper.output("both")

    keeper.shell("both", "echo one; echo two >&2; echo three", stdout=both, stderr=both)

    keeper.ended("both")
    assert keeper.text("both") == "one\ntwo\nthree\n"


def test_input_comes_from_its_file(keeper: Keeper, tmp_path: Path):
    (tmp_path / "input").write_text("hello")

    keeper.spawn("input", "cat", stdin=str(tmp_path / "input"))
    keeper.spawn("no-input", "cat")

    assert keeper.ended("input")["code"] == 0
    assert keeper.ended("no-input")["code"] == 0
    assert keeper.text("input") == "hello"
    assert keeper.text("no-input") == ""


@pytest.mark.parametrize("limits", [{}, {"nofile": 64}], ids=["fast", "careful"])
def test_the_umask_holds_for_the_job_and_its_output(
    keeper: Keeper, tmp_path: Path, limits: dict[str, int]
):
    uid = f"umask-{len(limits)}"

    keeper.shell(uid, "umask; touch made", cwd=str(tmp_path), umask=0o077, ulimits=limits)

    keeper.ended(uid)
    assert keeper.text(uid).strip() == "0077"
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o600
    assert Path(keeper.output(uid)).stat().st_mode & 0o777 == 0o600


def test_limits_hold_and_only_for_the_job_that_asked(keeper: Keeper):
    keeper.shell("limited", "ulimit -n; ulimit -c", ulimits={"nofile": 99, "core": 0})
    keeper.shell("unlimited", "ulimit -n")

    keeper.ended("limited")
    keeper.ended("unlimited")
    assert keeper.text("limited").split() == ["99", "0"]
    assert keeper.text("unlimited").strip() != "99"


def test_an_unknown_limit_is_named(keeper: Keeper):
    keeper.spawn("odd-limit", "true", ulimits={"patience": 1})

    assert keeper.ended("odd-limit")["error"] == "ulimit patience: no such limit on this node"


@pytest.mark.root
def test_a_job_has_the_ordinary_priority_whatever_the_keeper_has(keeper: Keeper):
    keeper.spawn("ordinary", "nice")
    keeper.spawn("careful-ordinary", "nice", ulimits={"nofile": 64})

    for uid in ("ordinary", "careful-ordinary"):
        keeper.ended(uid)
        assert keeper.text(uid) == "0\n"


@pytest.mark.parametrize("limits", [{}, {"nofile": 64}], ids=["fast", "careful"])
def test_a_pinned_job_sees_its_cpus_only_and_the_keeper_stays_free(
    keeper: Keeper, limits: dict[str, int]
):
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        missing("needs two CPUs")
    uid = f"pinned-{len(limits)}"

    keeper.spawn(uid, "nproc", cpus=cpus[-1:], ulimits=limits)

    keeper.ended(uid)
    assert keeper.text(uid).strip() == "1"
    assert sorted(os.sched_getaffinity(keeper.pid)) == cpus


def test_cpus_that_do_not_exist_are_an_error(keeper: Keeper):
    keeper.spawn("far-cpu", "true", cpus=[4000])

    assert keeper.ended("far-cpu")["error"] == "CPUs [4000]: not available on this node"


@pytest.mark.parametrize("limits", [{}, {"nofile": 64}], ids=["fast", "careful"])
class TestFailures:
    """The same words on both ways to start a process, and never a traceback."""

    def test_a_missing_folder_is_named(self, keeper: Keeper, limits: dict[str, int]):
        uid = f"no-folder-{len(limits)}"

        keeper.spawn(uid, "true", cwd="/no/such/place", ulimits=limits)

        ended = keeper.ended(uid)
        assert ended["error"] == "working folder /no/such/place: no such directory"
        assert (ended["code"], ended["signal"], ended["started_s"]) == (None, 0, 0.0)

    def test_a_folder_that_is_a_file_is_named(self, keeper: Keeper, limits: dict[str, int]):
        uid = f"file-folder-{len(limits)}"

        keeper.spawn(uid, "true", cwd="/etc/passwd", ulimits=limits)

        assert keeper.ended(uid)["error"] == "working folder /etc/passwd: not a directory"

    def test_a_missing_command_ends_with_127(self, keeper: Keeper, limits: dict[str, int]):
        uid = f"no-command-{len(limits)}"

        keeper.spawn(uid, "frobnicate", "--now", ulimits=limits)

        ended = keeper.ended(uid)
        assert (ended["code"], ended["error"]) == (127, "command not found: frobnicate")
        assert keeper.text(uid, "err") == "rota: command not found: frobnicate\n"

    def test_a_file_that_is_no_program_ends_with_126(
        self, keeper: Keeper, tmp_path: Path, limits: dict[str, int]
    ):
        uid = f"no-program-{len(limits)}"
        program = tmp_path / "notes.txt"
        program.write_text("buy milk")

        keeper.spawn(uid, str(program), ulimits=limits)

        ended = keeper.ended(uid)
        assert ended["code"] == 126
        assert ended["error"] == f"cannot execute {program}: permission denied"

    def test_a_missing_interpreter_is_told_from_a_missing_script(
        self, keeper: Keeper, tmp_path: Path, limits: dict[str, int]
    ):
        uid = f"no-interpreter-{len(limits)}"
        script = tmp_path / "script"
        script.write_text("#!/no/such/python\n")
        script.chmod(0o755)

        keeper.spawn(uid, "./script", cwd=str(tmp_path), ulimits=limits)

        ended = keeper.ended(uid)
        assert ended["code"] == 127
        assert ended["error"] == "command not found: the interpreter that ./script names"

    def test_an_output_that_cannot_be_opened_is_named(self, keeper: Keeper, limits: dict[str, int]):
        uid = f"no-output-{len(limits)}"

        keeper.spawn(uid, "true", stdout="/dev/null/such/file", ulimits=limits)

        assert keeper.ended(uid)["error"] == "output file /dev/null/such/file: not a directory"

    def test_a_pipe_without_a_reader_does_not_hold_the_keeper(
        self, keeper: Keeper, tmp_path: Path, limits: dict[str, int]
    ):
        uid = f"pipe-{len(limits)}"
        os.mkfifo(tmp_path / "pipe")

        keeper.spawn(uid, "true", stdout=str(tmp_path / "pipe"), ulimits=limits)

        assert keeper.ended(uid)["error"].startswith(f"output file {tmp_path}/pipe: ")

    def test_a_null_byte_is_an_error(self, keeper: Keeper, limits: dict[str, int]):
        uid = f"null-{len(limits)}"

        keeper.spawn(uid, "echo", "a\0b", ulimits=limits)

        assert "embedded null byte" in keeper.ended(uid)["error"]

    def test_an_unknown_user_is_named(self, keeper: Keeper, limits: dict[str, int]):
        uid = f"stranger-{len(limits)}"

        keeper.spawn(uid, "true", user="no-such-user", ulimits=limits)

        assert keeper.ended(uid)["error"] == "user no-such-user: no such user on this node"


@pytest.mark.parametrize("argv", [[], [""]])
def test_an_empty_command_is_an_error(keeper: Keeper, argv: list[str]):
    keeper.spawn(f"empty-{len(argv)}", *argv)

    assert keeper.ended(f"empty-{len(argv)}")["error"] == "no command"


def test_a_broken_order_ends_in_an_error_and_the_keeper_goes_on(keeper: Keeper):
    keeper.spawn("broken", "true", env=None)
    keeper.spawn("after-broken", "true")

    assert keeper.ended("broken")["error"].startswith("cannot start: ")
    assert keeper.ended("after-broken")["code"] == 0


@pytest.mark.root
class TestAnotherUser:
    """A keeper of root starts jobs of users with their rights and no others."""

    nobody = pwd.getpwnam("nobody")

    def test_a_job_runs_as_its_user(self, keeper: Keeper):
        keeper.spawn("as-nobody", "id", user="nobody")

        assert keeper.ended("as-nobody")["code"] == 0
        shown = keeper.text("as-nobody")
        assert f"uid={self.nobody.pw_uid}(nobody)" in shown
        assert "root" not in shown

    def test_its_log_belongs_to_the_user(self, keeper: Keeper):
        keeper.spawn("log-of-nobody", "echo", "hello", user="nobody")

        keeper.ended("log-of-nobody")
        assert Path(keeper.output("log-of-nobody")).stat().st_uid == self.nobody.pw_uid
        assert keeper.text("log-of-nobody") == "hello\n"

    def test_a_folder_closed_to_the_user_is_an_error(self, keeper: Keeper, open_folder: Path):
        private = open_folder / "private"
        private.mkdir(mode=0o700)

        keeper.spawn("closed", "true", user="nobody", cwd=str(private))

        assert keeper.ended("closed")["error"] == f"working folder {private}: permission denied"

    def test_an_output_is_opened_with_the_rights_of_the_user(
        self, keeper: Keeper, open_folder: Path
    ):
        secret = open_folder / "secret"
        secret.write_text("")
        secret.chmod(0o600)

        keeper.spawn("greedy", "echo", "mine", user="nobody", stdout=str(secret))

        assert keeper.ended("greedy")["error"] == f"output file {secret}: permission denied"
        assert secret.read_text() == ""

    @pytest.mark.parametrize("path", ["logs/victim.out", "logs/../secret", "journal"])
    def test_a_path_into_the_folder_of_the_agent_gives_no_rights(self, keeper: Keeper, path: str):
        for name in ("logs/victim.out", "secret"):
            (keeper.folder / name).write_text("")
            (keeper.folder / name).chmod(0o600)
        uid = "thief-" + path.replace("/", "-").replace(".", "")
        target = f"{keeper.folder}/{path}"

        keeper.spawn(uid, "echo", "mine", user="nobody", stdout=target)

        assert keeper.ended(uid)["error"] == f"output file {target}: permission denied"
        assert Path(target).stat().st_uid == 0

    def test_a_program_closed_to_the_user_ends_with_126(self, keeper: Keeper, open_folder: Path):
        program = open_folder / "program"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o700)

        keeper.spawn("forbidden", str(program), user="nobody")

        assert keeper.ended("forbidden")["code"] == 126


def test_many_at_once_all_end(keeper: Keeper):
    for number in range(40):
        keeper.shell(f"many-{number}", f"exit {number}")

    codes = [keeper.ended(f"many-{number}")["code"] for number in range(40)]
    assert codes == list(range(40))


def test_a_known_attempt_is_not_started_again(keeper: Keeper):
    keeper.shell("once", "echo ran")
    keeper.ended("once")
    keeper.events.clear()

    keeper.shell("once", "echo ran")

    assert keeper.ended("once")["code"] == 0
    assert keeper.text("once") == "ran\n"


def test_a_repeated_order_for_a_running_attempt_gives_its_pid(keeper: Keeper):
    keeper.spawn("twice", "sleep", "60")
    pid = keeper.started("twice")["pid"]
    keeper.events.clear()

    keeper.spawn("twice", "sleep", "60")
    assert keeper.started("twice")["pid"] == pid
    keeper.send(op="signal", uid="twice", signal=9)
    assert keeper.ended("twice")["signal"] == 9


def test_an_idle_keeper_uses_no_time(own_keeper: Keeper):
    own_keeper.spawn("quiet", "sleep", "60")
    own_keeper.started("quiet")
    wait_until(lambda: _status(own_keeper.pid, "State").startswith("S"))
    before = _pauses(own_keeper.pid)

    time.sleep(0.3)  # the length of the measurement, not a wait for something

    assert _pauses(own_keeper.pid) - before <= 1


def _pauses(pid: int) -> int:
    # Not how often others were let first: that is not its doing.
    return int(_status(pid, "voluntary_ctxt_switches"))


def _status(pid: int, name: str) -> str:
    status = Path(f"/proc/{pid}/status").read_text()
    return status.partition(f"\n{name}:")[2].partition("\n")[0].strip()
