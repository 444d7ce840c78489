"""What outlives what: agents that come and go, a killed keeper, a torn or grown journal."""

import json
import os
import resource
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from rota.keeper.processes import boot_id
from tests.agent.support import (
    DEADLINE_S,
    KEEPER,
    HungUp,
    Keeper,
    is_running,
    keeper,
    of_this_run,
    pid_in,
    wait_until,
)
from tests.support.machine import small_disk

#: Attempts that a second keeper finds again.
ADOPTEE, UNIQUE, PARENT, MEANWHILE, STUBBORN, NEIGHBOUR = map(
    of_this_run, ("adoptee", "unique", "parent", "meanwhile", "stubborn", "neighbour")
)
GHOST, FOUND, REUSED, HASTY, OTHER = map(
    of_this_run, ("ghost", "found", "reused", "hasty", "other")
)
DEEP, BRIEF, SOUGHT = map(of_this_run, ("deep", "brief", "sought"))


def by_uid(listed: list[dict[str, object]]) -> dict[str, dict[str, object]]:
    return {str(item["uid"]): item for item in listed}


def test_a_new_connection_is_told_everything(own_keeper: Keeper):
    own_keeper.shell("done", "exit 7", keep={"grace_s": 5.0})
    own_keeper.spawn("alive", "sleep", "60", keep={"memory_mib": 64})
    own_keeper.ended("done")
    pid = own_keeper.started("alive")["pid"]

    listed = by_uid(own_keeper.connect().all)

    assert listed.keys() == {"done", "alive"}
    assert (listed["done"]["phase"], listed["done"]["code"]) == ("ended", 7)
    assert (listed["alive"]["phase"], listed["alive"]["pid"]) == ("running", pid)
    assert listed["done"]["keep"] == {"grace_s": 5.0}
    assert listed["alive"]["keep"] == {"memory_mib": 64}


def test_what_ends_while_nobody_listens_is_told_later(own_keeper: Keeper, tmp_path: Path):
    own_keeper.shell("lonely", f"while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; exit 9")
    pid = own_keeper.started("lonely")["pid"]
    own_keeper.disconnect()

    (tmp_path / "go").touch()
    wait_until(lambda: not is_running(pid))

    lonely = wait_until(lambda: _ended(own_keeper.connect(), "lonely"))
    assert lonely["code"] == 9


def _ended(keeper: Keeper, uid: str) -> dict[str, object] | None:
    item = by_uid(keeper.all)[uid]
    return item if item["phase"] == "ended" else None


def test_a_newer_connection_takes_the_place_of_the_older(own_keeper: Keeper):
    newer = Keeper(own_keeper.folder).connect()

    newer.spawn("by-newer", "true")

    assert newer.ended("by-newer")["code"] == 0
    with pytest.raises(HungUp):
        own_keeper.ended("by-newer")
    newer.disconnect()


def test_the_keeper_lives_on_when_its_starter_is_killed():
    with keeper() as own:
        assert is_running(own.pid)
        stat = Path(f"/proc/{own.pid}/stat").read_text().rpartition(")")[2].split()
        assert int(stat[1]) != os.getpid()
        assert int(stat[3]) != os.getsid(0)


def test_its_command_line_names_file_and_folder(own_keeper: Keeper):
    words = Path(f"/proc/{own_keeper.pid}/cmdline").read_bytes().decode().split("\0")

    assert str(KEEPER) in words
    assert str(own_keeper.folder) in words


def test_a_second_keeper_on_a_folder_is_impossible(own_keeper: Keeper):
    command = [sys.executable, "-I", "-S", str(KEEPER), str(own_keeper.folder)]

    subprocess.run(command, check=True, timeout=DEADLINE_S)

    own_keeper.spawn("same", "true")
    assert own_keeper.ended("same")["code"] == 0
    assert Keeper(own_keeper.folder).pid == own_keeper.pid


def test_forgotten_attempts_are_gone_for_good(own_keeper: Keeper):
    own_keeper.spawn("gone", "true")
    own_keeper.spawn("kept", "true")
    own_keeper.ended("gone")
    own_keeper.ended("kept")

    own_keeper.send(op="forget", uids=["gone", "unknown"])

    assert by_uid(own_keeper.connect().all).keys() == {"kept"}
    own_keeper.kill()
    assert by_uid(own_keeper.start().all).keys() == {"kept"}


def test_what_runs_cannot_be_forgotten(own_keeper: Keeper):
    own_keeper.spawn("busy", "sleep", "60")
    own_keeper.started("busy")

    own_keeper.send(op="forget", uids=["busy"])

    assert by_uid(own_keeper.connect().all).keys() == {"busy"}


class TestAfterKill:
    """A keeper that was killed: the next one finds every process or accounts for it."""

    def test_a_running_job_is_adopted_and_can_be_stopped(self, own_keeper: Keeper):
        own_keeper.spawn(ADOPTEE, "sleep", "60", keep={"grace_s": 3.0})
        pid = own_keeper.started(ADOPTEE)["pid"]

        own_keeper.kill()
        own_keeper.start()

        (adoptee,) = own_keeper.all
        assert (adoptee["phase"], adoptee["pid"]) == ("running", pid)
        assert adoptee["keep"] == {"grace_s": 3.0}
        own_keeper.send(op="signal", uid=ADOPTEE, signal=15)
        ended = own_keeper.ended(ADOPTEE)
        assert (ended["code"], ended["signal"], ended["lost"]) == (None, 0, True)
        assert ended["error"] == "exit code lost: keeper was killed"
        assert not is_running(pid)

    def test_a_signal_for_an_adopted_job_leaves_the_daemons_of_its_user_alone(
        self, own_keeper: Keeper, tmp_path: Path
    ):
        own_keeper.spawn(NEIGHBOUR, "sleep", "60")
        own_keeper.started(NEIGHBOUR)
        own_keeper.kill()
        own_keeper.start()
        daemon = f'sh -c \'trap "echo term > {tmp_path}/said" TERM; echo $$ > {tmp_path}/pid; '
        daemon += "while :; do sleep 0.05; done'"
        subprocess.run(["setsid", "-f", "sh", "-c", f"exec {daemon}"], check=True)
        pid = pid_in(tmp_path / "pid")
        try:
            own_keeper.send(op="signal", uid=NEIGHBOUR, signal=15)
            own_keeper.ended(NEIGHBOUR)

            assert is_running(pid)
            assert not (tmp_path / "said").exists(), "only the job was asked to end"
        finally:
            os.kill(pid, signal.SIGKILL)

    def test_an_adopted_job_is_not_started_again(self, own_keeper: Keeper):
        own_keeper.spawn(UNIQUE, "sleep", "60")
        pid = own_keeper.started(UNIQUE)["pid"]
        own_keeper.kill()
        own_keeper.start()

        own_keeper.spawn(UNIQUE, "sleep", "60")

        assert own_keeper.started(UNIQUE)["pid"] == pid

    def test_what_an_adopted_job_leaves_behind_is_killed(self, own_keeper: Keeper, tmp_path: Path):
        own_keeper.shell(
            PARENT, f"setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 60' & sleep 60"
        )
        child = pid_in(tmp_path / "pid")
        main = own_keeper.started(PARENT)["pid"]
        own_keeper.kill()
        own_keeper.start()

        os.kill(main, signal.SIGKILL)

        assert own_keeper.ended(PARENT)["lost"]
        assert not is_running(child)

    def test_what_ended_meanwhile_is_reported_as_lost(self, own_keeper: Keeper):
        own_keeper.spawn(MEANWHILE, "sleep", "60")
        pid = own_keeper.started(MEANWHILE)["pid"]
        own_keeper.kill()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not is_running(pid))

        own_keeper.start()

        ended = wait_until(lambda: _ended(own_keeper.connect(), MEANWHILE))
        assert ended["error"] == "exit code lost: keeper was killed"

    def test_an_end_on_record_survives(self, own_keeper: Keeper):
        own_keeper.shell("recorded", "exit 4")
        own_keeper.ended("recorded")

        own_keeper.kill()

        assert _ended(own_keeper.start(), "recorded")["code"] == 4

    def test_the_reason_of_a_kill_survives(self, own_keeper: Keeper, tmp_path: Path):
        own_keeper.shell(STUBBORN, f"trap '' TERM; touch {tmp_path}/ready; sleep 60 & wait; wait")
        wait_until((tmp_path / "ready").exists)
        own_keeper.send(op="signal", uid=STUBBORN, signal=0, note="out of memory")
        own_keeper.spawn("after", "true")
        own_keeper.ended("after")

        own_keeper.kill()
        own_keeper.start()

        assert by_uid(own_keeper.all)[STUBBORN]["note"] == "out of memory"


class TestJournal:
    """A journal written by hand, then a keeper on it."""

    def write(
        self,
        folder: Path,
        *facts: object,
        boot: str | None = None,
        tail: str = "",
        number: int = 0,
    ) -> None:
        first = {"ev": "boot", "id": boot or boot_id()} | ({"folder": number} if number else {})
        lines = [first, *facts]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "journal").write_text(text + tail)

    @staticmethod
    def intent(uid: str) -> dict[str, object]:
        return {"ev": "intent", "uid": uid, "keep": {}, "cgroup": ""}

    def test_an_intent_without_a_process_may_have_run_unseen(self, open_folder: Path):
        self.write(open_folder, self.intent(GHOST))
        own = Keeper(open_folder).start()

        ghost = wait_until(lambda: _ended(own.connect(), GHOST))

        assert ghost["error"].startswith("nobody knows whether it ran: keeper was killed")
        assert (ghost["started_s"], ghost["lost"]) == (0.0, True)
        own.clean_up()

    def test_an_intent_whose_process_exists_is_adopted(self, open_folder: Path):
        self.write(open_folder, self.intent(FOUND))
        child = subprocess.Popen(
            ["sleep", "60"], env={"ROTA_ATTEMPT_UID": FOUND}, start_new_session=True
        )
        wait_until(lambda: FOUND.encode() in Path(f"/proc/{child.pid}/environ").read_bytes())

        own = Keeper(open_folder).start()

        assert (own.all[0]["phase"], own.all[0]["pid"]) == ("running", child.pid)
        child.kill()
        child.wait()
        own.clean_up()

    @pytest.mark.parametrize("copied", [True, False])
    def test_what_another_keeper_has_is_not_adopted_from_a_copy_of_its_folder(
        self, open_folder: Path, copied: bool
    ):
        self.write(open_folder, self.intent(FOUND), number=open_folder.stat().st_ino + copied)
        child = subprocess.Popen(
            ["sleep", "60"], env={"ROTA_ATTEMPT_UID": FOUND}, start_new_session=True
        )
        wait_until(lambda: FOUND.encode() in Path(f"/proc/{child.pid}/environ").read_bytes())

        own = Keeper(open_folder).start()

        assert [item["uid"] for item in own.all] == ([] if copied else [FOUND])
        assert child.poll() is None
        child.kill()
        child.wait()
        own.clean_up()

    def test_a_reused_pid_is_not_adopted(self, open_folder: Path):
        started = {"ev": "started", "uid": REUSED, "pid": os.getpid(), "start": 1,
                   "started_s": 1.0}  # fmt: skip
        self.write(open_folder, self.intent(REUSED), started)
        own = Keeper(open_folder).start()

        reused = wait_until(lambda: _ended(own.connect(), REUSED))

        assert reused["error"] == "exit code lost: keeper was killed"
        own.clean_up()

    @pytest.mark.parametrize(
        ("said", "phase"), [(HASTY, "running"), (OTHER, "ended")], ids=["its own", "another's"]
    )
    def test_a_start_written_in_haste_is_known_by_its_environment(
        self, open_folder: Path, said: str, phase: str
    ):
        child = subprocess.Popen(
            ["sleep", "60"], env={"ROTA_ATTEMPT_UID": said}, start_new_session=True
        )
        wait_until(lambda: said.encode() in Path(f"/proc/{child.pid}/environ").read_bytes())
        started = {"ev": "started", "uid": HASTY, "pid": child.pid, "start": 0, "started_s": 1.0}
        self.write(open_folder, self.intent(HASTY), started)

        own = Keeper(open_folder).start()

        wait_until(lambda: by_uid(own.connect().all)[HASTY]["phase"] == phase)
        assert child.poll() is None
        child.kill()
        child.wait()
        own.clean_up()

    def test_nothing_survives_a_restart_of_the_machine(self, open_folder: Path):
        started = {"ev": "started", "uid": "old", "pid": os.getpid(), "start": 1, "started_s": 1.0}
        self.write(open_folder, self.intent("old"), started, boot="another-boot")

        own = Keeper(open_folder).start()

        assert _ended(own, "old")["error"] == "lost: the machine restarted"
        assert _ended(own, "old")["lost"]
        own.clean_up()

    def test_a_torn_last_line_is_ignored(self, open_folder: Path):
        ended = {"ev": "ended", "uid": "whole", "started_s": 1.0, "ended_s": 2.0, "code": 3,
                 "signal": 0, "error": ""}  # fmt: skip
        self.write(open_folder, self.intent("whole"), ended, tail='{"ev":"intent","uid":"to')

        own = Keeper(open_folder).start()

        assert [item["uid"] for item in own.all] == ["whole"]
        own.spawn("next", "true")
        own.ended("next")
        own.kill()
        assert by_uid(own.start().all).keys() == {"whole", "next"}
        own.clean_up()

    def test_a_damaged_line_keeps_no_keeper_from_starting(self, open_folder: Path):
        self.write(open_folder, tail="[" * 200_000 + "\n" + json.dumps(self.intent(DEEP)) + "\n")

        own = Keeper(open_folder).start()

        assert wait_until(lambda: _ended(own.connect(), DEEP))["lost"]
        own.clean_up()


def test_a_keeper_stays_until_what_it_alone_knows_is_on_disk(own_keeper: Keeper, tmp_path: Path):
    own_keeper.shell("precious", f"while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; exit 5")
    own_keeper.started("precious")
    pid, limit = own_keeper.pid, resource.RLIMIT_FSIZE
    _, most = resource.prlimit(pid, limit)
    resource.prlimit(pid, limit, ((own_keeper.folder / "journal").stat().st_size, most))

    (tmp_path / "go").touch()
    own_keeper.ended("precious")
    own_keeper.send(op="exit")
    own_keeper.connect()

    assert own_keeper.pid == pid
    resource.prlimit(pid, limit, (most, most))
    wait_until(lambda: b'"code":5' in (own_keeper.folder / "journal").read_bytes())
    own_keeper.kill()
    assert _ended(own_keeper.start(), "precious")["code"] == 5


def test_a_short_job_that_ran_before_the_keeper_was_killed_is_not_called_unstarted(
    own_keeper: Keeper, tmp_path: Path
):
    for number in range(16):
        own_keeper.shell(f"{BRIEF}{number}", f"echo ran >> {tmp_path}/{number}")
    wait_until(lambda: any(tmp_path.iterdir()))

    own_keeper.kill()
    own_keeper.start()

    ran = [f"{BRIEF}{number}" for number in range(16) if (tmp_path / str(number)).exists()]
    for uid in ran:
        ended = wait_until(lambda uid=uid: _ended(own_keeper.connect(), uid))
        assert ended["lost"] or ended["code"] == 0


def test_a_grown_journal_is_compacted_and_loses_nothing():
    with keeper("--compact-bytes", "10000") as own:
        own.spawn("lasting", "sleep", "60")
        pid = own.started("lasting")["pid"]
        for number in range(80):
            own.spawn(f"short-{number}", "true")
        for number in range(80):
            own.ended(f"short-{number}")
        grown = (own.folder / "journal").stat().st_size

        own.send(op="forget", uids=[f"short-{number}" for number in range(79)])
        own.connect()

        assert grown > 10000 + 2 * 1024
        assert (own.folder / "journal").stat().st_size < 2000
        own.spawn("later", "true")
        own.ended("later")
        own.kill()
        listed = by_uid(own.start().all)
        assert listed.keys() == {"lasting", "short-79", "later"}
        assert listed["lasting"]["pid"] == pid


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM])
def test_signals_do_not_end_a_keeper_with_work(own_keeper: Keeper, number: int):
    own_keeper.spawn("work", "sleep", "60")
    own_keeper.started("work")

    os.kill(own_keeper.pid, number)

    own_keeper.spawn("more-work", "true")
    assert own_keeper.ended("more-work")["code"] == 0


def test_a_termination_ends_an_idle_keeper(own_keeper: Keeper):
    pid = own_keeper.pid

    os.kill(pid, signal.SIGTERM)

    wait_until(lambda: not is_running(pid))
    assert not (own_keeper.folder / "keeper.sock").exists()


def test_told_to_exit_it_stays_while_something_runs(own_keeper: Keeper):
    pid = own_keeper.pid
    own_keeper.spawn("last", "sleep", "60")
    own_keeper.started("last")

    own_keeper.send(op="exit")
    own_keeper.send(op="signal", uid="last", signal=9)
    own_keeper.ended("last")
    own_keeper.send(op="exit")

    wait_until(lambda: not is_running(pid))


def test_a_keeper_without_agent_and_work_leaves_by_itself():
    with keeper("--idle-s", "0.2") as own:
        own.shell("brief", f"while [ ! -e {own.folder}/go ]; do sleep 0.01; done")
        own.started("brief")
        pid = own.pid

        own.disconnect()
        (own.folder / "go").touch()

        wait_until(lambda: not is_running(pid))
        assert _ended(own.start(), "brief")["code"] == 0


def test_garbage_on_the_socket_is_survived(own_keeper: Keeper):
    assert own_keeper._socket is not None
    own_keeper._socket.sendall(b'not json\n{"op":"dance"}\n[]\n{"op":"spawn"}\n\n')

    own_keeper.spawn("sane", "true")

    assert own_keeper.ended("sane")["code"] == 0


def test_a_folder_with_a_long_path_works(open_folder: Path):
    deep = open_folder / ("x" * 120)
    deep.mkdir()

    command = [sys.executable, "-I", "-S", str(KEEPER), str(deep)]
    subprocess.run(command, check=True, timeout=DEADLINE_S)

    assert (deep / "keeper.sock").is_socket()
    os.kill(Keeper(deep).pid, signal.SIGTERM)


def test_bad_arguments_are_told_in_one_line():
    command = [sys.executable, "-I", "-S", str(KEEPER), "/tmp", "--speed", "9"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 1
    known = "--idle-s, --start-s, --hold-s, --compact-bytes, --starter"
    assert done.stderr == f"keeper.py: unknown option --speed; known: {known}\n"


class TestLostJournal:
    """The keeper was killed and its journal is gone: what it started is sought by its uid."""

    def forget_all(self, own_keeper: Keeper) -> Keeper:
        own_keeper.kill()
        (own_keeper.folder / "journal").unlink()
        own_keeper.start()
        assert own_keeper.all == []
        return own_keeper

    def test_what_lives_is_in_its_care_again(self, own_keeper: Keeper):
        own_keeper.spawn(SOUGHT, "sleep", "60")
        pid = own_keeper.started(SOUGHT)["pid"]
        self.forget_all(own_keeper)

        own_keeper.send(op="seek", uid=SOUGHT, keep={"grace_s": 3.0})

        assert own_keeper.started(SOUGHT)["pid"] == pid
        assert by_uid(own_keeper.connect().all)[SOUGHT]["keep"] == {"grace_s": 3.0}
        own_keeper.send(op="signal", uid=SOUGHT, signal=signal.SIGTERM)
        assert own_keeper.ended(SOUGHT)["lost"]
        assert not is_running(pid)

    def test_what_is_found_is_known_to_the_next_keeper(self, own_keeper: Keeper):
        own_keeper.spawn(SOUGHT, "sleep", "60")
        pid = own_keeper.started(SOUGHT)["pid"]
        self.forget_all(own_keeper)
        own_keeper.send(op="seek", uid=SOUGHT)
        own_keeper.started(SOUGHT)

        own_keeper.kill()
        own_keeper.start()

        assert by_uid(own_keeper.all)[SOUGHT]["pid"] == pid

    def test_what_does_not_live_is_lost(self, own_keeper: Keeper):
        own_keeper.send(op="seek", uid=GHOST)

        ended = own_keeper.ended(GHOST)

        assert ended["lost"]
        assert ended["error"].startswith("lost: the keeper's journal was lost, and no process")

    def test_of_one_that_is_known_all_is_told(self, own_keeper: Keeper):
        own_keeper.shell("known", "exit 3")
        own_keeper.ended("known")
        own_keeper.connect()

        own_keeper.send(op="seek", uid="known")

        assert own_keeper.ended("known")["code"] == 3


@pytest.mark.root
def test_a_keeper_starts_on_a_full_disk_and_holds_the_lease(open_folder: Path):
    with small_disk(open_folder, "size=1m,mode=755"):
        own = Keeper(open_folder).start()
        own.spawn(SOUGHT, "sleep", "60", keep={"grace_s": 1.0})
        pid = own.started(SOUGHT)["pid"]
        own.kill()
        fill(open_folder / "full")

        own.start()
        own.send(op="lease", until_s=0.0)
        ended = own.ended(SOUGHT)
        (open_folder / "full").unlink()

        assert ended["note"].startswith("cut off from the controller")
        assert not is_running(pid)
        wait_until(lambda: b'"ev":"ended"' in (open_folder / "journal").read_bytes())
        own.clean_up()


def fill(file: Path) -> None:
    with open(file, "wb", buffering=0) as full, suppress(OSError):
        while True:
            full.write(bytes(1024))
