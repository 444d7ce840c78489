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
        if self._by_length is not None:
            self._by_length.add((self.key(job, run_s), size, run_s, job))
        if self._by_limit is not None and self._dues is not None:
            self._by_limit.add((self.key(job, run_s), size, self._dues.limit_s(job), job))

    def remove(self, job: int, size: int, run_s: float) -> None:
        self.stays.pop(job, None)
        if self._by_length is not None:
            self._by_length.remove((self.key(job, run_s), size, run_s, job))
        if self._by_limit is not None and self._dues is not None:
            self._by_limit.remove((self.key(job, run_s), size, self._dues.limit_s(job), job))

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
            fresh.sort(key=lambda waiter: self.key(waiter[3], waiter[2]))
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
