"""Puts old events onto pages, and lets old pages go.

In the order of their numbers, in idle moments, an hour after they were written. Events that are
never forgotten (of accounts, queues and rules) stay rows, and end a page: so the rows of the log
are in the order of its events. In the thread that commits.
"""

from __future__ import annotations

from itertools import groupby, takewhile
from typing import TYPE_CHECKING

from rota.store import statements
from rota.store.log import page

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.store.driver import DatabaseDriver
    from rota.store.rows import Row
    from rota.store.statements import Statement

#: Events that one write looks at, and pages that one write lets go.
AT_ONCE, GONE_AT_ONCE = page.EVENTS, 4
_COLUMNS = ", ".join(statements.EVENT_COLUMNS)
_AT = statements.EVENT_COLUMNS.index("at_s")
_BOOKMARK = "bookmark paged events"


def is_old(at_s: float, before_s: float, now_s: float) -> bool:
    """Whether something was written before a time. What is dated later than now was, too, while
    the clock was wrong: nothing that comes after it may wait for that day.
    """
    return at_s < before_s or at_s > now_s


class Paging:
    """The pages of one database."""

    def __init__(self, driver: DatabaseDriver, plain: Callable[[bytes], bytes]) -> None:
        self._driver, self._plain = driver, plain

    def run(self, before_s: float, now_s: float) -> int:
        """Some of the events from before a time. How many it is done with: pages are full."""
        found = takewhile(lambda row: is_old(row[_AT], before_s, now_s), self._next())
        runs = [[*run] for _, run in groupby(found, page.stays)]
        plan: list[Statement] = []
        done = last = 0
        for number, run in enumerate(runs, start=1):
            ended = number < len(runs) or page.stays(run[0])
            size = len(run) if ended else len(run) - len(run) % page.EVENTS
            for at in range(0, 0 if page.stays(run[0]) else size, page.EVENTS):
                plan += self._put(run[at : at + page.EVENTS])
            if size:
                done, last = done + size, run[size - 1][0]
        if done:
            self._driver.write([*plan, statements.set_meta(_BOOKMARK, str(last))])
        return done

    def _next(self) -> list[Row]:
        found = self._driver.read("SELECT value FROM meta WHERE key = ?", (_BOOKMARK,))
        return self._driver.read(
            f"SELECT {_COLUMNS} FROM events WHERE seq > ? ORDER BY seq LIMIT ?",
            (int(found[0][0]) if found else 0, AT_ONCE),
        )

    def _put(self, events: list[Row]) -> list[Statement]:
        if len(events) < page.FEW:
            return []
        plain = [(*row[:-1], self._plain(row[-1])) for row in events]
        last = plain[-1][0]
        return [
            ("DELETE FROM events WHERE seq BETWEEN ? AND ?", (plain[0][0], last)),
            *statements.insert_events([page.folded(plain)]),
            *statements.insert_mentions([(block, last) for block in page.mentions(plain)]),
        ]

    def old(self, before_s: float) -> list[Row]:
        """Some of the pages that were over before a time."""
        return self._driver.read(
            f"SELECT {_COLUMNS} FROM events WHERE job_id IS NULL AND kind = ? AND at_s < ?"
            " ORDER BY seq LIMIT ?",
            (page.KIND, before_s, GONE_AT_ONCE),
        )

    def letting_go(self, pages: list[Row]) -> list[Statement]:
        """What takes them out of the log; events of what is on record get rows again."""
        plan: list[Statement] = []
        for row in pages:
            events = page.unfolded(row)
            kept = self._on_record({event[page.JOB] for event in events} - {None})
            blocks = page.mentions(events)
            plan += statements.delete("events", "seq", [row[0]])
            plan += statements.delete_mentions(row[0], blocks)
            plan += statements.insert_events([event for event in events if event[page.JOB] in kept])
        return plan

    def _on_record(self, ids: set[int]) -> set[int]:
        return {
            number
            for table in ("jobs", "arrays")
            for text, values in statements.select(table, "id", "id", sorted(ids))
            for (number,) in self._driver.read(text, values)
        }
