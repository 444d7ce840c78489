"""What accounts keep from others and are charged for in a world, by arithmetic of its own.

Everything follows from lines of the log: sizes of nodes, what attempts were given, when they ran
and what they borrowed. Nothing of the core's accounting is used, so that a fault there is seen.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from rota.core.changes import events as ev

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.facts.job import JobSpec
    from rota.core.facts.loans import Loan
    from rota.core.facts.node import Allocation, NodeSpec

#: Thousandths of CPUs, MiB of memory, thousandths of devices.
Sizes = tuple[int, int, int]
#: Seconds of CPUs, of GiB and of devices.
Seconds = list[float]
_UNITS = (1000, 1024, 1000)
NONE: Sizes = (0, 0, 0)


class LoggedRun:
    """One attempt by the log: whose, what it was given, what it keeps from others, and when."""

    __slots__ = (
        "account",
        "borrows",
        "ended_s",
        "given",
        "job",
        "node",
        "own",
        "started_s",
        "told",
        "whole",
    )

    def __init__(self, event: ev.AttemptPlaced, spec: JobSpec, whole: Sizes) -> None:
        held = event.allocation
        self.account = (spec.user, spec.project)
        self.job = event.job
        self.node = held.node
        self.own = held.exclusive
        self.given = _given(held)
        self.whole: Sizes = whole
        self.borrows: tuple[Loan, ...] = event.borrows
        self.started_s = self.ended_s = 0.0
        #: The number of the line that told of its end.
        self.told = 0


class LoggedSums:
    """Reads the log line by line."""

    def __init__(self) -> None:
        self.runs: dict[str, LoggedRun] = {}
        self._nodes: dict[str, NodeSpec] = {}
        #: Devices that jobs do not get, by their uuids: closed, closed by a fault, held elsewhere.
        self._closed: dict[str, set[str]] = {}
        self._faulty: dict[str, set[str]] = {}
        self._elsewhere: dict[str, set[str]] = {}
        #: Accounts of which something was forgotten.
        self._forgotten: set[tuple[str, str]] = set()
        self._first_s = self._last_s = 0.0
        #: By how much clocks went back.
        self._back_s = 0.0
        self._at_s = 0.0

    def read(self, record: ev.Recorded) -> None:
        back_s = max(0.0, self._at_s - record.at_s)
        if isinstance(record.event, ev.ClockMoved):
            # Where nothing was told for a while, the times of records need not show it.
            back_s = max(back_s, -record.event.shift_s)
        self._back_s += back_s
        self._at_s = record.at_s
        self._reach(record.at_s)
        match record.event:
            case ev.AttemptStarted() as event:
                self.runs[event.uid].started_s = event.started_s
                self._reach(event.started_s)
            case ev.AttemptEnded() as event:
                run = self.runs[event.uid]
                run.started_s = run.started_s or event.started_s
                run.ended_s, run.told = event.ended_s, record.seq
                self._reach(event.ended_s)
            case ev.ClockMoved() as event:
                for run in self.runs.values():
                    if run.started_s and not run.told:
                        run.started_s += event.shift_s
            case ev.UsageForgotten() as event:
                self._forgotten.add((event.user, event.project))
            case event:
                self._read_node(event)

    def _reach(self, at_s: float) -> None:
        self._first_s = min(self._first_s or at_s, at_s)
        self._last_s = max(self._last_s, at_s)

    def _read_node(self, event: ev.AnyEvent) -> None:
        match event:
            case ev.NodeRegistered():
                self._nodes[event.spec.name] = event.spec
            case ev.NodeMarked():
                self._closed[event.node] = set(event.closed)
            case ev.NodeQuarantined():
                self._faulty.setdefault(event.node, set()).update(event.devices)
            case ev.NodeDrained() if not event.drained and not event.trial:
                self._faulty.pop(event.node, None)
            case ev.DevicesElsewhere():
                self._elsewhere[event.node] = set(event.devices)
            case _:
                pass

    def placed(self, event: ev.AttemptPlaced, spec: JobSpec) -> None:
        self.runs[event.uid] = LoggedRun(event, spec, self._whole(event.allocation))

    def _whole(self, held: Allocation) -> Sizes:
        """All that others could have on the node, or what was given where that is more."""
        spec, given = self._nodes[held.node], _given(held)
        if not held.exclusive:
            return given
        shut = set[str]().union(
            *(found.get(held.node, ()) for found in (self._closed, self._faulty, self._elsewhere))
        )
        usable = sum(device.healthy and device.uuid not in shut for device in spec.devices)
        return (
            max(given[0], spec.cpu_milli),
            max(given[1], spec.memory_mib),
            max(given[2], 1000 * usable),
        )

    def kept(self, uids: Iterable[str]) -> Sizes:
        """What these attempts keep from others together: a node of a job's own counts once."""
        alone: dict[tuple[int, str], Sizes] = {}
        total = NONE
        for uid in uids:
            run = self.runs[uid]
            if run.own:
                alone[run.job, run.node] = _most(alone.get((run.job, run.node), NONE), run.whole)
            else:
                total = _plus(total, run.given)
        for whole in alone.values():
            total = _plus(total, whole)
        return total

    def wrong_charge(self, account: tuple[str, str], charged: Seconds) -> str:
        """What is wrong with the use that an account was charged for; empty: nothing."""
        low, high = self._bounds(account)
        for name, least, found, most in zip(
            ("CPUs", "memory", "devices"), low, charged, high, strict=True
        ):
            if not least - _slack(most) <= found <= most + _slack(most):
                return f"{found:.3f} s of {name} instead of {least:.3f} to {most:.3f}"
        return ""

    def is_known(self, account: tuple[str, str]) -> bool:
        """Whether all of its use is still on record."""
        return account not in self._forgotten and ("", "") not in self._forgotten

    def shares(self, account: tuple[str, str]) -> bool:
        """Whether any of its use is counted once for several, or less for a loan."""
        lenders = {loan.lender for run in self.runs.values() for loan in run.borrows}
        return any(
            run.own or uid in lenders for uid, run in self.runs.items() if run.account == account
        )

    def _bounds(self, account: tuple[str, str]) -> tuple[Seconds, Seconds]:
        """The least and the most that an account has used.

        Of several tasks on a node of their own one stands for the node, and it is charged from
        when that one runs: only the span of all of them bounds it.
        """
        low, high = [0.0] * 3, [0.0] * 3
        alone: dict[tuple[int, str, str], list[LoggedRun]] = {}
        for uid, run in self.runs.items():
            if run.account != account or not run.started_s:
                continue
            if run.own:
                # Tries of one job follow each other, whatever a clock that was set says.
                number = uid.rpartition(".")[2]
                alone.setdefault((run.job, run.node, number), []).append(run)
                continue
            seconds = self._used(uid, run)
            low = _sum(low, _seconds((-1, 0, 0), self._lent_s(uid, run)))
            low, high = _sum(low, seconds), _sum(high, seconds)
            # What was charged when a loan began or ended stays so, though the end of the lender
            # is told later with an earlier moment.
            late_s = max([0.0, *(at_s - run.ended_s for at_s in self._loan_moments(uid))])
            high = _sum(high, _seconds(run.given, late_s))
            high = _sum(high, _seconds((1, 0, 0), self._unknown_s(uid)))
        for runs in alone.values():
            whole = reduce(_most, [run.whole for run in runs])
            seconds = _seconds(whole, _span_s(runs))
            high = _sum(high, seconds)
            if len(runs) == 1:
                low = _sum(low, seconds)
        return low, high

    def _loan_moments(self, uid: str) -> list[float]:
        """When loans of an attempt began and ended."""
        return [
            at_s
            for other in self.runs.values()
            for loan in other.borrows
            if loan.lender == uid and other.started_s
            for at_s in (other.started_s, other.ended_s)
        ]

    def _unknown_s(self, uid: str) -> float:
        """Thousandths of CPUs times seconds of loans that the lender may have been charged for.

        It was charged when another of its loans began or ended, and that this one had begun
        before was told later.
        """
        loans = [
            (other, loan.cpu_milli)
            for other in self.runs.values()
            for loan in other.borrows
            if loan.lender == uid and other.started_s
        ]
        late = 0.0
        for one, cpu_milli in loans:
            others = [run for run, _ in loans if run is not one]
            moments = [at_s for run in others for at_s in (run.started_s, run.ended_s)]
            charged_s = min(max(moments, default=0.0), one.ended_s)
            late += cpu_milli * max(0.0, charged_s - one.started_s)
        return late

    def _lent_s(self, uid: str, run: LoggedRun) -> float:
        """Thousandths of CPUs times seconds that were on loan for longer than anybody had them.

        The node was silent: the lender was given up before it was told when the borrower ended.
        """
        return sum(
            loan.cpu_milli * max(0.0, run.ended_s - max(run.started_s, other.ended_s))
            for other in self.runs.values()
            for loan in other.borrows
            if loan.lender == uid and other.started_s and other.told > run.told
        )

    def _used(self, uid: str, run: LoggedRun) -> Seconds:
        """What a run used, less what others had of it on loan meanwhile."""
        seconds = _seconds(run.given, _length_s(run))
        for other in self.runs.values():
            for loan in other.borrows:
                if loan.lender == uid and other.started_s:
                    start_s = max(run.started_s, other.started_s)
                    end_s = min(run.ended_s, other.ended_s)
                    seconds[0] -= loan.cpu_milli / 1000 * max(0.0, end_s - start_s)
        return seconds

    def capacity_s(self, overcommit_cpu: float) -> float:
        """The CPU-seconds that all nodes could give while the world lasted."""
        cpus = sum(spec.cpu_milli for spec in self._nodes.values()) / 1000
        return cpus * overcommit_cpu * (self._last_s - self._first_s + self._back_s)


def _given(held: Allocation) -> Sizes:
    part = held.device_milli if held.shared and held.device_milli else 1000
    return held.cpu_milli, held.memory_mib, part * len(held.devices)


def _plus(one: Sizes, other: Sizes) -> Sizes:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def _most(one: Sizes, other: Sizes) -> Sizes:
    return max(one[0], other[0]), max(one[1], other[1]), max(one[2], other[2])


def _seconds(sizes: Sizes, length_s: float) -> Seconds:
    return [size / unit * length_s for size, unit in zip(sizes, _UNITS, strict=True)]


def _sum(one: Seconds, other: Seconds) -> Seconds:
    return [a + b for a, b in zip(one, other, strict=True)]


def _length_s(run: LoggedRun) -> float:
    return max(0.0, run.ended_s - run.started_s)


def _span_s(runs: list[LoggedRun]) -> float:
    """How long at least one of them ran."""
    total_s = until_s = 0.0
    for start_s, end_s in sorted((run.started_s, run.ended_s) for run in runs):
        total_s += max(0.0, end_s - max(start_s, until_s))
        until_s = max(until_s, end_s)
    return total_s


def _slack(most: float) -> float:
    """What rounding may add up to."""
    return 1e-3 + 1e-9 * most
