"""Questions to the memory of users' processes: some are never answered, and that harms nobody."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rota.keeper.asides import ANSWER_S, Asides
from rota.keeper.processes import ENVIRON_BYTES_MAX, attempt_uid, environ_of
from tests.agent.hurdles import VAST_ENVIRONMENT
from tests.agent.support import KEEPER, Keeper, is_running, of_this_run, pid_in, wait_until
from tests.support.machine import missing

HOSTILE, HONEST = 1, 2
SHOWN = of_this_run("shown")


class Room:
    """Asides, and who has answered in which order."""

    def __init__(self) -> None:
        self.poll = select.epoll()
        self.children: set[int] = set()
        self.asides = Asides(self.poll, self.children)
        self.heard: list[tuple[str, bytes, bool]] = []

    def ask(self, name: str, whose: int, words: Iterator[bytes]) -> None:
        self.asides.ask(whose, words, self._hear(name))

    def _hear(self, name: str) -> Callable[[bytes, bool], None]:
        return lambda body, hung: self.heard.append((name, body, hung))

    def settle(self, answers: int) -> None:
        def settled() -> bool:
            for fd, _ in self.poll.poll(self.asides.wait_s()):
                self.asides.take(fd)
            self.asides.enforce()
            return len(self.heard) == answers

        wait_until(settled)


def test_what_hangs_is_given_up_and_delays_only_its_own_users_questions(tmp_path: Path):
    os.mkfifo(tmp_path / "silent")
    room = Room()

    def hangs() -> Iterator[bytes]:
        yield b"so far"
        yield (tmp_path / "silent").read_bytes()

    began_s = time.monotonic()
    room.ask("hangs", HOSTILE, hangs())
    room.ask("behind it", HOSTILE, iter([b"late"]))
    room.ask("another's", HONEST, iter([b"one,", b"two" * 100_000]))
    room.settle(3)

    assert room.heard == [
        ("another's", b"one," + b"two" * 100_000, False),
        ("hangs", b"so far", True),
        ("behind it", b"late", False),
    ]
    assert time.monotonic() - began_s >= ANSWER_S
    for pid in room.children:
        os.waitpid(pid, 0)


def test_a_child_has_no_file_of_its_keeper_but_the_pipe():
    room = Room()

    def listed() -> Iterator[bytes]:
        held = os.listdir("/proc/self/fd")
        yield " ".join(os.readlink(f"/proc/self/fd/{fd}") for fd in held[:1]).encode()
        # The second is the folder that is being read.
        yield f" {len(held)}".encode()

    room.ask("files", HONEST, listed())
    room.settle(1)

    ((_, said, _),) = room.heard
    assert said.startswith(b"pipe:")
    assert said.endswith(b" 2")
    for pid in room.children:
        os.waitpid(pid, 0)


def show_vast(tmp_path: Path, first: str) -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-I", "-S", "-c", VAST_ENVIRONMENT, str(tmp_path / "said"), first]
    process = subprocess.Popen(words)
    said = wait_until(lambda: (tmp_path / "said").exists() and (tmp_path / "said").read_text())
    if said != "shown":
        process.kill()
        process.wait()
        missing(f"PR_SET_MM_MAP: {said}")
    return process


def test_of_an_environment_of_any_size_a_little_is_read(tmp_path: Path):
    process = show_vast(tmp_path, "ROTA_ATTEMPT_UID=of-it")

    uid, size = attempt_uid(process.pid), sum(map(len, environ_of(process.pid)))
    process.kill()
    process.wait()

    assert uid == "of-it"
    assert size <= ENVIRON_BYTES_MAX


def test_a_uid_is_read_as_far_as_one_may_be_long():
    words = {"ROTA_ATTEMPT_UID": "x" * 100_000}
    with subprocess.Popen(["sleep", "60"], env=words) as process:
        uid = wait_until(lambda: attempt_uid(process.pid))
        process.kill()

    assert len(uid) < 1000


#: The keeper's files know each other only in a process of their own.
BEGINNING = """
import os, select, subprocess, sys, time
from keeper import origins
from keeper.asides import Asides
from keeper.journal import RUNNING, Attempt
from keeper.processes import attempt_uid, look

uid = sys.argv[1]
attempt = Attempt(uid, {}, "")
asides = Asides(select.epoll(), set())
words = {"ROTA_ATTEMPT_UID": uid}
first, second = (subprocess.Popen(["sleep", "60"], env=words) for _ in range(2))
while attempt_uid(first.pid) != uid or attempt_uid(second.pid) != uid:
    time.sleep(0.01)
"""
ASKED_AGAIN = """
attempt.phase, heard = RUNNING, []
known = origins.Origins({uid: attempt}, {uid: attempt}, asides, heard.append)
orphan = known.of(look(first.pid), {})
fork = os.fork
def no_process():
    raise BlockingIOError
os.fork = no_process
known.ask(orphan)
known.flush()
os.fork = fork
before = len(heard)
known.flush()
asides.settle(60)
print(before, len(heard), orphan.owner == uid)
"""
BEHIND = """
def uid_of(pid):
    return attempt_uid(pid) if pid != first.pid else time.sleep(60)
origins.attempt_uid = uid_of
found = origins.Origins({}, {}, asides, print).find([attempt])
print([one.pid for one in found[uid]] == [second.pid])
"""


@pytest.mark.parametrize(("story", "told"), [(ASKED_AGAIN, "0 1 True"), (BEHIND, "True")])
def test_what_could_not_be_asked_and_what_is_behind_it_is_asked_again(story: str, told: str):
    """There was no process to ask with; one of a user does not answer while a keeper begins."""
    words = [sys.executable, "-c", f"{BEGINNING}{story}first.kill(), second.kill()"]
    done = subprocess.run(
        [*words, of_this_run("asked")],
        cwd=KEEPER.parents[1],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout == f"{told}\n"


@pytest.mark.root
def test_who_is_another_user_does_not_become_what_the_keeper_was_about_to_start(
    open_folder: Path,
):
    """The word of its environment counts as far as its user goes."""
    intent = {"ev": "intent", "uid": SHOWN, "keep": {"user": "daemon"}, "cgroup": ""}
    (open_folder / "journal").write_text(json.dumps(intent) + "\n")
    pretender = subprocess.Popen(["sleep", "60"], env={"ROTA_ATTEMPT_UID": SHOWN}, user="nobody")
    wait_until(lambda: attempt_uid(pretender.pid) == SHOWN)
    true = subprocess.Popen(["sleep", "60"], env={"ROTA_ATTEMPT_UID": SHOWN}, user="daemon")
    wait_until(lambda: attempt_uid(true.pid) == SHOWN)

    own = Keeper(open_folder).start()

    assert [(one["phase"], one["pid"]) for one in own.all] == [("running", true.pid)]
    own.send(op="signal", uid=SHOWN, signal=9)
    assert true.wait(60) == -9
    assert pretender.poll() is None
    pretender.kill()
    pretender.wait()
    own.clean_up()


def test_what_left_its_attempt_gets_the_signals_of_that_one_and_of_no_other(
    keeper: Keeper, tmp_path: Path
):
    """Which of two attempts of one user it is of is known only by its memory."""
    daemon = 'setsid sh -c \'trap "echo {name} >> {place}/heard" USR1; echo $$ > {place}/{name};'
    daemon += " while :; do sleep 0.01; done' &"
    script = f"({daemon}); trap : USR1; while :; do sleep 0.01; done"
    uids = [of_this_run(name) for name in ("left", "right")]
    for name, uid in zip(("left", "right"), uids, strict=True):
        keeper.shell(uid, script.format(name=name, place=tmp_path))
        pid_in(tmp_path / name)

    keeper.send(op="signal", uid=uids[1], signal=10)

    wait_until((tmp_path / "heard").exists)
    keeper.send(op="signal", uid=uids[0], signal=9)
    keeper.ended(uids[0])
    assert (tmp_path / "heard").read_text() == "right\n"
    assert not is_running(pid_in(tmp_path / "left"))
    assert is_running(pid_in(tmp_path / "right"))
    keeper.send(op="signal", uid=uids[1], signal=9)
    keeper.ended(uids[1])
