"""Jobs that may pass the first of a pool: the order in which they are asked, and their stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.sim.pool.line import PoolLine

if TYPE_CHECKING:
    from rota.sim.pool.dues import Dues
    from rota.sim.pool.line import Waiter


class PoolCandidates:
    """Where not the queue's order decides: by length, and under the order ``due`` by wait too."""

    def __init__(self, dues: Dues | None, *, shortest: bool) -> None:
        self._dues = dues
        self._by_length = PoolLine() if shortest else None
        #: The same with their limits instead: what counts against a job that has waited long.
        self._by_limit = PoolLine() if dues is not None else None
        #: Where each job stands in the one and in the other.
        self._places: dict[int, tuple[Waiter, Waiter | None]] = {}
        #: The job that they may pass, and whether only limits count against it.
        self.head = -1
        self._firm = False
        #: How long some of them hold their room once they run, where that is another time.
        self.stays: dict[int, float] = {}

    def key(self, job: int, run_s: float) -> tuple[float, int]:
        return (run_s, job) if self._dues is None else self._dues.passing_key(job)

    def add(self, job: int, size: int, run_s: float, stay_s: float) -> None:
        if stay_s:
            self.stays[job] = stay_s
        if self._by_length is None and self._by_limit is None:
            return
        key, by_limit = self.key(job, run_s), None
        by_length = (key, size, run_s, job)
        if self._by_length is not None:
            self._by_length.add(by_length)
        if self._by_limit is not None and self._dues is not None:
            by_limit = (key, size, self._dues.limit_s(job), job)
            self._by_limit.add(by_limit)
        self._places[job] = (by_length, by_limit)

    def remove(self, job: int) -> None:
        self.stays.pop(job, None)
        if self._by_length is None and self._by_limit is None:
            return
        by_length, by_limit = self._places.pop(job)
        if self._by_length is not None:
            self._by_length.remove(by_length)
        if self._by_limit is not None and by_limit is not None:
            self._by_limit.remove(by_limit)

    def behind(self, head: int) -> None:
        """This job is first from now on; -1: not known yet."""
        self.head = head
        self._firm = head >= 0 and self._dues is not None and self._dues.is_firm(head)

    def among(self, queue: PoolLine) -> PoolLine:
        """Those that may pass, in order: the queue itself where no other order was asked for."""
        if self._firm and self._by_limit is not None:
            return self._by_limit
        return queue if self._by_length is None else self._by_length

    def sort(self, fresh: list[Waiter], *, plain: bool) -> None:
        """In the order in which they are asked. ``plain``: the queue's is that of submission."""
        if self._by_length is not None:
            places = self._places
            fresh.sort(key=lambda waiter: places[waiter[3]][0][0])
        elif not plain:
            fresh.sort()

    def holds_s(self, waiter: Waiter) -> float:
        """How long a job is taken to hold its room once it runs."""
        return self.stays.get(waiter[3], waiter[2])

    def stays_s(self, waiter: Waiter) -> float:
        """How long a job counts as staying against the one that is first."""
        if self._firm and self._dues is not None:
            return self._dues.limit_s(waiter[3])
        return waiter[2]
