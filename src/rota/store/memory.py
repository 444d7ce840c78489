"""The store in memory, for tests and simulated worlds: the same promises, and faults on demand.

A ``MemoryDisk`` outlives the process that writes to it; a ``MemoryStore`` is that process's view
of it. Only encoded bytes are kept, so nothing on the disk changes with a live object.

    disk = MemoryDisk(faulty=True)
    store = MemoryStore(disk)
    disk.fault = Fault.CRASH_TORN
    store.commit(batch)            # raises ProcessDied: half of the batch reached the disk
    store = MemoryStore(disk)      # the next process finds everything before that batch
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from math import inf
from typing import TYPE_CHECKING, Any

from rota.core.facts.errors import Unavailable
from rota.core.facts.states import FINAL, JobState
from rota.store import rows, stats, unused
from rota.store.api import AuditFilter, Batch, JobFilter, Snapshot
from rota.store.disk import ArrayRow, DiskBatch, DiskFault, JobRow, MemoryDisk, ProcessDied, Tables
from rota.store.errors import Contradiction
from rota.store.stats import Cohort

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from rota.core.changes.events import Recorded
    from rota.core.facts.array import Array
    from rota.core.facts.job import Job
    from rota.core.facts.site.audit import Audited
    from rota.store.stats import StateSums

__all__ = ["DiskFault", "MemoryDisk", "MemoryStore", "ProcessDied"]


class MemoryStore:
    """Implements ``api.Store`` on a ``MemoryDisk``."""

    name = "memory"
    local = True
    backlog = 0

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        self.disk = disk if disk is not None else MemoryDisk()
        self._alive = True
        self.disk.recover()

    @property
    def _tables(self) -> Tables:
        if not self._alive:
            raise Unavailable("this store was closed, or its process died")
        return self.disk.tables

    def lead(self) -> None:
        """Nothing: who has the disk leads."""

    def prove(self) -> None:
        """Nothing: see ``lead``."""

    def commit(self, batch: Batch) -> None:
        """All or nothing. Raises what ``MemoryDisk.fault`` asks for."""
        tables = self._tables
        change = DiskBatch(
            jobs=[_job_row(job) for job in batch.jobs],
            arrays=[
                _array_row(array, with_sweep=array.id not in tables.sweeps)
                for array in batch.arrays
            ],
            events=[rows.event_row(event) for event in batch.events],
            blobs=dict(batch.blobs),
            used_s=batch.events[-1].at_s if batch.events else None,
            records=_records(batch),
            next_id=batch.next_id,
            audit=batch.audit,
        )
        _refuse_contradictions(change, tables)
        self._write(change)

    def _write(self, change: DiskBatch) -> None:
        try:
            self.disk.write(change)
        except ProcessDied:
            self._alive = False
            raise

    def load(self, *, ended: bool = True) -> Snapshot:
        """What a controller needs at start. Times are measured against the newest event."""
        tables = self._tables
        jobs = [tables.jobs[job_id] for job_id in sorted(tables.jobs)]
        arrays = [self._array(row) for _, row in sorted(tables.arrays.items())]
        return Snapshot(
            cluster_id=self.disk.cluster_id,
            next_id=tables.next_id,
            next_seq=tables.next_seq,
            jobs=[rows.decode_job(job.body) for job in jobs if job.state not in FINAL],
            arrays=arrays,
            outcomes=[(job.id, job.state) for job in jobs if ended and job.state in FINAL],
            pages=tables.gone.pages() if ended else [],
            spans=[*tables.gone.spans] if ended else [],
            keys=self._keys(),
            **{
                name: [decode(body) for _, body in sorted(tables.records[name].items())]
                for name, decode in rows.RECORDS.items()
            },
        )

    def _keys(self) -> list[tuple[str, str, int]]:
        tables = self._tables
        since_s = tables.last_s - rows.KEY_WINDOW_S
        first: dict[tuple[str, str], int] = {}
        everything: list[JobRow | ArrayRow] = [*tables.jobs.values(), *tables.arrays.values()]
        for row in sorted(everything, key=lambda row: row.id):
            if row.key and row.submitted_s >= since_s:
                first.setdefault((row.user, row.key), row.id)
        return [(user, key, row_id) for (user, key), row_id in first.items()]

    def _array(self, row: ArrayRow) -> Array:
        return rows.decode_array(row.body, self._tables.sweeps.get(row.id))

    def blob(self, digest: str) -> bytes | None:
        return self._tables.blobs.get(digest)

    def job(self, job_id: int) -> Job | None:
        found = self._tables.jobs.get(job_id)
        return rows.decode_job(found.body) if found is not None else None

    def job_by_uid(self, uid: str) -> Job | None:
        job_id = self._tables.uids.get(uid)
        return self.job(job_id) if job_id is not None else None

    def array(self, array_id: int) -> Array | None:
        found = self._tables.arrays.get(array_id)
        return self._array(found) if found is not None else None

    def array_by_uid(self, uid: str) -> Array | None:
        arrays = map(self._array, self._tables.arrays.values())
        return next((array for array in arrays if array.uid == uid), None)

    def list_jobs(
        self, wanted: JobFilter, *, after: int = 0, limit: int = 100, newest_first: bool = False
    ) -> list[Job]:
        """Jobs that have rows, by id, beyond ``after`` (0: from the start, or from the newest)."""
        found: list[Job] = []
        states, ids = frozenset(wanted.states), frozenset(wanted.ids)
        for job_id, row in sorted(self._tables.jobs.items(), reverse=newest_first):
            if len(found) == limit:
                break
            beyond = not after or (job_id < after if newest_first else job_id > after)
            if not beyond or (states and row.state not in states) or (ids and job_id not in ids):
                continue
            job = rows.decode_job(row.body)
            if _matches(job, wanted):
                found.append(job)
        return found

    def elements(self, array: int, states: tuple[JobState, ...], limit: int) -> list[Job]:
        return self.list_jobs(JobFilter(states=states, array=array), limit=limit)

    def count_states(self) -> dict[JobState, int]:
        return dict(Counter(row.state for row in self._job_rows()))

    def job_sums(self, wanted: Cohort) -> list[StateSums]:
        """How the jobs submitted in a time fared, by user and state."""
        return stats.add_up(self._submitted(wanted))

    def longest_jobs(self, wanted: Cohort, *, now_s: float, limit: int = 5) -> list[Job]:
        """Of the jobs submitted in a time those whose latest run was, or is, the longest."""
        jobs = self._submitted(wanted)
        ran = [job for job in jobs if job.started_s and job.state in stats.RUN_STATES]
        return sorted(ran, key=lambda job: (-stats.run_s_of(job, now_s), job.id))[:limit]

    def jobs_submitted(self, since_s: float, until_s: float, *, limit: int) -> Iterator[Job]:
        """The jobs that were submitted between two moments, the newest first."""
        found = self._submitted(Cohort(since_s, until_s))
        yield from sorted(found, key=lambda job: (-job.submitted_s, job.id))[:limit]

    def _submitted(self, wanted: Cohort) -> list[Job]:
        since_s, until_s = wanted.since_s, wanted.until_s
        chosen = [row for row in self._job_rows() if since_s <= row.submitted_s < until_s]
        jobs = [rows.decode_job(row.body) for row in chosen]
        return [job for job in jobs if wanted.has(job.submitted_s, job.spec.user, job.spec.project)]

    def _job_rows(self) -> list[JobRow]:
        """As of now: a commit in another thread must not change what is being gone through."""
        return list(self._tables.jobs.values())

    def events(self, *, after: int = 0, job: int = 0, limit: int = 1000) -> list[Recorded]:
        """The log beyond ``after``, or what it says about one job (or one array)."""
        tables = self._tables
        seqs = tables.seqs_about.get(job, []) if job else tables.seqs
        start = bisect_right(seqs, after)
        chosen = (tables.events[seq] for seq in seqs[start : start + limit])
        return [rows.recorded((*event[:3], event[5])) for event in chosen]

    def all_events(self) -> Iterator[Recorded]:
        yield from self.events(limit=len(self._tables.seqs))

    def prune(self, before_s: float, *, limit: int = 500, keep: Collection[int] = ()) -> int:
        """Drop up to ``limit`` finished jobs that ended before a time; see ``prune.py``."""
        tables = self._tables
        horizon_s = tables.last_s - rows.KEY_WINDOW_S
        spared = frozenset(keep)

        def old(row: JobRow | ArrayRow) -> bool:
            return (
                row.id not in spared
                and row.submitted_s < before_s
                and (not row.key or row.submitted_s < horizon_s)
            )

        families = {self._family(row) for row in tables.jobs.values()}
        by_age = sorted(tables.jobs.values(), key=lambda row: row.submitted_s)
        jobs = [row.id for row in by_age if row.state in FINAL and old(row)]
        jobs = [job_id for job_id in jobs if self._ended_s(job_id) < before_s][:limit]
        arrays = [
            row.id
            for row in tables.arrays.values()
            if old(row) and row.id not in families and _is_over(self._array(row), before_s)
        ][:limit]
        chatter = [
            seq
            for seq in tables.seqs
            if tables.events[seq][3] in rows.CHATTER and tables.events[seq][1] < before_s
        ][:limit]
        if jobs or arrays or chatter:
            self._write(DiskBatch(pruned=(jobs, arrays, chatter)))
        return len(jobs) + len(arrays) + len(chatter)

    def _family(self, row: JobRow) -> int:
        return rows.decode_job(row.body).array_id

    def _ended_s(self, job_id: int) -> float:
        return rows.decode_job(self._tables.jobs[job_id].body).ended_s

    def audit(self, wanted: AuditFilter, *, before: int = 0, limit: int = 100) -> list[Audited]:
        found = [
            record
            for record in reversed(self._tables.audit)
            if (not before or record.seq < before)
            and wanted.user in ("", record.user)
            and wanted.action in ("", record.action)
            and wanted.object in ("", record.object)
            and record.at_s >= wanted.since_s
        ]
        return found[:limit]

    def prune_audit(self, before_s: float, *, limit: int = 5000) -> int:
        old = sum(record.at_s < before_s for record in self._tables.audit[:limit])
        self._write(DiskBatch(audit_gone=old))
        return old

    def unused_blobs(self, before_s: float) -> list[str]:
        """Which blobs nothing refers to; see ``unused.py``."""
        tables = self._tables
        left = set(self._old_blobs(list(tables.blobs), before_s))
        bodies = [row.body for row in self._job_rows()]
        for body in (*bodies, *(row.body for row in tables.arrays.values())):
            left.difference_update(unused.digests(body))
        return sorted(left)

    def drop_blobs(self, digests: list[str], before_s: float) -> None:
        """Drop them, except those that a submit has used since."""
        self._write(DiskBatch(dropped=self._old_blobs(digests, before_s)))

    def _old_blobs(self, digests: list[str], before_s: float) -> list[str]:
        used, horizon_s = self._tables.used, before_s - unused.MARGIN_S
        return [one for one in digests if (at_s := used.get(one)) is not None and at_s < horizon_s]

    def seal_outcomes(self, *, limit: int = 8) -> int:
        """Nothing: what is in memory is read at once."""
        return 0

    def pack(self, before_s: float, *, now_s: float = inf, limit: int = 100) -> int:
        """Nothing: it is no disk that fills."""
        return 0

    def bookmark(self, name: str) -> str:
        return self._tables.bookmarks.get(name, "")

    def set_bookmark(self, name: str, place: str) -> None:
        self._write(DiskBatch(bookmarks={name: place}))

    def answer(self, key: str) -> bytes | None:
        found = self._tables.answers.get(key)
        return None if found is None else found[1]

    def set_answer(self, key: str, at_s: float, body: bytes | None, *, before_s: float) -> None:
        self._write(DiskBatch(answer=(key, at_s, body, before_s)))

    def tidy(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        self._alive = False


def _refuse_contradictions(change: DiskBatch, tables: Tables) -> None:
    """What the unique indexes of a database do."""
    for event in change.events:
        if event[0] in tables.events:
            raise Contradiction(f"event {event[0]} is on record already")
    for job in change.jobs:
        if tables.uids.get(job.uid, job.id) != job.id:
            raise Contradiction(f"uid {job.uid} is taken by job {tables.uids[job.uid]}")


def _job_row(job: Job) -> JobRow:
    return JobRow(
        job.id, job.uid, job.state, job.spec.user, job.key, job.submitted_s, rows.encode(job)
    )


def _array_row(array: Array, *, with_sweep: bool) -> ArrayRow:
    return ArrayRow(
        array.id,
        array.id + array.count,
        array.spec.user,
        array.key,
        array.submitted_s,
        rows.encode_array(array),
        rows.encode(array.rows) if with_sweep and array.rows else None,
    )


def _records(batch: Batch) -> list[tuple[str, str | int, bytes | None]]:
    found: list[tuple[str, str | int, bytes | None]] = []
    for table in rows.RECORDS:
        changed: dict[Any, Any] = getattr(batch, table)
        for key, row in changed.items():
            found.append((table, key, rows.encode(row) if row is not None else None))
    return found


def _matches(job: Job, wanted: JobFilter) -> bool:
    spec = job.spec
    return (
        wanted.user in ("", spec.user)
        and wanted.project in ("", spec.project)
        and wanted.queue in ("", spec.queue)
        and wanted.name in ("", spec.name)
        and wanted.array in (0, job.array_id)
        and wanted.priorities[0] <= spec.priority <= wanted.priorities[1]
        and (job.outcome is None or job.ended_s >= wanted.ended_since_s)
    )


def _is_over(array: Array, before_s: float) -> bool:
    return not array.waiting and (not array.cut or array.cut_s < before_s)
