"""The events of the log in order, whether they have rows of their own or share one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.store import statements
from rota.store.log.page import block_of, is_page, unfolded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rota.store.driver import DatabaseDriver
    from rota.store.rows import Row

#: Rows that are read at first, and of pages always; then more where each is one event.
ROWS, GROWTH = 4, 4
_SELECT = f"SELECT {', '.join(statements.EVENT_COLUMNS)} FROM events WHERE"
_ALL = f"{_SELECT} seq > ? ORDER BY seq LIMIT ?"
# One statement, which sees one moment: it finds an event in its own row, or on its page.
_ABOUT = f"{_SELECT} seq > ? AND job_id = ? UNION ALL {_SELECT} seq {{pages}} ORDER BY seq LIMIT ?"
_PAGES = "(SELECT seq FROM mentions WHERE block = ? AND seq > ?)"


class EventLog:
    """What is on record in one database. From any thread."""

    def __init__(self, driver: DatabaseDriver, plain: Callable[[bytes], bytes]) -> None:
        """``plain``: undoes what older versions did to the bodies of single events."""
        self._driver, self._plain = driver, plain
        # As an array, because PostgreSQL would rather join, and walk through all of the log for it.
        pages = f"= ANY (ARRAY{_PAGES})" if driver.dialect == "postgresql" else f"IN {_PAGES}"
        self._about = _ABOUT.format(pages=pages)

    def rows(self, *, after: int = 0, job: int = 0, limit: int) -> list[Row]:
        """Of each event beyond ``after``, or of those about one job (or array), the row that it
        was written with, in the order of ``statements.EVENT_COLUMNS``.
        """
        found: list[Row] = []
        begin, size = after, ROWS
        while True:
            part = self._part(begin, job, size)
            for row in part:
                if is_page(row):
                    found += unfolded(row, after, job)
                else:
                    found.append((*row[:-1], self._plain(row[-1])))
                if len(found) >= limit:
                    return found[:limit]
            if len(part) < size:
                return found
            begin, size = part[-1][0], ROWS if is_page(part[-1]) else GROWTH * size

    def groups(self, after: int, until: int, size: int) -> Iterator[list[Row]]:
        """The rows of all events beyond one number up to another one, in groups of ``size``."""
        while found := self.rows(after=after, limit=size):
            if group := [row for row in found if row[0] <= until]:
                yield group
            after = found[-1][0]
            if after >= until:
                return

    def _part(self, after: int, job: int, size: int) -> list[Row]:
        if not job:
            return self._driver.read(_ALL, (after, size))
        return self._driver.read(self._about, (after, job, block_of(job), after, size))
