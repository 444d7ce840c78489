"""Live attempts: where each one is, which of them wait for others to leave, and which lend CPUs.

A loan stands with the attempt that got it, and counts from when that one holds its room. What a
lender holds meanwhile is derived: all that it was given, less what is lent. When the borrower goes,
the lender has its CPUs back in the same instant, before any pass can see them free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.loans import without
from rota.core.facts.policy import PreemptMode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.core.facts.job import Attempt, Job
    from rota.core.facts.loans import Loan
    from rota.core.facts.node import Allocation, Node


class Live:
    """All by uid. ``jobs`` and ``nodes`` are the Cluster's own tables."""

    def __init__(self, jobs: Mapping[int, Job], nodes: Mapping[str, Node]) -> None:
        self._jobs = jobs
        self._nodes = nodes
        #: The job of each live attempt, and the number of its task.
        self.where: dict[str, tuple[int, int]] = {}
        #: Attempts that others wait for to leave a room, and those others.
        self.waited_for: dict[str, dict[str, None]] = {}
        #: Attempts that lend CPUs, and to which ones.
        self.loans: dict[str, dict[str, Loan]] = {}
        #: Attempts of jobs that chose to be stopped, and not ended, when they give way.
        self.stoppable: dict[str, None] = {}
        #: Nodes that end at a moment that is known.
        self.ending: dict[str, None] = {}

    def attempt(self, uid: str) -> Attempt:
        job_id, task = self.where[uid]
        return self._jobs[job_id].tasks[task].attempts[-1]

    def note_mode(self, job: Job, attempt: Attempt) -> None:
        """Passes look for attempts that may stand still only where there is one."""
        if job.spec.preempt_mode is PreemptMode.SUSPEND:
            self.stoppable[attempt.uid] = None

    def note_end(self, node: Node) -> None:
        if node.spec.ends_s:
            self.ending[node.name] = None
        else:
            self.ending.pop(node.name, None)

    def drop(self, uid: str) -> None:
        """An attempt has ended."""
        self.where.pop(uid, None)
        self.stoppable.pop(uid, None)
        self.loans.pop(uid, None)

    def wait(self, attempt: Attempt) -> None:
        """An attempt gets the room of others, and waits for them to leave."""
        for other in attempt.after:
            self.waited_for.setdefault(other, {})[attempt.uid] = None

    def wait_no_more(self, attempt: Attempt) -> None:
        for other in attempt.after:
            waiting = self.waited_for.get(other, {})
            if waiting.pop(attempt.uid, 0) is None and not waiting:
                del self.waited_for[other]

    def lend(self, borrower: Attempt) -> None:
        for loan in borrower.borrows:
            self.loans.setdefault(loan.lender, {})[borrower.uid] = loan

    def repay(self, borrower: Attempt) -> list[str]:
        """A borrower has gone: the lenders, as far as they are still alive."""
        lenders = []
        for loan in borrower.borrows:
            lent = self.loans.get(loan.lender)
            if lent is not None:
                lent.pop(borrower.uid, None)
                if not lent:
                    del self.loans[loan.lender]
                lenders.append(loan.lender)
        return lenders

    def held_by(self, attempt: Attempt) -> Allocation:
        """What an attempt holds now: its allocation, less what it lends."""
        if not self.loans.get(attempt.uid):
            return attempt.allocation
        return without(attempt.allocation, self.counting(attempt).values())

    def counting(self, lender: Attempt) -> dict[str, Loan]:
        """The loans of an attempt to others that hold their room, and do not still wait for it."""
        node = self._nodes.get(lender.allocation.node)
        waiting = node.withheld if node is not None else {}
        return {uid: loan for uid, loan in self.loans[lender.uid].items() if uid not in waiting}

    def freed_by(self, attempt: Attempt) -> Allocation:
        """What is free when an attempt goes: its lenders take back what is theirs."""
        held = self.held_by(attempt)
        if not attempt.borrows:
            return held
        return without(held, [loan for loan in attempt.borrows if loan.lender in self.where])

    def borrower_of(self, job: Job) -> int:
        """A job that has CPUs of this one or will have them, the one on record first; 0: none."""
        jobs = {
            self.where[uid][0]: None
            for attempt in job.live_attempts
            for uid in self.loans.get(attempt.uid, ())
        }
        return job.yields_to if job.yields_to in jobs else next(iter(jobs), 0)
