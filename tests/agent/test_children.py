"""Children that act as users: whose rights they have, and what their users can do to them."""

import os
import pwd
import signal
import threading
import time
from pathlib import Path

import pytest

from rota.as_user.children import Child, ErrandFailed, NotInTime, do, named, once

NOBODY = pwd.getpwnam("nobody")
pytestmark = pytest.mark.root


def test_a_child_has_its_users_rights_for_good_and_the_user_cannot_look_into_it(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("ROTA_TOKEN", "secret")

    def look(child: Child) -> tuple[list[str], int, bytes]:
        child.order("who", 10.0)
        child.answer(10.0)
        here = Path(f"/proc/{child.pid}")
        status = dict(line.split(":\t", 1) for line in (here / "status").read_text().splitlines())
        ids = [status["Uid"], status["Gid"]]
        return ids, (here / "environ").stat().st_uid, (here / "environ").read_bytes()

    ids, owner, environment = once(named("nobody"), look)

    assert ids == [f"{n}\t{n}\t{n}\t{n}" for n in (NOBODY.pw_uid, NOBODY.pw_gid)]
    assert owner == 0, "nobody may attach a debugger to it"
    assert b"secret" not in environment


def test_a_child_that_its_user_stops_is_ended_in_its_time():
    stopped = threading.Event()

    def stop_it(child: Child) -> None:
        os.kill(child.pid, signal.SIGSTOP)
        stopped.set()
        child.order("who", 1.0)
        child.answer(1.0)

    began_s = time.monotonic()
    with pytest.raises(NotInTime):
        once(named("nobody"), stop_it)

    assert stopped.is_set()
    assert time.monotonic() - began_s < 20


def test_a_folder_of_somebody_else_is_not_emptied(open_folder: Path):
    (open_folder / "theirs").mkdir()
    (open_folder / "theirs" / "file").write_text("stays")

    with pytest.raises(ErrandFailed, match=r"not permitted|denied"):
        do(named("nobody"), "remove", 10.0, folder=str(open_folder / "theirs"))

    assert (open_folder / "theirs" / "file").read_text() == "stays"


def test_an_unknown_user_is_named():
    with pytest.raises(ErrandFailed, match="user no-such-user: no such user on this node"):
        do(named("no-such-user"), "who", 10.0)
