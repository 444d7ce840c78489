"""What is told of an array as a whole: that it began, the first failure, how all of it ended.

Rows say how things are now, and the log may be told later than it was written. So the last end is
the one behind which the log has no other of the same array.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Protocol

from rota.core.changes import events as ev
from rota.core.facts.states import FINAL, JobState

if TYPE_CHECKING:
    from rota.core.changes.events import Recorded
    from rota.core.facts.array import Array
    from rota.core.facts.job import Job
    from rota.notify.notice import Told

UNFINISHED = tuple(state for state in JobState if state not in FINAL)
#: Ends that are failures; a cancel is somebody's wish.
UNWELL = tuple(sorted(FINAL - {JobState.COMPLETED, JobState.CANCELLED}))
#: The most failed elements that are counted; beyond that it is "at least".
COUNTED_MAX = 10_000
REMEMBERED = 1000
_PAGE = 1000


class SweepLog(Protocol):
    """The part of a store that is read here."""

    def events(self, *, after: int = 0, job: int = 0, limit: int = 1000) -> list[Recorded]: ...

    def elements(self, array: int, states: tuple[JobState, ...], limit: int) -> list[Job]: ...


class Sweeps:
    """Remembers what was told of which array; what it has forgotten it finds in the rows."""

    def __init__(self, log: SweepLog) -> None:
        self._log = log
        self._told: OrderedDict[tuple[int, str], None] = OrderedDict()

    def of_element(self, record: Recorded, told: list[Told], job: Job, array: Array) -> list[Told]:
        """What an event of an element tells of its array."""
        found: list[Told] = []
        for name, detail in told:
            if name == "started" and self._first(array, "started", job):
                found.append(("started", detail))
            if name in UNWELL and self._first(array, "failed", job):
                ref = f"{array.id}_{job.array_index}"
                why = detail.get("detail") or detail.get("cause")
                first = {"element": ref, "detail": f"first failure: element {ref}, {why}"}
                found.append((name, detail | first))
        return [*found, *self.of_end(record, array)]

    def of_end(self, record: Recorded, array: Array) -> list[Told]:
        """How all of it ended, if this was the last end of an element."""
        if not isinstance(record.event, ev.JobSettled | ev.ArrayCancelled):
            return []
        if (array.id, "ended") in self._told or not self._is_last(record.seq, array):
            return []
        self._remember(array.id, "ended")
        counts = self._counts(array)
        state = next((one for one in (*UNWELL, JobState.CANCELLED) if counts.get(one)), None)
        words = ", ".join(f"{count} {one}" for one, count in counts.items() if count)
        told: dict[str, Any] = {"elements": counts, "detail": f"all {array.count} ended: {words}"}
        return [(str(state or JobState.COMPLETED), told)]

    def _first(self, array: Array, what: str, job: Job) -> bool:
        """Whether nothing of the kind happened to another element before."""
        if (array.id, what) in self._told:
            return False
        self._remember(array.id, what)
        states = UNWELL if what == "failed" else ()
        moment = "ended_s" if what == "failed" else "started_s"
        others = self._log.elements(array.id, states, _PAGE)
        mine = (getattr(job, moment), job.id)
        return not any(getattr(one, moment) > 0 and (getattr(one, moment), one.id) < mine
                       for one in others)  # fmt: skip

    def _is_last(self, seq: int, array: Array) -> bool:
        if array.waiting or self._log.elements(array.id, UNFINISHED, 1):
            return False
        after = seq
        while page := self._log.events(after=after, limit=_PAGE):
            if any(_ends_one_of(later.event, array) for later in page):
                return False
            after = page[-1].seq
        return True

    def _counts(self, array: Array) -> dict[str, int]:
        counts: dict[str, int] = {}
        for state in (*UNWELL, JobState.CANCELLED):
            if found := len(self._log.elements(array.id, (state,), COUNTED_MAX)):
                counts[str(state)] = found
        if array.cut and array.cut_outcome is not None:
            cut = str(array.cut_outcome.state)
            counts[cut] = counts.get(cut, 0) + sum(b - a + 1 for a, b in array.cut)
        completed = array.count - sum(counts.values())
        return {str(JobState.COMPLETED): completed, **counts} if completed else counts

    def _remember(self, array: int, what: str) -> None:
        self._told[array, what] = None
        if len(self._told) > REMEMBERED:
            self._told.popitem(last=False)


def _ends_one_of(event: ev.AnyEvent, array: Array) -> bool:
    if isinstance(event, ev.ArrayCancelled):
        return event.array == array.id
    return isinstance(event, ev.JobSettled) and array.id < event.job <= array.id + array.count
