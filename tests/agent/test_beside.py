"""One more process in an attempt that runs: whose it is, and when it goes."""

import os
import signal
from pathlib import Path

from tests.agent.support import Keeper, is_running, pid_in, wait_until


def run(keeper: Keeper, folder: Path) -> str:
    """An attempt that runs until the file ``go`` is there; its uid."""
    uid, path = f"host-{folder.name}", f"PATH={os.environ['PATH']}"
    waits = f"until [ -e {folder}/go ]; do sleep 0.01; done"
    keeper.shell(uid, waits, env=["FLAVOUR=mint", path])
    keeper.started(uid)
    return uid


def test_it_has_the_environment_of_the_attempt_and_goes_with_it(keeper: Keeper, tmp_path: Path):
    uid = run(keeper, tmp_path)
    script = 'echo "$FLAVOUR $ROTA_ATTEMPT_UID" > $0/found; echo $$ > $0/pid; exec sleep 60'

    keeper.send(op="beside", uid=uid, user=None, argv=["sh", "-c", script, str(tmp_path)])
    pid = pid_in(tmp_path / "pid")
    (tmp_path / "go").touch()

    assert keeper.ended(uid)["code"] == 0
    assert (tmp_path / "found").read_text() == f"mint {uid}\n"
    assert not is_running(pid)


def test_it_hears_the_signals_of_the_attempt(keeper: Keeper, tmp_path: Path):
    uid = run(keeper, tmp_path)
    script = "trap 'touch $0/heard' CONT; echo $$ > $0/pid; while :; do sleep 0.01; done"
    keeper.send(op="beside", uid=uid, user=None, argv=["sh", "-c", script, str(tmp_path)])
    pid_in(tmp_path / "pid")

    keeper.send(op="signal", uid=uid, signal=signal.SIGCONT)

    wait_until((tmp_path / "heard").exists)
    keeper.send(op="signal", uid=uid, signal=signal.SIGKILL)
    keeper.ended(uid)


def test_its_own_end_is_nobodys_and_the_attempt_goes_on(keeper: Keeper, tmp_path: Path):
    uid = run(keeper, tmp_path)

    keeper.send(op="beside", uid=uid, user=None, argv=["sh", "-c", f"echo $$ > {tmp_path}/pid"])
    pid = pid_in(tmp_path / "pid")
    wait_until(lambda: not is_running(pid))

    assert is_running(keeper.started(uid)["pid"])
    (tmp_path / "go").touch()
    assert keeper.ended(uid)["code"] == 0


def test_beside_what_does_not_run_nothing_is_started_and_the_keeper_goes_on(
    keeper: Keeper, tmp_path: Path
):
    keeper.shell("over", "true")
    keeper.ended("over")

    for uid, argv in (("over", ["touch", f"{tmp_path}/x"]), ("none", ["true"]), ("over", [])):
        keeper.send(op="beside", uid=uid, user=None, argv=argv)
    keeper.shell("next", "exit 3")

    assert keeper.ended("next")["code"] == 3
    assert not (tmp_path / "x").exists()
