"""Finished jobs and the log in compressed columnar files, for the time after they are forgotten.

An archive is a folder that only grows: ``jobs-…``, ``arrays-…`` and ``events-…`` in Parquet, each
with the columns of its table, and ``site.parquet`` with the nodes, queues and accounts as of the
last time. What is in it already is not written again. Rows are looked for, compared with what is
there and written a group at a time: an archive of ten millions takes no more memory than one of ten
thousands. Tokens, secrets, environments, scripts and
inputs are not in it.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.core.facts.errors import Rejected, Unavailable
from rota.store import rows, statements
from rota.store.forget.prune import read_marks
from rota.store.rows import FORMAT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from rota.store.sql import SqlStore

SITE = "site.parquet"
#: Rows of a group in a file, and in memory at a time.
GROUP = 20_000
#: What is never archived of the tables that are loaded whole.
SECRET = frozenset({"tokens", "secrets"})
COLUMNS = {
    "jobs": statements.JOB_COLUMNS,
    "arrays": statements.ARRAY_COLUMNS,
    "events": statements.EVENT_COLUMNS,
}
_SITE_COLUMNS = ("name", "key", "body")
_WHOLE = frozenset({"id", "priority", "gpu_count", "array_id", "last_id", "waiting", "seq"})
_WHOLE |= {"job_id"}
_REAL = frozenset({"cpu_cores", "memory_gb", "at_s", "cut_at", "created_at", "scheduled_at"})
_REAL |= {"started_at", "completed_at"}
_BYTES = frozenset({"body", "sweep"})
_FINAL = ", ".join(f"'{state}'" for state in rows.FINAL_STATES)
#: What is over before a time: twice that time.
_OVER = {
    "jobs": f"created_at < ? AND completed_at < ? AND state IN ({_FINAL})",
    "arrays": "created_at < ? AND coalesce(cut_at, created_at) < ? AND waiting = 0",
}
#: Of which table a file is, and from which number to which.
NAME = re.compile(r"(jobs|arrays|events)-(\d+)-(\d+)\.parquet")


class Written(NamedTuple):
    """How many rows an archive has gained."""

    jobs: int
    arrays: int
    events: int


def arrow() -> Any:  # noqa: ANN401 - a package without types
    """The library, or in one line how to get it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise Unavailable("an archive needs pyarrow: pip install 'rota[archive]'") from None
    return pyarrow


def files_of(folder: Path, table: str) -> list[Path]:
    """The files of a table, the oldest first."""
    found = [(name, path) for path in folder.iterdir() if (name := NAME.fullmatch(path.name))]
    chosen = [(int(name[2]), int(name[3]), path) for name, path in found if name[1] == table]
    return [path for _, _, path in sorted(chosen)]


def write(store: SqlStore, folder: Path, before_s: float) -> Written:
    """Add the jobs and arrays that were over before a time, and the log as far as it goes.

    The log only where there is something else to add, or the time is later than the last one: a
    caller that comes again and again does not leave a file each time. From any thread.
    """
    arrow()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _Writing(store, folder).run(before_s)
    except OSError as error:
        raise Unavailable(f"cannot write the archive {folder}: {error.strerror or error}") from None


class _Writing:
    """One time of adding to an archive."""

    def __init__(self, store: SqlStore, folder: Path) -> None:
        self._read, self._plain, self._folder = store.driver.read, store.plain, folder
        self._log, self._driver = store.log, store.driver

    def run(self, before_s: float) -> Written:
        cluster = self._cluster()
        self._refuse_other_past()
        jobs = self._add("jobs", before_s)
        arrays = self._add("arrays", before_s)
        told = _told(self._folder / SITE)
        if not (jobs or arrays or before_s > float(told.get("before_s", 0.0))):
            return Written(0, 0, 0)
        events = self._add_events()
        site = [
            (table, str(key), bytes(body))
            for table in rows.RECORDS
            if table not in SECRET
            for key, body in self._read(f"SELECT key, body FROM {table} ORDER BY key")
        ]
        note = {"cluster": cluster, "before_s": repr(before_s)}
        _write_file(self._folder, lambda: SITE, _SITE_COLUMNS, [site], note)
        return Written(jobs, arrays, events)

    def _cluster(self) -> str:
        """Of which cluster this is; an archive holds one."""
        ((cluster,),) = self._read("SELECT value FROM meta WHERE key = 'cluster_id'")
        known = _told(self._folder / SITE).get("cluster", cluster)
        if known != cluster:
            raise Rejected.bad("archive", str(self._folder), "the folder of no other cluster")
        return str(cluster)

    def _refuse_other_past(self) -> None:
        """After a backup was put back numbers are given out again: the archive would be of two
        pasts, each of which says something else of the same job."""
        if not (files := files_of(self._folder, "events")):
            return
        (known,) = _last_row(files[-1])
        found = self._log.rows(after=known[0] - 1, limit=1)
        is_there = bool(found) and found[0][0] == known[0]
        if is_there and (found[0][1], bytes(found[0][-1])) == (known[1], known[-1]):
            return
        if is_there or read_marks(self._driver).next_seq <= known[0]:
            raise Rejected.bad(
                "archive",
                str(self._folder),
                "a folder without the days after the backup that this database comes from:"
                " name a new one",
            )

    def _new(self, table: str, before_s: float) -> Iterator[list[int]]:
        """The numbers of what was over before a time and is in no file yet, a page at a time."""
        files = [_Known(path) for path in files_of(self._folder, table)]
        after = (float("-inf"), 0)
        while True:
            # By index, in the order of both.
            found = self._read(
                f"SELECT created_at, id FROM {table} WHERE {_OVER[table]} AND created_at >= ?"
                " AND (created_at, id) > (?, ?) ORDER BY created_at, id LIMIT ?",
                (before_s, before_s, after[0], *after, GROUP),
            )
            fresh = {number for _, number in found}
            for file in files:
                file.take_from(fresh)
            if fresh:
                yield sorted(fresh)
            if len(found) < GROUP:
                return
            after = found[-1]

    def _add_events(self) -> int:
        """The log beyond what is in a file, up to what is its newest event now."""
        files = files_of(self._folder, "events")
        last = max((int(path.stem.split("-")[2]) for path in files), default=0)
        first = self._log.rows(after=last, limit=1)
        if not first:
            return 0
        ((newest,),) = self._read("SELECT max(seq) FROM events")
        name = _name("events", first[0][0], newest)
        groups = self._log.groups(last, newest, GROUP)
        return _write_file(self._folder, lambda: name, COLUMNS["events"], groups, {})

    def _add(self, table: str, before_s: float) -> int:
        first, last = 0, 0

        def groups(pages: Iterator[list[int]]) -> Iterator[list[rows.Row]]:
            nonlocal first, last
            for numbers in pages:
                first, last = min(first or numbers[0], numbers[0]), max(last, numbers[-1])
                yield self._group(table, numbers)

        pages = self._new(table, before_s)
        if (begun := next(pages, None)) is None:
            return 0
        whole = groups(chain([begun], pages))
        return _write_file(
            self._folder, lambda: _name(table, first, last), COLUMNS[table], whole, {}
        )

    def _group(self, table: str, numbers: list[int]) -> list[rows.Row]:
        columns = COLUMNS[table]
        place, listed = columns.index("body"), ", ".join(columns)
        own = itemgetter(columns.index("uid"), columns.index("submit_key"))
        group: list[rows.Row] = []
        for text, values in statements.select(table, listed, columns[0], numbers):
            group += self._read(text, values)
        group.sort(key=itemgetter(0))
        return [
            (*row[:place], self._plain(bytes(row[place]), *own(row)), *row[place + 1 :])
            for row in group
        ]


class _Known:
    """The numbers in one file, of which no more is read than a page of others may share."""

    def __init__(self, path: Path) -> None:
        self._path = path
        name = NAME.fullmatch(path.name)
        assert name is not None
        self._first, self._last = int(name[2]), int(name[3])

    def take_from(self, numbers: set[int]) -> None:
        if not numbers or min(numbers) > self._last or max(numbers) < self._first:
            return
        with arrow().parquet.ParquetFile(self._path) as file:
            for place in range(file.num_row_groups):
                ids = file.metadata.row_group(place).column(0).statistics
                if ids.min <= max(numbers, default=0) and ids.max >= min(numbers, default=0):
                    numbers -= {*file.read_row_group(place, columns=["id"])["id"].to_pylist()}


def _name(table: str, first: int, last: int) -> str:
    return f"{table}-{first:012}-{last:012}.parquet"


def _last_row(path: Path) -> list[rows.Row]:
    with arrow().parquet.ParquetFile(path) as file:
        group = file.read_row_group(file.num_row_groups - 1)
        return [tuple(row.values()) for row in group.slice(group.num_rows - 1).to_pylist()]


def _told(path: Path) -> dict[str, str]:
    """What a file says of itself; nothing where it is not there."""
    if not path.exists():
        return {}
    found = arrow().parquet.read_schema(path).metadata or {}
    return {key.decode(): value.decode() for key, value in found.items()}


def told(path: Path) -> dict[str, str]:
    """What a file of an archive says of itself; one of a newer Rota is refused."""
    try:
        found = _told(path)
    except (OSError, ValueError):
        raise Rejected(f"{path} is no file of an archive", field="history") from None
    if int(found.get("format", 0)) > FORMAT:
        raise Rejected(
            f"{path} was written by a newer Rota (rows {found['format']}, this one knows"
            f" {FORMAT}): install that version or newer",
            field="history",
        )
    return found


def _write_file(
    folder: Path,
    name: Callable[[], str],
    columns: tuple[str, ...],
    groups: Iterable[list[rows.Row]],
    note: dict[str, str],
) -> int:
    """All of it on disk, or nothing; its name is asked for at the end. How many rows it has."""
    pyarrow, count = arrow(), 0
    schema = pyarrow.schema(
        [(name, _type(pyarrow, name)) for name in columns], {"format": str(FORMAT), **note}
    )
    descriptor, part = tempfile.mkstemp(prefix=".part-", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            with pyarrow.parquet.ParquetWriter(file, schema, compression="zstd") as writer:
                for group in groups:
                    count += len(group)
                    values = list(zip(*group, strict=True)) or [()] * len(columns)
                    arrays = [
                        pyarrow.array(column, schema.field(place).type)
                        for place, column in enumerate(values)
                    ]
                    writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, folder / name())
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise
    return count


def _type(pyarrow: Any, column: str) -> Any:  # noqa: ANN401 - a package without types
    if column in _WHOLE:
        return pyarrow.int64()
    if column in _REAL:
        return pyarrow.float64()
    return pyarrow.binary() if column in _BYTES else pyarrow.string()
