"""The log of PostgreSQL in partitions by month, so that what is old goes in one piece.

A partition ends with a month (UTC) and begins where the one before it ended; the first one has no
beginning. The first commit of a month makes it. A month that was over before the time from which
jobs are kept is dropped as a table, however many rows it has. The few of its events that stay (of
jobs on record, and of accounts and rules) move to ``events_kept``, where the log then begins. So
events about a job that is forgotten may stay until the end of their month.

SQLite has one table, and deletes by row: see ``prune.py``.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from rota.store import rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.store.driver import DatabaseDriver
    from rota.store.statements import Statement

KEPT = "events_kept"
#: A reader of the log may hold a drop up for so long; then the drop waits for the next hour.
LOCK_WAIT = "500ms"
#: Name and end of each partition, the oldest first.
_PARTITIONS = (
    "SELECT relname::text, coalesce(substring(pg_get_expr(relpartbound, pg_class.oid)"
    " FROM 'TO \\(''([^'']+)''\\)')::float8, 0) AS end_s"
    " FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid"
    " WHERE inhparent = to_regclass('events') ORDER BY end_s"
)
_LASTING = ", ".join(f"'{kind}'" for kind in rows.LASTING)


class Month(NamedTuple):
    """One partition: the time from which on events belong to the next one."""

    name: str
    end_s: float


class Months:
    """The partitions of one database. In the thread that commits."""

    def __init__(self, driver: DatabaseDriver) -> None:
        self._driver = driver
        self.by_row = driver.dialect != "postgresql"
        #: The end of the newest one; None: it has to be read.
        self._until_s: float | None = None

    def forget(self) -> None:
        """Another controller may have led meanwhile, or a commit failed that made one."""
        self._until_s = None

    def opening(self, moments: Iterable[float]) -> list[Statement]:
        """What makes room in the log for events of these times; nearly always nothing."""
        if self.by_row:
            return []
        if self._until_s is None:
            self._until_s = max((month.end_s for month in self._all()), default=float("-inf"))
        late = [at_s for at_s in moments if at_s >= self._until_s]
        if not late:
            return []
        until_s, self._until_s = self._until_s, month_of(max(late)).end_s
        return opening(late, until_s)

    def dropping(self, before_s: float) -> list[Statement]:
        """What drops the months that were over before a time."""
        if self.by_row:
            return []
        old = [month for month in self._all() if month.end_s <= before_s]
        return [(_dropping(old), ())] if any(month.name != KEPT for month in old) else []

    def _all(self) -> list[Month]:
        return [Month(*row) for row in self._driver.read(_PARTITIONS)]


def opening(moments: Iterable[float], until_s: float = float("-inf")) -> list[Statement]:
    """Partitions for events of these times, which all lie beyond those that there are."""
    plan: list[Statement] = []
    for name, end_s in sorted({month_of(at_s) for at_s in moments}, key=lambda month: month.end_s):
        plan += [(text, ()) for text in (_made(name), _attached(name, until_s, end_s))]
        until_s = end_s
    return plan


def month_of(at_s: float) -> Month:
    """The one in which a moment lies."""
    at = datetime.fromtimestamp(at_s, UTC)
    end = datetime(at.year + at.month // 12, at.month % 12 + 1, 1, tzinfo=UTC)
    return Month(f"events_{at.year:04}_{at.month:02}", end.timestamp())


def _made(name: str) -> str:
    # With the indexes of the whole, and by itself no number twice. Attached afterwards: that holds
    # nobody up who reads or writes the log.
    return f"CREATE TABLE {name} (LIKE events INCLUDING ALL, PRIMARY KEY (seq))"


def _attached(name: str, since_s: float, end_s: float) -> str:
    begins = repr(since_s) if since_s > float("-inf") else "MINVALUE"
    return f"ALTER TABLE events ATTACH PARTITION {name} FOR VALUES FROM ({begins}) TO ({end_s!r})"


def _dropping(old: list[Month]) -> str:
    """One statement: all of it, or, while the log is being read, nothing."""
    end_s, fresh = old[-1].end_s, f"{KEPT}_next"
    wanted = ", ".join(f"e.{column}" for column in ("seq", "at_s", "actor", "kind", "job_id"))
    keep = f"INSERT INTO {fresh} SELECT {wanted}, e.body FROM events e"
    steps = [
        f"SET LOCAL lock_timeout = '{LOCK_WAIT}'",
        "LOCK TABLE events IN ACCESS EXCLUSIVE MODE",
        _made(fresh),
        # By index: of what is on record only little is as old as this.
        *(
            f"{keep} JOIN {table} t ON t.id = e.job_id"
            f" WHERE t.created_at < {end_s!r} AND e.at_s < {end_s!r}"
            for table in ("jobs", "arrays")
        ),
        f"{keep} WHERE e.job_id IS NULL AND e.kind IN ({_LASTING}) AND e.at_s < {end_s!r}",
        *(f"DROP TABLE {month.name}" for month in old),
        f"ALTER TABLE {fresh} RENAME TO {KEPT}",
        f"ALTER INDEX {fresh}_pkey RENAME TO {KEPT}_pkey",
        _attached(KEPT, float("-inf"), end_s),
    ]
    body = "; ".join(steps)
    return f"DO $$ BEGIN {body}; EXCEPTION WHEN lock_not_available THEN NULL; END $$"
