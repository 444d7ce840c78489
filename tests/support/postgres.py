"""A real PostgreSQL server for the tests, on a private folder that is thrown away.

The server listens on a free port of the loopback address and on a socket in its own folder. It
never syncs to disk and dies with the process that started it.
"""

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import psycopg

from tests.support.ports import quiet_port

ROLE = "rota"
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 15
#: Two test processes may choose the same port; the loser takes another one.
START_TRIES = 3
PR_SET_PDEATHSIG = 1

SETTINGS = {
    "autovacuum": "off",
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "127.0.0.1",
    "max_connections": "60",
    "max_wal_senders": "0",
    "shared_buffers": "16MB",
    "synchronous_commit": "off",
    "timezone": "UTC",
    "wal_level": "minimal",
}


class ServerFailed(Exception):
    """The server's programs exist, but it did not start; the message carries its log."""


def find_programs() -> Path | None:
    """The folder that holds ``initdb`` and ``postgres``, the newest release first."""
    in_path = shutil.which("initdb")
    places = [Path(in_path).resolve().parent] if in_path else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_release, reverse=True)
    places += [Path("/usr/local/bin"), Path("/usr/local/pgsql/bin")]
    for place in places:
        if all(os.access(place / name, os.X_OK) for name in ("initdb", "postgres")):
            return place
    return None


def _release(folder: Path) -> float:
    try:
        return float(folder.parent.name)
    except ValueError:
        return 0.0


class PostgresServer:
    """A running server, from which a test takes a database of its own."""

    def __init__(self, port: int, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.port = port
        self._folder = folder
        self._process = process
        self._numbers = count(1)

    @contextmanager
    def database(self, template: str = "template0") -> Iterator[str]:
        """The URL of a fresh, empty database that is dropped afterwards; or of a copy of one."""
        name = f"rota_{next(self._numbers)}"
        self._execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        try:
            yield f"postgresql+psycopg://{ROLE}@127.0.0.1:{self.port}/{name}"
        finally:
            self._execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    @contextmanager
    def forgetting(self, url: str) -> Iterator[None]:
        """What is committed within is lost afterwards, as after a failover to a server that had not
        heard of it: the database is that of before."""
        name, before = url.rpartition("/")[2], f"{url.rpartition('/')[2]}_before"
        self._close_door(name)
        self._execute(f"CREATE DATABASE {before} TEMPLATE {name}")
        self._execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        try:
            yield
        finally:
            self._close_door(name)
            self._execute(f"DROP DATABASE {name} WITH (FORCE)")
            self._execute(f"ALTER DATABASE {before} RENAME TO {name}")

    def _close_door(self, name: str) -> None:
        """Nobody is connected to it, and nobody can be; the copy of it lets people in again."""
        self._execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        with _connect(self.port) as connection:
            gone = "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity"
            connection.execute(f"{gone} WHERE datname = %s", (name,))

    def execute(self, statement: str) -> None:
        """As its administrator, in no database of a test."""
        self._execute(statement)

    def by_socket(self, url: str) -> str:
        """The same database, for processes in another network namespace."""
        address = f"127.0.0.1:{self.port}"
        return url.replace(address, "") + f"?host={self._folder}&port={self.port}"

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """The server stands still: connections are open, and nobody answers."""
        main = psutil.Process(self._process.pid)
        # First the one that would take in others.
        stopped = [main]
        main.suspend()
        for child in main.children(recursive=True):
            child.suspend()
            stopped.append(child)
        try:
            yield
        finally:
            for process in stopped:
                process.resume()

    def terminate(self, url: str) -> None:
        """Cut the connections of every Rota to one database, as a failover would."""
        with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND application_name = 'rota'"
            )

    def _execute(self, statement: str) -> None:
        with _connect(self.port) as connection:
            connection.execute(statement)


@contextmanager
def running_server(programs: Path) -> Iterator[PostgresServer]:
    """A server from first file to last: initialised, started, stopped, removed."""
    # pytest's own temporary folders are closed to other users and their paths are too long for a
    # socket, so the server gets a folder of its own.
    folder = Path(tempfile.mkdtemp(prefix="rota-pg-"))
    try:
        identity = _unprivileged(folder)
        _initialise(programs, folder, identity)
        process, port = _start(programs, folder, identity)
        try:
            yield PostgresServer(port, process, folder)
        finally:
            _stop(process)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged(folder: Path) -> dict[str, Any]:
    """What ``subprocess`` needs to run the server, which refuses to be root."""
    options: dict[str, Any] = {"cwd": folder, "env": os.environ | {"LC_ALL": "C.UTF-8"}}
    if os.geteuid() != 0:
        return options
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    user = names.get("postgres") or names["nobody"]
    os.chown(folder, user.pw_uid, user.pw_gid)
    return options | {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _initialise(programs: Path, folder: Path, identity: dict[str, Any]) -> None:
    command = [
        *(str(programs / "initdb"), "--pgdata", str(folder / "files")),
        *("--username", ROLE, "--auth", "trust", "--encoding", "UTF8", "--locale", "C.UTF-8"),
        "--no-sync",
    ]
    done = subprocess.run(command, **identity, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ServerFailed(f"initdb: {done.stdout}{done.stderr}")


def _start(
    programs: Path, folder: Path, identity: dict[str, Any]
) -> tuple[subprocess.Popen[bytes], int]:
    log = folder / "server.log"
    for _ in range(START_TRIES):
        port = quiet_port()
        command = [str(programs / "postgres"), "-D", str(folder / "files"), "-p", str(port)]
        for name, value in (SETTINGS | {"unix_socket_directories": str(folder)}).items():
            command += ["-c", f"{name}={value}"]
        with log.open("ab") as output:
            process = subprocess.Popen(
                command, **identity, stdout=output, stderr=output, preexec_fn=_die_with_parent
            )
        if _answers(process, folder, port):
            return process, port
        _stop(process)
    raise ServerFailed(log.read_text(errors="replace"))


def _die_with_parent() -> None:
    # Runs after the change of user, which would clear the setting.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)


def _answers(process: subprocess.Popen[bytes], folder: Path, port: int) -> bool:
    """Asked over the socket in its own folder: at the port another server might answer."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline_s:
        try:
            _connect(port, str(folder)).close()
        except psycopg.OperationalError:
            time.sleep(0.05)
        else:
            return True
    return False


def _connect(port: int, host: str = "127.0.0.1") -> psycopg.Connection[Any]:
    return psycopg.connect(host=host, port=port, user=ROLE, dbname="postgres", autocommit=True)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """A fast shutdown; open connections are cut."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
