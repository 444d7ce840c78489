"""A real systemd, as the first process of a machine of its own that sees our files through a veil.

What it and its services write is gone with it: the root is an overlay over that of this machine,
and processes, mounts, control groups, names and network are its own.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.machine import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = Path("/lib/systemd/systemd")
START_S = 30.0
NAMESPACES = ("--fork", "--mount", "--pid", "--uts", "--ipc", "--cgroup", "--net")
#: The mounts of the machine; $1 is the folder for them, the others are folders that it must see.
SCRIPT = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
cd "$1/root"
shift
for folder; do mkdir -p ".$folder"; mount --bind "$folder" ".$folder"; done
mount -t proc proc proc
mount -t tmpfs tmpfs run
mount --rbind /dev dev
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
ip link set lo up
# Nothing of what a start usually does: the kernel is not its own.
rm -rf usr/lib/systemd/system/*.wants etc/systemd/system/*.wants
for name in default network-online; do ln -sf /dev/null etc/systemd/system/$name.target; done
for name in nothing sysinit; do
    printf '[Unit]\\nDefaultDependencies=no\\n' > etc/systemd/system/$name.target
done
exec env -i container=tests PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    chroot . /lib/systemd/systemd --system --unit=nothing.target --log-target=console
"""


class Machine:
    """Commands run in it as they would at its console."""

    def __init__(self, pid: int, root: str) -> None:
        self._enter = ["nsenter", "--target", str(pid), "--mount", "--pid", "--cgroup", "--net"]
        self._root = root

    def run(self, *words: str, check: bool = True) -> str:
        """What a command prints."""
        done = subprocess.run(
            [*self._enter, "chroot", self._root, "env", *self._environment(), *words],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
            check=False,
        )
        assert not check or done.returncode == 0, f"{shlex.join(words)}: {done.stderr}"
        return done.stdout + done.stderr

    def rota(self, *words: str, check: bool = True) -> str:
        return self.run(sys.executable, "-m", "rota.cli.main", *words, check=check)

    def write(self, path: str, text: str) -> None:
        self.run(
            "sh", "-c", f"mkdir -p {os.path.dirname(path)}; printf %s {shlex.quote(text)} > {path}"
        )

    def _environment(self) -> list[str]:
        return [
            "-i",
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME=/root",
            f"PYTHONPATH={python_path()}",
        ]


def python_path() -> str:
    return str(REPOSITORY / "src")


def obstacle() -> str:
    """Why no such machine can be had here; empty: it can."""
    if os.geteuid() != 0:
        return "needs the rights of root"
    if not PROGRAM.exists():
        return "no systemd on this machine"
    lacking = [name for name in ("unshare", "nsenter", "ip") if shutil.which(name) is None]
    if lacking:
        return f"no {lacking[0]} on this machine"
    tried = subprocess.run(["unshare", *NAMESPACES, "true"], capture_output=True, check=False)
    return "" if tried.returncode == 0 else "no namespaces of our own here"


@contextmanager
def running_machine() -> Iterator[Machine]:
    """A machine with nothing on it but systemd."""
    with tempfile.TemporaryDirectory(prefix="rota-systemd-") as folder:
        outside = {str(REPOSITORY), sys.prefix, str(Path(sys.executable).resolve().parents[1])}
        process = subprocess.Popen(
            [
                "unshare",
                *NAMESPACES,
                "--kill-child",
                "bash",
                "-c",
                SCRIPT,
                "bash",
                folder,
                *outside,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield _awaited(process, folder)
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate()


def _awaited(process: subprocess.Popen[str], folder: str) -> Machine:
    """The machine, once its systemd answers."""
    until_s = time.monotonic() + START_S
    while time.monotonic() < until_s and process.poll() is None:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        if children:
            machine = Machine(int(children[0]), f"{folder}/root")
            if "running" in machine.run("systemctl", "is-system-running", check=False):
                return machine
        time.sleep(0.05)
    process.kill()
    raise AssertionError(f"systemd did not start: {process.communicate()[1]}")
