"""A disk in memory that outlives the processes of a test: encoded rows, and faults on demand."""

from __future__ import annotations

from enum import StrEnum
from zlib import crc32

import msgspec
from msgspec.structs import replace

from rota.core.derived.ids import Ledger
from rota.core.facts.errors import Unavailable
from rota.core.facts.site.audit import Audited
from rota.core.facts.states import JobState
from rota.store import rows
from rota.store.outcomes import put_array


class DiskFault(StrEnum):
    """What happens to the next commit."""

    CRASH_BEFORE = "the process dies and nothing was written"
    CRASH_TORN = "the process dies in the middle of the write"
    CRASH_AFTER = "the process dies once the batch is on disk, before it can say so"
    FULL = "the disk is full, and stays full until the fault is taken back"


class ProcessDied(BaseException):
    """The death of the simulated process. No ``except Exception`` may survive it."""


class JobRow(msgspec.Struct, array_like=True):
    """An encoded job, and what must be known of it without decoding."""

    id: int
    uid: str
    state: JobState
    user: str
    key: str
    submitted_s: float
    body: bytes


class ArrayRow(msgspec.Struct, array_like=True):
    """An encoded array; ``sweep`` only the first time."""

    id: int
    last_id: int
    user: str
    key: str
    submitted_s: float
    body: bytes
    sweep: bytes | None


class DiskBatch(msgspec.Struct, array_like=True):
    """A batch as it goes to the disk: encoded rows, in the form that ``Tables`` keeps."""

    jobs: list[JobRow] = []
    arrays: list[ArrayRow] = []
    events: list[tuple[int, float, str, str, int | None, bytes]] = []
    blobs: dict[str, bytes] = {}
    #: When these were used; and which ones go.
    used_s: float | None = None
    dropped: list[str] = []
    records: list[tuple[str, str | int, bytes | None]] = []
    #: What ``prune`` took away: jobs, arrays, and numbers of events.
    pruned: tuple[list[int], list[int], list[int]] = ([], [], [])
    next_id: int = 0
    #: How far readers of the log have come.
    bookmarks: dict[str, str] = {}
    audit: list[Audited] = []
    #: How many of its oldest records were dropped.
    audit_gone: int = 0
    #: What a request under a key was answered, when; and older ones that go.
    answer: tuple[str, float, bytes | None, float] | None = None


class Tables:
    """What is on the disk, row by row."""

    def __init__(self) -> None:
        self.jobs: dict[int, JobRow] = {}
        self.uids: dict[str, int] = {}
        self.arrays: dict[int, ArrayRow] = {}
        self.sweeps: dict[int, bytes] = {}
        self.events: dict[int, rows.Row] = {}
        #: The numbers of the events, ascending, and those about one job.
        self.seqs: list[int] = []
        self.seqs_about: dict[int, list[int]] = {}
        self.blobs: dict[str, bytes] = {}
        self.used: dict[str, float | None] = {}
        self.records: dict[str, dict[str | int, bytes]] = {name: {} for name in rows.RECORDS}
        self.bookmarks: dict[str, str] = {}
        self.audit: list[Audited] = []
        self.answers: dict[str, tuple[float, bytes]] = {}
        #: How those ended that were pruned.
        self.gone = Ledger()
        self.next_id = 1
        self.next_seq = 1
        self.last_s = 0.0

    def put(self, change: DiskBatch) -> None:
        self.bookmarks.update(change.bookmarks)
        first = self.audit[-1].seq + 1 if self.audit else 1
        self.audit += [replace(r, seq=n) for n, r in enumerate(change.audit, first)]
        del self.audit[: change.audit_gone]
        self.next_id = max(self.next_id, change.next_id)
        for job in change.jobs:
            self.jobs[job.id] = job
            self.uids[job.uid] = job.id
            self.next_id = max(self.next_id, job.id + 1)
        for array in change.arrays:
            self.arrays[array.id] = array
            self.next_id = max(self.next_id, array.last_id + 1)
            if array.sweep is not None:
                self.sweeps[array.id] = array.sweep
        for event in change.events:
            self._append(event)
        self._put_blobs(change)
        for table, key, record in change.records:
            if record is None:
                self.records[table].pop(key, None)
            else:
                self.records[table][key] = record
        if any(change.pruned):
            self._prune(*change.pruned)
        if change.answer is not None:
            self._set_answer(*change.answer)

    def _put_blobs(self, change: DiskBatch) -> None:
        for digest, blob in change.blobs.items():
            self.blobs.setdefault(digest, blob)
            self.used[digest] = change.used_s
        for digest in change.dropped:
            del self.blobs[digest], self.used[digest]

    def _set_answer(self, key: str, at_s: float, body: bytes | None, before_s: float) -> None:
        kept = {k: a for k, a in self.answers.items() if k != key and a[0] >= before_s}
        self.answers = kept if body is None else kept | {key: (at_s, body)}

    def _append(self, event: rows.Row) -> None:
        seq, self.last_s, _, _, job_id, _ = event
        self.events[seq] = event
        self.seqs.append(seq)
        self.next_seq = max(self.next_seq, seq + 1)
        if job_id is not None:
            self.seqs_about.setdefault(job_id, []).append(seq)

    def _prune(self, jobs: list[int], arrays: list[int], events: list[int]) -> None:
        gone = set(events)
        for job_id in jobs:
            job = self.jobs.pop(job_id)
            del self.uids[job.uid]
            self.gone.put(job_id, job.state)
        for array_id in arrays:
            put_array(self.gone, rows.decode_array(self.arrays.pop(array_id).body, None))
            self.sweeps.pop(array_id, None)
        for about in (*jobs, *arrays):
            gone.update(self.seqs_about.pop(about, ()))
        self.seqs = [seq for seq in self.seqs if seq not in gone]
        for seq in gone:
            del self.events[seq]


class MemoryDisk:
    """What survives the death of a process.

    With ``faulty`` every commit is also framed (length, checksum, bytes) onto a log, and the
    next one to open the disk reads that log alone: a frame that a crash tore apart ends it.
    """

    def __init__(self, cluster_id: str = "memory", *, faulty: bool = False) -> None:
        self.cluster_id = cluster_id
        self.tables = Tables()
        self.log: bytearray | None = bytearray() if faulty else None
        #: The fault of the next commit. A crash happens once; a full disk stays full.
        self.fault: DiskFault | None = None
        #: How much of a frame a torn write leaves, from 0 to 1.
        self.torn_share = 0.5
        self.commits = 0

    def write(self, change: DiskBatch) -> None:
        fault = self.fault
        if fault is DiskFault.FULL:
            raise Unavailable("the disk that holds memory is full: nothing was changed")
        self.fault = None
        if fault is DiskFault.CRASH_BEFORE:
            raise ProcessDied(fault)
        if self.log is not None:
            frame = _frame(change)
            if fault is DiskFault.CRASH_TORN:
                self.log += frame[: min(len(frame) - 1, int(len(frame) * self.torn_share))]
            else:
                self.log += frame
        if fault is DiskFault.CRASH_TORN:
            raise ProcessDied(fault)
        self.tables.put(change)
        self.commits += 1
        if fault is DiskFault.CRASH_AFTER:
            raise ProcessDied(fault)

    def recover(self) -> None:
        """What opening does: read the log up to the first frame that is not whole."""
        if self.log is None:
            return
        tables = Tables()
        at = 0
        while (body := _unframe(self.log, at)) is not None:
            tables.put(_decode_change(body))
            at += _HEAD + len(body)
        del self.log[at:]
        self.tables = tables


_HEAD = 8
_encode_change = msgspec.msgpack.Encoder().encode
_decode_change = msgspec.msgpack.Decoder(DiskBatch).decode


def _frame(change: DiskBatch) -> bytes:
    body = _encode_change(change)
    return len(body).to_bytes(4, "big") + crc32(body).to_bytes(4, "big") + body


def _unframe(log: bytearray, at: int) -> bytes | None:
    if len(log) < at + _HEAD:
        return None
    size = int.from_bytes(log[at : at + 4], "big")
    body = bytes(log[at + _HEAD : at + _HEAD + size])
    whole = len(body) == size and crc32(body) == int.from_bytes(log[at + 4 : at + _HEAD], "big")
    return body if whole else None
