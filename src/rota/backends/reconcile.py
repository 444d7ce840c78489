"""The engine's list held against the journal: what follows, without I/O and without a clock.

========== ======================= ============================================================
journal    the engine              what follows
========== ======================= ============================================================
none       has our key             ours, from a journal that was lost: adopted
intended   has it                  adopted
intended   has it not, for long    submitted (again): the engine never took it
submitted  has it not, for long    looked for in its accounting, then missing for good
any        has it twice            the first that begins counts, the others are stopped then
any        has started it over     over: what is tried again has a new key; the job is stopped
over       has it alive            stopped
========== ======================= ============================================================

*For long* is the driver's ``settle_s`` between two complete lists: an engine may show a job a
moment after it has taken it, or forget one that it has acknowledged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from rota.backends.api import EnginePhase
from rota.backends.journal import EngineEntry, Stance
from rota.core.facts.states import Cause

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rota.backends.api import EngineJob


class LookOutcome(NamedTuple):
    """What one look at the engine leads to."""

    #: Entries as they are now, to be written before anything else is done.
    changed: list[EngineEntry]
    #: The jobs of living entries, by uid, as the engine shows them.
    seen: dict[str, EngineJob]
    #: Intended, and certainly not with the engine: to be submitted.
    due: list[str]
    #: Submitted, and not in the list: to be looked for by ``Driver.find``.
    lost: list[str]
    #: What must not run (any more): younger twins, and what the engine starts over.
    strays: list[EngineJob]


class Absences:
    """Since when entries have been absent from complete lists."""

    def __init__(self, settle_s: float) -> None:
        self._settle_s = settle_s
        self._since_s: dict[str, float] = {}

    def note(self, uids: Iterable[str], now_s: float) -> list[str]:
        """These are absent in the list that was asked for at ``now_s``; those for long enough."""
        self._since_s = {uid: self._since_s.get(uid, now_s) for uid in uids}
        return [uid for uid, at_s in self._since_s.items() if now_s - at_s >= self._settle_s]


def look(
    entries: Mapping[str, EngineEntry],
    listing: Iterable[EngineJob],
    busy: set[str],
    absences: Absences,
    asked_s: float,
    node_of: Mapping[str, str],
    now_s: float,
) -> LookOutcome:
    """Hold a complete list, asked for at ``asked_s`` of a clock that never jumps, against the
    journal, whose times are of the day: ``now_s``.

    ``busy``: submits that are under way, of which the list says nothing. ``node_of`` gives for a
    node of the engine the node of ours.
    """
    found, strays = one_each(listing)
    changed: list[EngineEntry] = []
    seen: dict[str, EngineJob] = {}
    for uid, job in found.items():
        entry = entries.get(uid)
        if job.phase is not EnginePhase.ENDED and (
            job.restarts or (entry is not None and entry.over)
        ):
            strays.append(job)
            job = _started_over(job)
        if entry is not None and entry.over:
            continue
        if entry is None:
            node = node_of.get(job.node) or node_of.get("", "")
            if not node:
                continue  # It waits in the engine, on no node of ours yet: the next look tells.
            entry = EngineEntry(uid=uid, node=node, state=Stance.INTENDED, at_s=now_s)
        updated = replace(entry, state=Stance.SUBMITTED, id=job.id, order=None)
        if job.phase is EnginePhase.ENDED:
            updated = replace(updated, state=Stance.ENDED, end=job)
        else:
            seen[uid] = job
        if updated != entries.get(uid):
            changed.append(updated)
    absent = [
        uid
        for uid, entry in entries.items()
        if uid not in found and uid not in busy and not entry.over
    ]
    settled = absences.note(absent, asked_s)
    due = [uid for uid in settled if entries[uid].state is Stance.INTENDED and entries[uid].order]
    # One without an order cannot be submitted by anybody: a journal of an older start.
    lost = [uid for uid in settled if uid not in due]
    return LookOutcome(changed, seen, due, lost, strays)


def _started_over(job: EngineJob) -> EngineJob:
    """Its first run is over, and how it ended is not known any more."""
    why = "requeued inside the engine"
    return replace(job, phase=EnginePhase.ENDED, cause=Cause.PREEMPTED, detail=why)


def one_each(listing: Iterable[EngineJob]) -> tuple[dict[str, EngineJob], list[EngineJob]]:
    """The job that counts of each key, and the living others.

    While all of them wait none is stopped: it might begin just then.
    """
    found: dict[str, EngineJob] = {}
    twins = []
    for job in sorted(listing, key=_weight):
        if job.uid not in found:
            found[job.uid] = job
        elif job.phase is not EnginePhase.ENDED and found[job.uid].phase is not EnginePhase.WAITING:
            twins.append(job)
    return found, twins


def _weight(job: EngineJob) -> tuple[int, float, int, str]:
    """The oldest that has begun counts first, then what may begin: what ended without having begun
    says nothing of its twin.
    """
    begun = job.phase is EnginePhase.RUNNING or (
        job.phase is EnginePhase.ENDED and job.started_s > 0
    )
    chance = 0 if begun else 1 if job.phase is EnginePhase.WAITING else 2
    return chance, job.submitted_s, len(job.id), job.id
