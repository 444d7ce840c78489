"""An archive as a store that is only read: its files in a database that lasts as long as it does.

So whatever reads a history reads an archive the same way.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

from rota.core.facts.errors import Rejected
from rota.store.archive.writing import COLUMNS, GROUP, SITE, arrow, files_of, told
from rota.store.migrations import HEAD, SCRIPTS
from rota.store.readonly import SqliteReader
from rota.store.rows import RECORDS
from rota.store.sql import SqlStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def is_archive(folder: Path) -> bool:
    return (folder / SITE).is_file()


def open_archive(folder: Path) -> SqlStore:
    """A folder that ``archive.write`` made, only to read."""
    if not is_archive(folder):
        raise Rejected(
            f"archive: no {SITE} in {folder}; give a folder that 'rota archive' has written",
            field="archive",
            value=str(folder),
        )
    return SqlStore(ArchiveReader(folder), upgrade=False)


class ArchiveReader(SqliteReader):
    """See ``driver.Driver``."""

    def __init__(self, folder: Path) -> None:
        self.name = str(folder)
        note = told(folder / SITE)
        # Without a name it is in memory, and on disk where it becomes large, until it is closed.
        self._connection = db = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        db.executescript((SCRIPTS / "schema_sqlite.sql").read_text())
        db.execute("BEGIN")
        for table, columns in COLUMNS.items():
            marks = ", ".join("?" * len(columns))
            put = f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({marks})"
            for path in files_of(folder, table):
                told(path)
                for group in _groups(path):
                    db.executemany(put, group)
        for group in _groups(folder / SITE):
            for table, key, body in group:
                if table in RECORDS:
                    db.execute(f"INSERT INTO {table} (key, body) VALUES (?, ?)", (key, body))
        db.execute("INSERT INTO alembic_version VALUES (?)", (HEAD,))
        db.execute("INSERT INTO meta VALUES ('cluster_id', ?)", (note["cluster"],))
        db.execute("COMMIT")
        db.execute("PRAGMA query_only = ON")


def _groups(path: Path) -> Iterator[list[tuple[Any, ...]]]:
    with arrow().parquet.ParquetFile(path) as file:
        for group in file.iter_batches(batch_size=GROUP):
            yield list(zip(*(column.to_pylist() for column in group.columns), strict=True))
