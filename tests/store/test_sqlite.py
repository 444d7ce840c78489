"""SQLite on real files: what can go wrong with a disk, and what a killed process leaves."""

import os
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from rota.core.facts.errors import Rejected, Unavailable
from rota.store import sqlite as sqlite_module
from rota.store.api import Batch
from rota.store.open import open_store
from rota.store.sqlite import LOG_BYTES
from tests.store.builders import Log, job
from tests.support.machine import REPOSITORY, missing

NOBODY = 65534


def test_the_file_is_for_its_owner_alone(tmp_path):
    store = open_store(str(tmp_path / "rota.db"))
    store.commit(Batch(jobs=[job(1)]))

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    store.close()

    assert modes == {"rota.db": 0o600, "rota.db-wal": 0o600, "rota.db-shm": 0o600}


@pytest.mark.parametrize("form", ["{path}", "sqlite:///{path}", "sqlite+pysqlite:///{path}"])
def test_a_path_and_a_url_name_the_same_file(tmp_path, form):
    path = tmp_path / "odd name ?#%.db"

    open_store(form.format(path=path)).close()

    assert path.exists()


@pytest.mark.parametrize(
    "url", ["", "mysql://x/y", "sqlite://", "postgresql://", "sqlite:///:memory:"]
)
def test_a_url_of_no_known_kind_is_refused_and_says_what_is_allowed(url):
    with pytest.raises(Rejected, match="postgresql://USER"):
        open_store(url)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(Rejected, match=f"no folder {tmp_path}/absent") as caught:
        open_store(str(tmp_path / "absent" / "rota.db"))

    assert "\n" not in str(caught.value)


def test_a_folder_in_place_of_the_file_is_refused(tmp_path):
    with pytest.raises(Rejected, match="is a folder"):
        open_store(str(tmp_path))


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "rota.db"
    path.write_text("not a database, but somebody's notes\n" * 100)

    with pytest.raises(Rejected, match="is not a Rota database"):
        open_store(str(path))

    assert path.read_text().startswith("not a database")


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root may write anywhere, so be nobody for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that any user can reach; pytest's own are closed."""
    with tempfile.TemporaryDirectory(prefix="rota-open-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


def test_a_folder_that_takes_no_files_is_refused_in_one_line(open_folder):
    open_folder.chmod(0o555)

    with unprivileged(), pytest.raises(Unavailable, match="cannot write the database") as caught:
        open_store(str(open_folder / "rota.db"))

    assert "\n" not in str(caught.value)


def test_a_database_in_a_folder_that_takes_no_files_is_refused(open_folder):
    path = open_folder / "rota.db"
    open_store(str(path)).close()
    path.chmod(0o666)
    open_folder.chmod(0o555)

    with unprivileged(), pytest.raises(Unavailable, match="the folder is read-only"):
        open_store(str(path))


@contextmanager
def largest_file(size_bytes: int) -> Iterator[None]:
    """Writes beyond this size of a file fail, as on a disk that has no room."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_the_disk_refuses_changes_nothing_and_the_store_works_on(
    tmp_path, sqlite_store
):
    log = Log()
    sqlite_store.commit(log.submitted(job(1)))
    big = Batch(jobs=[job(2, name="x" * 500_000)], blobs={"d": b"x" * 500_000})
    size = (tmp_path / "rota.db-wal").stat().st_size

    with largest_file(size + 200_000), pytest.raises(Unavailable, match="nothing was changed"):
        sqlite_store.commit(big)
    sqlite_store.commit(log.submitted(job(3)))

    assert [one.id for one in sqlite_store.load().jobs] == [1, 3]
    assert sqlite_store.blob("d") is None
    assert sqlite_store.driver.read("PRAGMA integrity_check") == [("ok",)]


@pytest.mark.root
def test_a_full_disk_is_named_and_the_store_works_on_once_there_is_room(tmp_path):
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)], check=False
    )
    if mounted.returncode != 0:
        missing("cannot mount a small file system")
    try:
        filler = tmp_path / "filler"
        store = open_store(str(tmp_path / "rota.db"))
        store.commit(Log().submitted(job(1)))
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(b"x" * 4096):
                pass

        with pytest.raises(Unavailable, match=r"rota\.db is full: nothing was changed"):
            store.commit(Batch(jobs=[job(2)], blobs={"d": b"x" * 100_000}))
        while_full = [one.id for one in store.load().jobs]
        filler.unlink()
        store.commit(Batch(jobs=[job(3)]))
        after = [one.id for one in store.load().jobs]
        store.close()
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)

    assert (while_full, after) == ([1], [1, 3])


def test_a_database_that_another_program_locks_is_reported(tmp_path, sqlite_store, monkeypatch):
    sqlite_store.driver._writer.execute("PRAGMA busy_timeout = 10")
    other = sqlite3.connect(tmp_path / "rota.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(Unavailable, match="locked by another program"):
        sqlite_store.commit(Batch(jobs=[job(1)]))

    other.execute("ROLLBACK")
    other.close()
    sqlite_store.commit(Batch(jobs=[job(1)]))
    assert sqlite_store.job(1) == job(1)


def test_tidying_empties_the_log_and_keeps_everything(tmp_path, sqlite_store):
    log = Log()
    for number in range(1, 300):
        sqlite_store.commit(log.submitted(job(number)))
    backlog = sqlite_store.backlog

    sqlite_store.tidy()

    assert backlog >= 2 * 299
    assert sqlite_store.backlog == 0
    _, in_log, moved = sqlite_store.driver.read("PRAGMA wal_checkpoint(PASSIVE)")[0]
    assert in_log == moved
    assert len(sqlite_store.load().jobs) == 299


def test_the_log_is_set_aside_once_and_a_copy_of_it_loses_nothing(tmp_path, sqlite_store):
    log = Log()
    path = Path(sqlite_store.name)
    write_ahead = path.with_name(path.name + "-wal")
    sqlite_store.commit(log.submitted(job(1)))
    sqlite_store.tidy()
    idle = write_ahead.stat().st_size
    for number in range(2, 102):
        sqlite_store.commit(log.submitted(job(number)))
    sqlite_store.tidy()
    length = write_ahead.stat().st_size

    for number in range(102, 140):
        sqlite_store.commit(log.submitted(job(number)))

    assert idle < LOG_BYTES
    assert write_ahead.stat().st_size == length == LOG_BYTES
    # What a machine that lost its power would find: the files as they are, nothing closed.
    copy = tmp_path / "copy.db"
    shutil.copy(path, copy)
    shutil.copy(write_ahead, tmp_path / "copy.db-wal")
    found = open_store(str(copy))
    jobs = found.load().jobs
    found.close()
    assert [one.id for one in jobs] == list(range(1, 140))


def test_no_other_program_commits_while_the_log_is_set_aside(sqlite_store, monkeypatch):
    """It would write where the zeros go."""
    sqlite_store.commit(Log().submitted(*(job(number) for number in range(1, 102))))
    refused: list[str] = []

    def lengthen(path: Path) -> None:
        with closing(sqlite3.connect(sqlite_store.name, timeout=0)) as other:
            with pytest.raises(sqlite3.OperationalError) as caught:
                other.execute("BEGIN IMMEDIATE")
            refused.append(str(caught.value))

    monkeypatch.setattr(sqlite_module, "_lengthen", lengthen)
    sqlite_store.tidy()
    sqlite_store.commit(Batch(jobs=[job(102)]))

    assert refused == ["database is locked"]
    assert sqlite_store.job(102) == job(102)


def test_a_disk_with_little_room_has_nothing_set_aside(sqlite_store, monkeypatch):
    monkeypatch.setattr(sqlite_module, "FREE_BYTES_MIN", 1 << 62)
    path = Path(sqlite_store.name)
    sqlite_store.commit(Log().submitted(*(job(number) for number in range(1, 102))))

    sqlite_store.tidy()

    assert path.with_name(path.name + "-wal").stat().st_size < LOG_BYTES
    assert sqlite_store.job(1) == job(1)


COMMIT_FOREVER = """
import sys
from rota.store.open import open_store
from tests.store.builders import Log, job
store = open_store(sys.argv[1])
first = store.load()
log = Log(first=first.next_seq)
number = first.next_id
while True:
    store.commit(log.submitted(job(number), job(number + 1)))
    print(number, flush=True)
    number += 2
    if number % 128 == 1:
        store.tidy()
"""


@pytest.mark.slow
def test_a_process_killed_while_it_commits_loses_nothing_that_it_acknowledged(tmp_path):
    path = tmp_path / "rota.db"
    acknowledged = 0

    for kills in range(1, 6):
        process = subprocess.Popen(
            [sys.executable, "-c", COMMIT_FOREVER, str(path)],
            env={**os.environ, "PYTHONPATH": f"{REPOSITORY / 'src'}:{REPOSITORY}"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(20 * kills):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split("\n")
        process.wait()
        process.stdout.close()
        acknowledged = max([acknowledged, *(int(line) for line in rest[:-1])])
    store = open_store(str(path))
    loaded = store.load()
    intact = store.driver.read("PRAGMA integrity_check")
    store.close()

    ids = [one.id for one in loaded.jobs]
    assert ids == list(range(1, len(ids) + 1))
    assert len(ids) >= acknowledged + 1
    assert len(ids) % 2 == 0, "a batch of two jobs was torn apart"
    assert loaded.next_seq == len(ids) + 1
    assert intact == [("ok",)]


def test_pages_that_are_garbage_are_called_damaged_in_one_line(tmp_path):
    path = tmp_path / "rota.db"
    open_store(str(path)).close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    whole = path.read_bytes()
    # A name that is no text, in words that SQLite cannot read: its complaint is no text, either.
    path.write_bytes(
        whole.replace(b"tablealembic_version", b"table\xff\xfeembic_version").replace(
            b"CREATE TABLE alem", b"CRXATE TABLE alem"
        )
    )

    with pytest.raises(Unavailable, match="is damaged: restore it from a backup") as refused:
        open_store(str(path))

    assert "\n" not in str(refused.value)


#: Where nothing can be locked, as on a network file system without its lock service.
NO_LOCKS = """
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>
static int call(int fd, int cmd, void *value) {
    if (cmd == F_SETLK || cmd == F_SETLKW || cmd == F_GETLK) { errno = ENOLCK; return -1; }
    return syscall(SYS_fcntl, fd, cmd, value);
}
int fcntl(int fd, int cmd, ...) {
    va_list rest; va_start(rest, cmd); return call(fd, cmd, va_arg(rest, void *));
}
int fcntl64(int fd, int cmd, ...) {
    va_list rest; va_start(rest, cmd); return call(fd, cmd, va_arg(rest, void *));
}
"""


def test_a_file_system_without_locks_is_named(tmp_path, run_python, monkeypatch):
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        missing("no compiler of C")
    library = tmp_path / "no_locks.so"
    (tmp_path / "no_locks.c").write_text(NO_LOCKS)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", str(library), str(tmp_path / "no_locks.c")], check=True
    )
    monkeypatch.setenv("LD_PRELOAD", str(library))

    said = run_python(f"""
from rota.core.facts.errors import Unavailable
from rota.store.open import open_store
try:
    open_store({str(tmp_path / "rota.db")!r})
except Unavailable as error:
    print(error)
""")

    assert said == (
        f"cannot use the database {tmp_path / 'rota.db'}: its file system has no locks"
        " (No locks available); keep it on a local disk\n"
    )
