"""SQLite: a write-ahead log that is synced at each commit, one writer, readers beside it."""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rota.core.facts.errors import Rejected, RotaError, Unavailable
from rota.store.errors import Contradiction

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

    from rota.store.driver import Probe
    from rota.store.statements import Statement

log = logging.getLogger(__name__)

#: Older ones can corrupt the file when two connections checkpoint at the same instant. Ours
#: cannot: only the writing connection ever does.
GOOD_VERSION = (3, 51, 3)
BUSY_TIMEOUT_S = 5.0
#: A commit that leaves more pages than this in the log also moves them into the database. That
#: makes it slow, so ``tidy`` should come first; this is for callers that never tidy.
CHECKPOINT_PAGES = 10_000
#: The log file is cut back to this size, should a long reader once have made it grow.
LOG_BYTES_MAX = 64 << 20
#: The log is written out to this length once: to sync what is written over something old takes
#: half the time of a sync that has to record a longer file, and far less on a busy disk.
LOG_BYTES = 16 << 20
#: Fewer rows than this between two times of tidying are not worth it.
LOG_ROWS_MIN = 100
#: Nothing is set aside on a disk with less than this left.
FREE_BYTES_MIN = 256 << 20
#: Free pages that stay in the file, and how many are given back at once.
FREE_PAGES_KEPT, PAGES_GIVEN = 512, 256
CACHE_KIB = 16 * 1024
STATEMENTS_CACHED = 256


class SqliteDriver:
    """A database file. See ``driver.Driver``."""

    dialect = "sqlite"
    local = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self.name = str(self.path)
        self.backlog = 0
        self._readers: deque[sqlite3.Connection] = deque()
        self._closed = False
        self._lengthened = False
        #: Tidying may begin just when somebody outside the writer's thread commits.
        self._lock = threading.Lock()
        _make_file(self.path)
        try:
            self._writer = self._connect()
            self._prepare(self._writer)
        except (sqlite3.Error, UnicodeError) as error:
            raise self._translated(error) from error
        self._cursor = self._writer.cursor()
        if sqlite3.sqlite_version_info < GOOD_VERSION:
            log.debug("SQLite %s is older than 3.51.3", sqlite3.sqlite_version)

    def lead(self) -> None:
        """Nothing: the lock on the state folder lasts as long as this process."""

    def prove(self) -> None:
        """Nothing: see ``lead``."""

    def write(self, statements: Sequence[Statement], probe: Probe | None = None) -> None:
        with self._lock:
            self._write(statements)

    def _write(self, statements: Sequence[Statement]) -> None:
        execute = self._cursor.execute
        changes_before = self._writer.total_changes
        try:
            execute("BEGIN IMMEDIATE")
            for text, values in statements:
                execute(text, values)
            execute("COMMIT")
            self.backlog += self._writer.total_changes - changes_before
        except BaseException as error:
            self._roll_back()
            if isinstance(error, sqlite3.Error):
                raise self._translated(error) from error
            raise

    def read(self, text: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            connection = self._readers.pop()
        except IndexError:
            connection = self._open_reader()
        try:
            return connection.execute(text, values).fetchall()
        except (sqlite3.Error, UnicodeError) as error:
            raise self._translated(error) from error
        finally:
            if self._closed:
                connection.close()
            else:
                self._readers.append(connection)

    def tables(self) -> frozenset[str]:
        text = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%'"
        return frozenset(name for (name,) in self.read(f"{text} ESCAPE '!'"))

    def engine(self, *, reigns: bool = False) -> sa.Engine:
        import sqlalchemy as sa

        engine = sa.create_engine("sqlite://", creator=self._connect, poolclass=sa.NullPool)
        # Python's driver begins no transaction for CREATE TABLE and the like by itself.
        sa.event.listen(
            engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE")
        )
        sa.event.listen(engine, "handle_error", self._raise_translated)
        return engine

    def _raise_translated(self, context: sa.ExceptionContext) -> None:
        error = context.original_exception
        if isinstance(error, sqlite3.Error) and (found := self._translated(error)) is not error:
            raise found from error

    def tidy(self) -> None:
        """Move the log into the database while nobody waits for a commit."""
        try:
            with self._lock:
                busy, self.backlog = self.backlog >= LOG_ROWS_MIN, 0
                self._give_back()
                self._cursor.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                if busy and not self._lengthened:
                    self._lengthened = True
                    self._set_log_aside()
        except (sqlite3.Error, OSError) as error:
            # The log is only longer than it need be; the next commit will report real trouble.
            log.warning("cannot tidy %s: %s", self.name, error)

    def _give_back(self) -> None:
        """Free pages to the file system, a few at a time; some are kept for what comes next."""
        ((free,),) = self._cursor.execute("PRAGMA freelist_count").fetchall()
        if free > FREE_PAGES_KEPT:
            give = min(free - FREE_PAGES_KEPT, PAGES_GIVEN)
            # As a script: else Python takes one step of it, which gives back a single page.
            self._writer.executescript(f"PRAGMA incremental_vacuum({give});")

    def _set_log_aside(self) -> None:
        """As a writer, so that no other program, either, writes where the zeros go."""
        self._cursor.execute("BEGIN IMMEDIATE")
        try:
            _lengthen(Path(f"{self.path}-wal"))
        finally:
            self._roll_back()

    def close(self) -> None:
        self._closed = True
        while self._readers:
            self._readers.pop().close()
        self._writer.close()

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self.path,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=STATEMENTS_CACHED,
        )

    def _prepare(self, connection: sqlite3.Connection) -> None:
        # Of effect before there are tables only: pages that become free can be given back.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES_MAX}")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()

    def _open_reader(self) -> sqlite3.Connection:
        try:
            connection = self._connect()
            connection.execute("PRAGMA query_only = ON")
            connection.execute("PRAGMA wal_autocheckpoint = 0")
        except sqlite3.Error as error:
            raise self._translated(error) from error
        return connection

    def _roll_back(self) -> None:
        try:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
        except sqlite3.Error as error:
            log.warning("rollback of %s: %s", self.name, error)

    def _translated(self, error: sqlite3.Error | UnicodeError) -> Exception:
        """The error as one line for people; our own mistakes stay what they are."""
        if isinstance(error, UnicodeError):
            # What we wrote is text, and so are SQLite's own words: these pages are garbage.
            return Unavailable(f"{self.name} is damaged: restore it from a backup ({error})")
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and self._no_room()):
            return Unavailable(f"the disk that holds {self.name} is full: nothing was changed")
        if code == sqlite3.SQLITE_NOTADB:
            return Rejected(f"{self.name} is not a Rota database", field="database")
        if code == sqlite3.SQLITE_CORRUPT:
            return Unavailable(f"{self.name} is damaged: restore it from a backup ({error})")
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return Unavailable(f"{self.name} is locked by another program: nothing was changed")
        if code == sqlite3.SQLITE_CONSTRAINT:
            return Contradiction(str(error))
        if isinstance(error, sqlite3.OperationalError) and code != sqlite3.SQLITE_ERROR:
            return Unavailable(f"cannot use {self.name}: {error}: nothing was changed")
        return error

    def _no_room(self) -> bool:
        """SQLite's index of the log has no word of its own for a disk that is full."""
        try:
            return os.statvfs(self.path.parent).f_bavail == 0
        except OSError:
            return False


def _lengthen(log_path: Path) -> None:
    """Put zeros behind the end of the log. SQLite takes them for what they are: no pages.

    Nobody may commit meanwhile. The file may be opened here, because locks are never on it.
    """
    disk = os.statvfs(log_path.parent)
    with log_path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        if size < LOG_BYTES and disk.f_bavail * disk.f_frsize >= FREE_BYTES_MIN:
            file.write(bytes(LOG_BYTES - size))
            file.flush()
            os.fsync(file.fileno())


def _make_file(path: Path) -> None:
    """Make the file for its owner alone, and say in plain words why it cannot be used."""
    folder = path.parent
    if not folder.is_dir():
        raise Rejected(f"no folder {folder} to keep the database {path.name} in", field="database")
    if path.is_dir():
        raise Rejected(f"{path} is a folder, not a database", field="database")
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _refused(path, error) from error
    try:
        _try_lock(path, fd)
    finally:
        os.close(fd)
    # The log lives beside the file, so the folder must take new files even when the file is there.
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        raise _refused(path, None)


def _try_lock(path: Path, fd: int) -> None:
    """SQLite itself would say that another program has the lock. It locks other bytes than this."""
    try:
        fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB, 1)
    except (BlockingIOError, PermissionError):
        return
    except OSError as error:
        raise Unavailable(
            f"cannot use the database {path}: its file system has no locks ({error.strerror});"
            " keep it on a local disk"
        ) from error


def _refused(path: Path, error: OSError | None) -> RotaError:
    reason = error.strerror if error is not None and error.strerror else "the folder is read-only"
    return Unavailable(f"cannot write the database {path}: {reason}")
