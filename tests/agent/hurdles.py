"""What can stand between an order and its program: held files, dead file systems, no processes."""

import contextlib
import ctypes
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.machine import missing

#: Holds a write lease on a file of its own and does not let go of it when the kernel asks.
HOLD_FILE = """
import fcntl, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = open(sys.argv[1], "r+b")
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("held", flush=True)
sys.stdin.read()
"""
#: Stops everything of its user, itself apart, again and again.
STOP_ALL = """
import os, signal
print("stops", flush=True)
while True:
    try:
        os.kill(-1, signal.SIGSTOP)
    except ProcessLookupError:
        pass
"""
#: Leaves its session and shows four gigabytes of its memory as its environment; then it says so.
#: Arguments: where, and what the first of it shall be.
VAST_ENVIRONMENT = """
import ctypes, mmap, os, sys
os.setsid()
size = 4 << 30
room = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)
room[: len(sys.argv[2])] = sys.argv[2].encode()
begin = ctypes.addressof(ctypes.c_char.from_buffer(room))
fields = open("/proc/self/stat").read().rpartition(")")[2].split()
code, end_code, stack = (int(fields[number - 3]) for number in (26, 27, 28))
data, end_data, heap, args, end_args = (int(fields[number - 3]) for number in range(45, 50))
break_now = ctypes.CDLL(None).sbrk
break_now.restype = ctypes.c_void_p
class Map(ctypes.Structure):
    _fields_ = [("at", ctypes.c_uint64 * 12), ("auxv_size", ctypes.c_uint32),
                ("exe", ctypes.c_int32)]
told = (code, end_code, data, end_data, heap, break_now(0), stack, args, end_args, begin,
        begin + size, 0)
shown = Map((ctypes.c_uint64 * 12)(*told), 0, -1)
libc = ctypes.CDLL(None, use_errno=True)
PR_SET_MM, PR_SET_MM_MAP = 35, 14
failed = libc.prctl(PR_SET_MM, PR_SET_MM_MAP, ctypes.byref(shown), ctypes.sizeof(shown), 0)
with open(sys.argv[1] + ".new", "w") as file:
    file.write(os.strerror(ctypes.get_errno()) if failed else "shown")
os.rename(sys.argv[1] + ".new", sys.argv[1])
import time
time.sleep(300)
"""
PIDS = Path("/sys/fs/cgroup/pids")
_MNT_DETACH, _MNT_FORCE = 2, 1


@contextlib.contextmanager
def background(script: str, *arguments: str, user: str | None = None) -> Iterator[None]:
    """A process of that user, from its first line on until the block ends."""
    command = [sys.executable, "-I", "-c", script, *arguments]
    if user is not None:
        # Every user may run the system's.
        command[0] = shutil.which("python3", path="/usr/bin:/bin:/usr/local/bin") or command[0]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=user, cwd="/"
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline(), "it did not come so far"
        yield
    finally:
        process.kill()
        process.communicate()


def own_program(folder: Path, name: str, user: str | None = None) -> Path:
    """A program that says ``ran`` and sleeps if told to; it belongs to the user."""
    program = folder / name
    shutil.copy("/bin/sleep", program)
    program.chmod(0o755)
    if user is not None:
        entry = pwd.getpwnam(user)
        os.chown(program, entry.pw_uid, entry.pw_gid)
    return program


@contextlib.contextmanager
def dead_file_system(folder: Path) -> Iterator[Path]:
    """A mounted folder that never answers, as a server that has gone."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        missing(f"/dev/fuse: {error.strerror}")
    options = f"fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    place = str(folder).encode()
    if libc.mount(b"dead", place, b"fuse", 0, options) != 0:
        os.close(fd)
        missing(f"mounting: {os.strerror(ctypes.get_errno())}")
    try:
        yield folder
    finally:
        libc.umount2(place, _MNT_FORCE | _MNT_DETACH)
        os.close(fd)


@contextlib.contextmanager
def group_of_processes(name: str) -> Iterator[Path]:
    """A control group that counts processes; what is in it goes back when the block ends."""
    if not (PIDS / "cgroup.procs").exists():
        missing("needs a control group that counts processes (version 1)")
    group = PIDS / name
    group.mkdir()
    try:
        yield group
    finally:
        (group / "pids.max").write_text("max")
        for pid in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (PIDS / "cgroup.procs").write_text(pid)
        group.rmdir()


@contextlib.contextmanager
def unified_group(name: str) -> Iterator[Path]:
    """A control group of version 2, whichever controllers it has."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    tops = [Path(place) for _, place, kind, *_ in mounts if kind == "cgroup2"]
    if not tops:
        missing("needs version 2 of control groups")
    group = tops[0] / name
    group.mkdir()
    try:
        yield group
    finally:
        group.rmdir()
