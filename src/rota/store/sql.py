"""The store on SQLite or PostgreSQL: rows for queries and restart, events beside them."""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING, Any

from rota.core.facts.site.audit import Audited
from rota.core.facts.states import JobState
from rota.store import outcomes as ended_jobs
from rota.store import rows, statements, stats, unused
from rota.store.api import AuditFilter, Batch, JobFilter, Snapshot
from rota.store.forget.months import Months
from rota.store.forget.prune import Pruning, read_marks
from rota.store.heap import no_collection
from rota.store.listing import listing, listing_audit
from rota.store.log.paging import Paging
from rota.store.log.reading import EventLog
from rota.store.migrations import mark, prepare
from rota.store.packing import Packing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from rota.core.changes.events import Recorded
    from rota.core.facts.array import Array
    from rota.core.facts.job import Job
    from rota.store.driver import DatabaseDriver
    from rota.store.statements import Statement
    from rota.store.stats import Cohort, StateSums

EVENTS_PER_READ = 5000
_FINAL = ", ".join(f"'{state}'" for state in rows.FINAL_STATES)
_OPEN = ", ".join(f"'{state}'" for state in rows.OPEN_STATES)
_JOBS = f"SELECT {statements.JOB_BODY} FROM jobs"


class SqlStore:
    """Implements ``api.Store``. ``commit``, ``prune`` and ``tidy`` belong to one thread."""

    def __init__(self, driver: DatabaseDriver, *, upgrade: bool = True) -> None:
        """``upgrade``: bring the database to the schema that this code knows, if it is older."""
        self.driver = driver
        #: Arrays whose sweep is certainly on disk and need not be written again.
        self._swept: set[int] = set()
        self._packing = Packing(driver)
        self.log = EventLog(driver, self.plain)
        self._paging = Paging(driver, self.plain)
        self._months = Months(driver)
        if upgrade:
            prepare(driver)
            driver.lead()
            mark(driver)

    @property
    def name(self) -> str:
        """What people may be told about where the state is."""
        return self.driver.name

    @property
    def local(self) -> bool:
        return self.driver.local

    @property
    def backlog(self) -> int:
        return self.driver.backlog

    def now_s(self) -> float:
        """The wall clock of all who share the database: that of its server, where it has one."""
        if self.local:
            return time.time()
        ((now_s,),) = self.driver.read("SELECT extract(epoch FROM clock_timestamp())::float8")
        return float(now_s)

    def lead(self) -> None:
        """Take over from the controller that led before."""
        self.driver.lead()
        # What another one has written since, or a server has lost, is on disk otherwise.
        self._months.forget()
        self._packing.forget()
        self._swept.clear()

    def prove(self) -> None:
        """Raises ``Unavailable`` unless this process leads. In the thread that commits."""
        self.driver.prove()

    def commit(self, batch: Batch) -> None:
        """All or nothing, on disk when it returns. Raises ``Unavailable`` when it cannot."""
        # Everything is encoded before the transaction begins: what cannot be encoded fails here.
        plan = self._plan(batch)
        if not plan:
            return
        try:
            self.driver.write(plan, LastEvent(batch.events[-1]) if batch.events else None)
        except BaseException:
            self._months.forget()
            raise
        self._swept.update(array.id for array in batch.arrays if array.rows)

    def _plan(self, batch: Batch) -> list[Statement]:
        plan: list[Statement] = []
        if batch.blobs:
            used_s = batch.events[-1].at_s if batch.events else None
            plan += statements.insert_blobs([(*blob, used_s) for blob in batch.blobs.items()])
        if batch.jobs:
            latest = {job.id: job for job in batch.jobs}
            plan += statements.upsert_jobs([rows.job_row(job) for job in latest.values()])
        if batch.arrays:
            families = {array.id: array for array in batch.arrays}
            plan += statements.upsert_arrays(
                [
                    rows.array_row(array, with_sweep=array.id not in self._swept)
                    for array in families.values()
                ]
            )
        if batch.events:
            plan += self._months.opening(event.at_s for event in batch.events)
            plan += statements.insert_events([rows.event_row(event) for event in batch.events])
        for table in rows.RECORDS:
            changed: dict[Any, Any] = getattr(batch, table)
            if changed:
                kept = [(key, rows.encode(row)) for key, row in changed.items() if row is not None]
                plan += statements.upsert_records(table, kept)
                gone = [key for key, row in changed.items() if row is None]
                plan += statements.delete(table, "key", gone)
        if batch.audit:
            plan += statements.insert_audit([rows.audit_row(record) for record in batch.audit])
        if batch.next_id:
            plan.append(statements.set_meta("next_id", repr(batch.next_id)))
        return plan

    def load(self, *, ended: bool = True) -> Snapshot:
        """What a controller needs at start. Times are measured against the newest event."""
        with no_collection():
            return self._load(ended)

    def _load(self, ended: bool) -> Snapshot:
        read = self.driver.read
        ((cluster_id,),) = read("SELECT value FROM meta WHERE key = 'cluster_id'")
        marks = read_marks(self.driver)
        records: dict[str, list[Any]] = {
            table: [decode(body) for (body,) in read(f"SELECT body FROM {table} ORDER BY key")]
            for table, decode in rows.RECORDS.items()
        }
        known = ended_jobs.load(self.driver) if ended else ended_jobs.KnownEnds([], [], [])
        return Snapshot(
            cluster_id=cluster_id,
            next_id=marks.next_id,
            next_seq=marks.next_seq,
            jobs=[self._job(row) for row in read(f"{_JOBS} WHERE state IN ({_OPEN}) ORDER BY id")],
            arrays=[
                rows.decode_array(body, sweep)
                for body, sweep in read("SELECT body, sweep FROM arrays ORDER BY id")
            ],
            **known._asdict(),
            keys=self._keys(marks.last_s - rows.KEY_WINDOW_S),
            **records,
        )

    def _keys(self, since_s: float) -> list[tuple[str, str, int]]:
        text = (
            "SELECT id, user_id, submit_key FROM {table}"
            " WHERE created_at >= ? AND submit_key IS NOT NULL"
        )
        found: list[tuple[int, str, str]] = []
        for table in ("jobs", "arrays"):
            found += self.driver.read(text.format(table=table), (since_s,))
        first: dict[tuple[str, str], int] = {}
        for row_id, user, key in sorted(found):
            first.setdefault((user, key), row_id)
        return [(user, key, row_id) for (user, key), row_id in first.items()]

    def blob(self, digest: str) -> bytes | None:
        found = self.driver.read("SELECT body FROM blobs WHERE digest = ?", (digest,))
        return bytes(found[0][0]) if found else None

    def plain(self, body: bytes, uid: str = "", key: str | None = None) -> bytes:
        """A body as it was before it was packed; of a job with ``statements.JOB_BODY``."""
        return self._packing.plain(body, uid, key)

    def _job(self, row: rows.Row) -> Job:
        return rows.decode_job(self.plain(*row))

    def job(self, job_id: int) -> Job | None:
        return self._one_job(f"{_JOBS} WHERE id = ?", job_id)

    def job_by_uid(self, uid: str) -> Job | None:
        return self._one_job(f"{_JOBS} WHERE uid = ?", uid)

    def _one_job(self, text: str, key: int | str) -> Job | None:
        found = self.driver.read(text, (key,))
        return self._job(found[0]) if found else None

    def array(self, array_id: int) -> Array | None:
        return self._one_array("SELECT body, sweep FROM arrays WHERE id = ?", array_id)

    def array_by_uid(self, uid: str) -> Array | None:
        return self._one_array("SELECT body, sweep FROM arrays WHERE uid = ?", uid)

    def _one_array(self, text: str, key: int | str) -> Array | None:
        found = self.driver.read(text, (key,))
        return rows.decode_array(*found[0]) if found else None

    def list_jobs(
        self, wanted: JobFilter, *, after: int = 0, limit: int = 100, newest_first: bool = False
    ) -> list[Job]:
        """Jobs that have rows, by id, beyond ``after`` (0: from the start, or from the newest)."""
        text, values = listing(wanted, after=after, limit=limit, newest_first=newest_first)
        return [self._job(row) for row in self.driver.read(text, values)]

    def elements(self, array: int, states: tuple[JobState, ...], limit: int) -> list[Job]:
        return self.list_jobs(JobFilter(states=states, array=array), limit=limit)

    def count_states(self) -> dict[JobState, int]:
        found = self.driver.read("SELECT state, count(*) FROM jobs GROUP BY state")
        return {JobState(state): count for state, count in found}

    def job_sums(self, wanted: Cohort) -> list[StateSums]:
        """How the jobs submitted in a time fared, by user and state."""
        text, values = stats.sums(wanted)
        return stats.sums_of(self.driver.read(text, values))

    def longest_jobs(self, wanted: Cohort, *, now_s: float, limit: int = 5) -> list[Job]:
        """Of the jobs submitted in a time those whose latest run was, or is, the longest."""
        text, values = stats.longest(wanted, now_s, limit)
        return [self._job(row) for row in self.driver.read(text, values)]

    def jobs_submitted(self, since_s: float, until_s: float, *, limit: int) -> Iterator[Job]:
        """The jobs that were submitted between two moments, the newest first."""
        text, values = stats.submitted(since_s, until_s, limit)
        for row in self.driver.read(text, values):
            yield self._job(row)

    def events(self, *, after: int = 0, job: int = 0, limit: int = 1000) -> list[Recorded]:
        """The log beyond ``after``, or what it says about one job (or one array)."""
        found = self.log.rows(after=after, job=job, limit=limit)
        return [rows.recorded((*row[:3], row[-1])) for row in found]

    def all_events(self) -> Iterator[Recorded]:
        after = 0
        while page := self.events(after=after, limit=EVENTS_PER_READ):
            yield from page
            after = page[-1].seq

    def audit(self, wanted: AuditFilter, *, before: int = 0, limit: int = 100) -> list[Audited]:
        text, values = listing_audit(wanted, before, limit)
        return [Audited(*row) for row in self.driver.read(text, values)]

    def prune_audit(self, before_s: float, *, limit: int = 5000) -> int:
        # In order of their numbers: of the oldest ones, which are those that may be too old.
        oldest = "SELECT seq, at_s FROM audit ORDER BY seq LIMIT ?"
        old = [seq for seq, at_s in self.driver.read(oldest, (limit,)) if at_s < before_s]
        if old:
            self.driver.write(list(statements.delete("audit", "seq", old)))
        return len(old)

    def prune(self, before_s: float, *, limit: int = 500, keep: Collection[int] = ()) -> int:
        """Drop up to ``limit`` jobs that ended before a time; see ``prune.py`` for what stays."""
        pruning = Pruning(self.driver, self._months, self._paging, before_s, frozenset(keep))
        return pruning.run(limit)

    def unused_blobs(self, before_s: float) -> list[str]:
        """Which blobs nothing refers to; see ``unused.py``."""
        return unused.unused(self.driver, self.plain, before_s)

    def drop_blobs(self, digests: list[str], before_s: float) -> None:
        """Drop them, except those that a submit has used since."""
        self.driver.write(unused.dropping(digests, before_s))

    def seal_outcomes(self, *, limit: int = 8) -> int:
        """Write down how old jobs ended, a page of ids at a time; see ``outcomes.py``."""
        found, plan = ended_jobs.seal(self.driver, read_marks(self.driver).next_id, limit)
        if plan:
            self.driver.write(plan)
        return found

    def pack(self, before_s: float, *, now_s: float = inf, limit: int = 100) -> int:
        """Pack what was written before a time; see ``packing.py`` and ``log/paging.py``."""
        return self._packing.run(before_s, now_s, limit) + self._paging.run(before_s, now_s)

    def bookmark(self, name: str) -> str:
        found = self.driver.read("SELECT value FROM meta WHERE key = ?", (f"bookmark {name}",))
        return str(found[0][0]) if found else ""

    def set_bookmark(self, name: str, place: str) -> None:
        self.driver.write([statements.set_meta(f"bookmark {name}", place)])

    def answer(self, key: str) -> bytes | None:
        found = self.driver.read("SELECT body FROM answers WHERE key = ?", (key,))
        return bytes(found[0][0]) if found else None

    def set_answer(self, key: str, at_s: float, body: bytes | None, *, before_s: float) -> None:
        self.driver.write([*statements.set_answer(key, at_s, body, before_s)])

    def tidy(self) -> None:
        """Work that can wait for an idle moment."""
        self.driver.tidy()

    def close(self) -> None:
        self.driver.close()


class LastEvent:
    """What became of a batch, by its last event. See ``driver.Probe``."""

    def __init__(self, event: Recorded) -> None:
        self._event = event

    def committed(self) -> tuple[Statement, rows.Row]:
        row = rows.event_row(self._event)
        columns = ", ".join(statements.EVENT_COLUMNS)
        return (f"SELECT {columns} FROM events WHERE seq = ?", row[:1]), row

    def kept(self) -> Statement:
        """It may be on a page by now, or forgotten: but no number is used again."""
        number = self._event.seq
        text = (
            "SELECT 1 WHERE EXISTS (SELECT 1 FROM events WHERE seq >= ?) OR EXISTS (SELECT 1"
            " FROM meta WHERE CASE WHEN key = 'next_seq' THEN CAST(value AS BIGINT) > ? END)"
        )
        return text, (number, number)
