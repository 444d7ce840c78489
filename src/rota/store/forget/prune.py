"""Dropping old finished jobs, a few at a time, so that a store stays bounded.

What goes: the rows of jobs that ended before a given time, the events about them, the arrays of
which nothing is left, and what nodes told about themselves before that time. What stays, whatever
its age: everything unfinished, the jobs and arrays that the caller names (the parents that
waiting jobs still ask about), and whatever an Idempotency-Key may still point to. What they
referred to goes later: see ``unused.py``. Of events that share a page those go that nothing on
record needs, once all of the page is old; on PostgreSQL events go by whole months, too: see
``months.py``. How each of them ended stays known (``outcomes.py``), and ids and numbers of events
are never used again: both are written down in the same transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rota.core.derived.ids import page_number
from rota.core.facts.states import JobState
from rota.store import outcomes, rows, statements

if TYPE_CHECKING:
    from rota.core.facts.array import Array
    from rota.store.driver import DatabaseDriver
    from rota.store.forget.months import Months
    from rota.store.log.paging import Paging
    from rota.store.statements import Statement

_FINAL = ", ".join(f"'{state}'" for state in rows.FINAL_STATES)
#: The most pages of outcomes that one round writes; only a single array may have more.
_PAGES = 256
_CHATTER = ", ".join(f"'{kind}'" for kind in rows.CHATTER)


class Marks(NamedTuple):
    """How far a store has come: beyond what its rows say, because rows go."""

    next_id: int
    next_seq: int
    #: The time of the newest event that was ever recorded.
    last_s: float


def read_marks(driver: DatabaseDriver) -> Marks:
    meta = dict(driver.read("SELECT key, value FROM meta"))
    next_id, next_seq = int(meta.get("next_id", 1)), int(meta.get("next_seq", 1))
    last_s = float(meta.get("last_s", 0.0))
    newest = driver.read("SELECT seq, at_s FROM events ORDER BY seq DESC LIMIT 1")
    if newest and newest[0][0] >= next_seq:
        next_seq, last_s = newest[0][0] + 1, newest[0][1]
    # An array has also taken the ids of its elements; the newest array has the highest block.
    ((job_id, array_id),) = driver.read(
        "SELECT coalesce((SELECT max(id) FROM jobs), 0),"
        " coalesce((SELECT last_id FROM arrays ORDER BY id DESC LIMIT 1), 0)"
    )
    return Marks(max(next_id, job_id + 1, array_id + 1), next_seq, last_s)


class Pruning:
    """One round. Run it in the thread that commits, again and again until it gives 0."""

    def __init__(
        self,
        driver: DatabaseDriver,
        months: Months,
        paging: Paging,
        before_s: float,
        keep: frozenset[int],
    ) -> None:
        self._driver = driver
        self._months = months
        self._paging = paging
        self._before_s = before_s
        self._keep = keep
        self._marks = read_marks(driver)

    def run(self, limit: int) -> int:
        """Returns how many jobs, arrays, stray events and pages it dropped."""
        jobs = self._old_jobs(limit)
        arrays = self._old_arrays(limit)
        strays = self._old_chatter(limit) if self._months.by_row else []
        found = len(jobs) + len(arrays) + len(strays)
        # Pages and months last, once nothing keeps their events that goes anyway.
        if found:
            plan = self._gone(jobs, arrays, strays)
        elif pages := self._paging.old(self._before_s):
            plan, found = self._paging.letting_go(pages), len(pages)
        else:
            plan = self._months.dropping(self._before_s)
        if plan:
            marks = self._marks._asdict().items()
            self._driver.write([*(statements.set_meta(key, repr(n)) for key, n in marks), *plan])
        return found

    def _gone(
        self, ended: outcomes.Outcomes, families: list[Array], strays: list[int]
    ) -> list[Statement]:
        jobs, arrays = [job_id for job_id, _ in ended], [array.id for array in families]
        plan = outcomes.keep(self._driver, ended, families)
        plan += statements.delete("jobs", "id", jobs)
        plan += statements.delete("arrays", "id", arrays)
        if self._months.by_row:
            plan += statements.delete("events", "job_id", jobs + arrays)
            plan += statements.delete("events", "seq", strays)
        return plan

    @property
    def _key_horizon_s(self) -> float:
        return self._marks.last_s - rows.KEY_WINDOW_S

    def _old_jobs(self, limit: int) -> outcomes.Outcomes:
        # A job ended after it was created, so the index on creation bounds the search.
        found = self._driver.read(
            "SELECT id, state FROM jobs WHERE created_at < ? AND completed_at < ?"
            f" AND state IN ({_FINAL}) AND (submit_key IS NULL OR created_at < ?)"
            " ORDER BY created_at LIMIT ?",
            (self._before_s, self._before_s, self._key_horizon_s, limit + len(self._keep)),
        )
        kept = [(job_id, JobState(state)) for job_id, state in found if job_id not in self._keep]
        return kept[:limit]

    def _old_arrays(self, limit: int) -> list[Array]:
        """Arrays with nothing left to start, whose last rows went in an earlier round."""
        found = self._driver.read(
            "SELECT id, body FROM arrays WHERE created_at < ? AND waiting = 0"
            " AND (cut_at IS NULL OR cut_at < ?) AND (submit_key IS NULL OR created_at < ?)"
            " AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.array_id = arrays.id)"
            " ORDER BY id LIMIT ?",
            (self._before_s, self._before_s, self._key_horizon_s, limit + len(self._keep)),
        )
        chosen: list[Array] = []
        pages = 0
        for array_id, body in found:
            if array_id in self._keep or len(chosen) == limit:
                continue
            array = rows.decode_array(body, None)
            pages += page_number(array.id + array.count) - page_number(array.id) + 1
            if chosen and pages > _PAGES:
                break
            chosen.append(array)
        return chosen

    def _old_chatter(self, limit: int) -> list[int]:
        found = self._driver.read(
            f"SELECT seq FROM events WHERE job_id IS NULL AND kind IN ({_CHATTER})"
            " AND at_s < ? ORDER BY seq LIMIT ?",
            (self._before_s, limit),
        )
        return [seq for (seq,) in found]
