"""The jobs that a showing command is asked about, as records.

What is unfinished comes from memory, what has ended from the store. Long lists are made in
pieces, so that the controller goes on meanwhile.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from rota.api.views.lookup import cut_element
from rota.core.changes.events import JobSettled
from rota.core.facts.errors import Rejected
from rota.core.facts.indices import IndexSet, position_of
from rota.core.facts.job import Job
from rota.core.facts.states import FINAL, JobState
from rota.slurm.call.list_turns import long_list
from rota.slurm.call.view import BREATH
from rota.slurm.records.job_refs import JobRef, RefIndex
from rota.slurm.records.wishes import details
from rota.store.api import JobFilter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.controller.loop import Host
    from rota.core.cluster import Cluster
    from rota.core.facts.array import Array
    from rota.core.facts.job import JobSpec
    from rota.slurm.records.job_records import Recorder
    from rota.slurm.records.records import JobRecord
    from rota.store.api import Store

#: How long an ended job stays in squeue, as ``scontrol show config`` says.
MIN_JOB_AGE_S = 300
#: A list of more records waits for its turn, and none has more: it is in memory as a whole.
LONG, RECORDS_MAX = 10_000, 500_000
#: Events are read backwards in pieces of this size.
EVENTS_BACK = 5000
#: Rows read at a time, and the most that one command reads.
ROWS = 1000
ROWS_MAX = 200_000
NO_REFS = RefIndex()
_FINAL = tuple(state for state in JobState if state in FINAL)


class JobSieve(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs. Empty fields do not filter."""

    refs: RefIndex = NO_REFS
    users: frozenset[str] = frozenset()
    accounts: frozenset[str] = frozenset()
    partitions: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    #: One line for each waiting element of an array.
    split: bool = False
    steps: bool = False
    #: Earlier rounds of jobs that were put back, too.
    rounds: bool = False

    def takes(self, spec: JobSpec) -> bool:
        """What can be said without a record."""
        return (
            (not self.users or spec.user in self.users)
            and (not self.accounts or spec.project in self.accounts)
            and (not self.partitions or self._in_partition(spec))
            and (not self.names or spec.name in self.names)
        )

    def _in_partition(self, spec: JobSpec) -> bool:
        """One that waits may be meant by any partition that it named."""
        return not self.partitions.isdisjoint((spec.queue, *details(spec).partitions.split(",")))

    @property
    def picks(self) -> bool:
        """Whether specs matter at all."""
        return bool(self.users or self.accounts or self.partitions or self.names)

    def means(self, record: JobRecord) -> bool:
        if self.partitions and self.partitions.isdisjoint(record.partition.split(",")):
            return False
        return not self.refs or self.refs.names(record)


async def unfinished(host: Host, wanted: JobSieve, recorder: Recorder) -> list[JobRecord]:
    """Everything that waits or runs."""
    if wanted.refs:
        return await _record(host, _named(host.cluster, wanted), wanted, recorder)
    items: list[Job | Array] = [*host.cluster.jobs.values()]
    if wanted.picks:
        items = [item for item in items if wanted.takes(item.spec)]
    items += [
        array
        for array in host.cluster.arrays.values()
        if array.waiting and wanted.takes(array.spec)
    ]
    return await _record(host, items, wanted, recorder)


def _named(cluster: Cluster, wanted: JobSieve) -> list[Job | Array]:
    """What the references name, without a look at everything else."""
    found: dict[int, Job | Array] = {}
    for ref in wanted.refs:
        for item in _of_ref(cluster, ref):
            found.setdefault(item.id, item)
    return [item for item in found.values() if wanted.takes(item.spec)]


def _of_ref(cluster: Cluster, ref: JobRef) -> Iterator[Job | Array]:
    job, array = cluster.jobs.get(ref.id), cluster.arrays.get(ref.id)
    if array is not None:
        yield from _of_array(cluster, array, ref)
    elif job is not None:
        yield job
    elif (family := cluster.array_of(ref.id)) is not None:
        yield family.expand(family.position(ref.id))


def _of_array(cluster: Cluster, array: Array, ref: JobRef) -> Iterator[Job | Array]:
    """All of it, or the elements that are named."""
    touched = cluster.families.unfinished.get(array.id, ())
    yield from (cluster.jobs[number] for number in list(touched))
    if ref.indices is None:
        if array.waiting:
            yield array
        return
    for index in sorted(ref.indices):
        position = position_of(array.runs, index)
        if position is not None and position in array.pending():
            yield array.expand(position)


async def lately_ended(
    host: Host, wanted: JobSieve, recorder: Recorder, since_s: float
) -> list[JobRecord]:
    """What ended since a moment not long ago, found through the end of the log."""
    if wanted.refs:
        known = await host.read(lambda store: _rows_by_ref(store, wanted.refs))
        rows = [job for job in known if job.ended_s >= since_s]
    else:
        newest = host.newest_seq
        ids = await host.read(lambda store: _settled(store, newest, since_s))
        rows = await host.read(lambda store: _rows_of(store, ids))
    items: list[Job | Array] = [job for job in rows if wanted.takes(job.spec)]
    items += _cut_arrays(host, wanted, since_s)
    return await _record(host, items, wanted, recorder)


async def ended(
    host: Host, wanted: JobSieve, recorder: Recorder, since_s: float
) -> list[JobRecord]:
    """What ended since any moment, for accounting."""
    rows = await host.read(lambda store: _finished_rows(store, wanted, since_s))
    items: list[Job | Array] = [job for job in rows if wanted.takes(job.spec)]
    items += _cut_arrays(host, wanted, since_s)
    return await _record(host, items, wanted, recorder)


def _cut_arrays(host: Host, wanted: JobSieve, since_s: float) -> list[Job | Array]:
    """Arrays whose rest was ended before anything touched it, or the elements that are named."""
    arrays = [
        array
        for array in host.cluster.arrays.values()
        if array.cut and not array.waiting and array.cut_s >= since_s and wanted.takes(array.spec)
    ]
    named = {ref.id: ref.indices for ref in wanted.refs if ref.indices is not None}
    found: list[Job | Array] = []
    for array in arrays:
        if array.id not in named:
            found.append(array)
            continue
        positions = (position_of(array.runs, index) for index in sorted(named[array.id]))
        cut = IndexSet(array.cut)
        found += [cut_element(array, at) for at in positions if at is not None and at in cut]
    return found


async def _record(
    host: Host, items: list[Job | Array], wanted: JobSieve, recorder: Recorder
) -> list[JobRecord]:
    await recorder.recall(host, (item for item in items if isinstance(item, Job)))
    found: list[JobRecord] = []
    looked_at = 0
    for item in items:
        # An array may have a million elements, and each of them a record.
        for record in _records_of(item, wanted, recorder):
            looked_at += 1
            if wanted.means(record):
                found.append(record)
            if looked_at % BREATH == 0:
                await asyncio.sleep(0)
                if len(found) >= LONG:
                    await long_list()
                if len(found) > RECORDS_MAX:
                    raise Rejected(
                        f"these are more than {RECORDS_MAX} jobs; ask for fewer, or for arrays as "
                        "a whole"
                    )
    return found


def _records_of(item: Job | Array, wanted: JobSieve, recorder: Recorder) -> Iterator[JobRecord]:
    if isinstance(item, Job):
        if wanted.rounds:
            latest = max((a.number for task in item.tasks for a in task.attempts), default=0)
            last = latest + (item.outcome is None and not item.live_attempts)
            yield from (recorder.job(item, number) for number in range(1, last))
        yield from recorder.parts(item)
    elif not wanted.split:
        yield recorder.rest(item)
    else:
        spans = item.waiting or item.cut
        for position in IndexSet(spans).walk():
            yield recorder.job(
                item.expand(position) if item.waiting else cut_element(item, position)
            )


def _settled(store: Store, newest: int, since_s: float) -> list[int]:
    """The ids of jobs that ended since a moment, by reading the log from its end."""
    ids: dict[int, None] = {}
    last = newest
    while last > 0:
        first = max(0, last - EVENTS_BACK)
        page = store.events(after=first, limit=last - first)
        ids.update(
            (record.event.job, None)
            for record in page
            if isinstance(record.event, JobSettled) and record.at_s >= since_s
        )
        if page and page[0].at_s < since_s:
            break
        last = first
    return list(ids)


def _rows_of(store: Store, ids: list[int]) -> list[Job]:
    found: list[Job] = []
    for at in range(0, len(ids), ROWS):
        part = tuple(ids[at : at + ROWS])
        found += store.list_jobs(JobFilter(ids=part, states=_FINAL), limit=len(part))
    return found


def _finished_rows(store: Store, wanted: JobSieve, since_s: float) -> list[Job]:
    if wanted.refs:
        return _rows_by_ref(store, wanted.refs)
    only = JobFilter(
        states=_FINAL,
        user=next(iter(wanted.users)) if len(wanted.users) == 1 else "",
        queue=next(iter(wanted.partitions)) if len(wanted.partitions) == 1 else "",
        name=next(iter(wanted.names)) if len(wanted.names) == 1 else "",
        ended_since_s=since_s,
    )
    return _all_rows(store, only)


def _rows_by_ref(store: Store, refs: RefIndex) -> list[Job]:
    """The rows of the jobs named, and of all elements where an array is."""
    ids = tuple(dict.fromkeys(ref.id for ref in refs))
    found = {job.id: job for job in _rows_of(store, list(ids))}
    for number in ids:
        if number not in found:
            family = JobFilter(array=number, states=_FINAL)
            found |= {job.id: job for job in _all_rows(store, family)}
    return list(found.values())


def _all_rows(store: Store, only: JobFilter) -> list[Job]:
    """The newest rows first, as many as one command may read."""
    found: list[Job] = []
    after = 0
    while len(found) < ROWS_MAX:
        page = store.list_jobs(only, after=after, limit=ROWS, newest_first=True)
        found += page
        if len(page) < ROWS:
            break
        after = page[-1].id
    return found
