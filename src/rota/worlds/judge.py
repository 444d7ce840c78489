"""What really happened in a world, kept apart from what the controller believes.

The judge sees every process start and end with its own eyes, reads the log and knows what callers
were told. Each rule below is one of the promises A to F of the architecture. Sums over accounts are
its own too (``sums.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.changes.events import AttemptEnded
from rota.core.facts.loans import without
from rota.core.facts.policy import PreemptMode
from rota.core.facts.states import FINAL, Cause, JobState
from rota.worlds.books import Books, BrokenPromise

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.changes.events import Recorded
    from rota.core.facts.job import Attempt, Job, JobSpec
    from rota.core.facts.node import Allocation, NodeSpec
    from rota.core.facts.tenant import Limits
    from rota.store.api import Store

__all__ = ["BrokenPromise", "Judge", "WorldProcess"]

#: Causes that a scheduler's choice has: no job ends for good because of one.
PASSING = (
    *(Cause.BACKFILL_WINDOW, Cause.ASSEMBLY_TIMEOUT, Cause.SHRUNK),
    *(Cause.REQUEUED, Cause.MIGRATED),
)


class WorldProcess:
    """One real process of the world."""

    __slots__ = (
        *("after", "allocation", "borrows", "ended", "exit_code"),
        *("job", "node", "spec", "stopped", "task", "uid"),
    )

    def __init__(self, job: Job, task: int, attempt: Attempt) -> None:
        self.uid = attempt.uid
        self.job = job.id
        self.spec: JobSpec = job.spec
        self.task = task
        self.allocation: Allocation = attempt.allocation
        self.node = attempt.allocation.node
        self.after = attempt.after
        self.borrows = attempt.borrows
        #: Its processes stand still.
        self.stopped = False
        self.ended = False
        self.exit_code: int | None = None


class Judge:
    """Holds the controller to its promises."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.books = Books()
        self.processes: dict[str, WorldProcess] = {}
        self.alive: dict[str, WorldProcess] = {}
        self.acknowledged: set[int] = set()
        #: Jobs and arrays that somebody asked to cancel.
        self.cancelled: set[int] = set()
        self.excused: set[str] = set()
        #: How often the controller's clock was set in a world with cuts.
        self.jumps = 0
        #: Machines that sleep or just woke up, and processes there that are on record as ended.
        self.asleep: set[str] = set()
        self.overdue: dict[str, WorldProcess] = {}
        #: The latest life of each node, as attempts name it.
        self.boots: dict[str, str] = {}

    def read(self, log: Iterable[Recorded]) -> None:
        """What was committed; lines that were read before are passed over."""
        for record in log:
            if record.seq > self.books.seq:
                self._check_given_up(record)
            self.books.read(record, lambda uid: self.find(uid)[0].spec)

    def _check_given_up(self, record: Recorded) -> None:
        """Promise B: what is on record as ended is not alive any more.

        On a machine that sleeps it may be: it does nothing there, and ends soon after that wakes.
        """
        event = record.event
        if not isinstance(event, AttemptEnded):
            return
        if event.cause is Cause.NODE_LOST and record.actor == "rota":
            self.excused.add(event.uid)
        process = self.alive.get(event.uid)
        if process is not None and process.node in self.asleep:
            self.overdue[event.uid] = self.alive.pop(event.uid)
        elif process is not None:
            raise BrokenPromise(f"B: {event.uid} was given up with {process.node} and is alive")

    def woke(self, node: str) -> None:
        """A machine has been awake for so long that its keeper has seen what is over."""
        self.asleep.discard(node)
        alive = [process for process in self.overdue.values() if process.node == node]
        if alive:
            raise BrokenPromise(f"B: {alive[0].uid} was given up with {node} and is alive")

    def cut_off(self, uid: str) -> None:
        """Its node's lease ran out: it is told to end, and may be on record as lost."""
        self.excused.add(uid)

    def find(self, uid: str) -> tuple[Job, int, Attempt]:
        """Promise C: what starts is on disk before it starts."""
        job_uid, task_text, number = uid.rsplit(".", 2)
        job = self.store.job_by_uid(job_uid)
        if job is None:
            raise BrokenPromise(f"C: {uid} starts and its job is not on disk")
        task = int(task_text)
        for attempt in job.tasks[task].attempts if job.tasks else ():
            # A task that left a running gang and came back has several of one number.
            if attempt.uid == uid and attempt.number == int(number.partition("-")[0]):
                return job, task, attempt
        raise BrokenPromise(f"C: {uid} starts and the attempt is not on disk")

    def starts(self, uid: str, node: NodeSpec) -> WorldProcess:
        job, task, attempt = self.find(uid)
        if uid in self.processes:
            raise BrokenPromise(f"B: {uid} was started a second time")
        twin = next((p for p in self.alive.values() if (p.job, p.task) == (job.id, task)), None)
        if twin is not None:
            raise BrokenPromise(f"B: {uid} starts while {twin.uid} is alive")
        process = self.processes[uid] = self.alive[uid] = WorldProcess(job, task, attempt)
        self._check_turn(process)
        self._check_room(node)
        self._check_limits(process)
        return process

    def ends(self, uid: str) -> WorldProcess:
        process = self.processes[uid]
        process.ended = True
        self.alive.pop(uid, None)
        self.overdue.pop(uid, None)
        return process

    def _check_turn(self, process: WorldProcess) -> None:
        """A job that gets the room of others starts after they have gone, and they never again."""
        early = [uid for uid in process.after if uid in self.alive]
        if early:
            raise BrokenPromise(f"F: {process.uid} starts beside {early[0]}, whose room it gets")
        heir = next((p for p in self.alive.values() if process.uid in p.after), None)
        if heir is not None:
            raise BrokenPromise(f"F: {process.uid} starts, and {heir.uid} has got its room")

    def _check_room(self, node: NodeSpec) -> None:
        here = [p for p in self.alive.values() if p.node == node.name]
        held = [self._held(p, here) for p in here]
        books = self.books
        if sum(a.cpu_milli for a in held) > node.cpu_milli * books.overcommit_cpu:
            raise BrokenPromise(f"F: node {node.name} runs more than its CPUs")
        if sum(a.memory_mib for a in held) > node.memory_mib * books.overcommit_memory:
            raise BrokenPromise(f"F: node {node.name} runs more than its memory")
        firm = [a for a in held if a.firm]
        if (
            sum(a.cpu_milli for a in firm) > node.cpu_milli
            or sum(a.memory_mib for a in firm) > node.memory_mib
        ):
            raise BrokenPromise(f"F: node {node.name} guaranteed more than it has")
        if any(a.exclusive for a in held) and len({p.job for p in here}) > 1:
            raise BrokenPromise(f"F: node {node.name} is the own of one job and runs another")
        pins = [cpu for a in held for cpu in a.cpus]
        if len(pins) != len(set(pins)):
            raise BrokenPromise(f"F: a CPU of {node.name} is in two hands")
        self._check_devices(node, held)

    def _held(self, process: WorldProcess, here: list[WorldProcess]) -> Allocation:
        """What a process may use: one that stands still, or is ending, may have lent its CPUs."""
        lent = [loan for p in here for loan in p.borrows if loan.lender == process.uid]
        if not lent:
            return process.allocation
        attempt = self.find(process.uid)[2]
        if not process.stopped and attempt.live and attempt.stop_cause is None:
            raise BrokenPromise(f"F: {process.uid} runs and has lent its CPUs")
        return without(process.allocation, lent)

    def _check_devices(self, node: NodeSpec, held: list[Allocation]) -> None:
        whole = [index for a in held if not a.shared for index in a.devices]
        if len(whole) != len(set(whole)):
            raise BrokenPromise(f"F: a device of {node.name} is in two hands")
        for device in node.devices:
            parts = [a for a in held if a.shared and device.index in a.devices]
            if parts and device.index in whole:
                raise BrokenPromise(f"F: device {device.index} of {node.name} is shared and is not")
            if sum(a.share_of(device) for a in parts) > device.memory_mib:
                raise BrokenPromise(
                    f"F: device {device.index} of {node.name} is shared beyond its memory"
                )

    def _check_limits(self, process: WorldProcess) -> None:
        """Quotas and caps, on what really runs; a limit that came later does not count."""
        books, spec = self.books, process.spec
        placed = books.placed_at[process.uid]
        alive = list(self.alive.values())
        # One more task of a job that runs already is no further job.
        grows = sum(p.job == process.job for p in alive) > 1
        for ceiling in books.ceilings(spec):
            if ceiling.since < placed:
                group = [p for p in alive if ceiling.binds(p.spec)]
                over = self._exceeded(ceiling.limits, group, jobs=not grows)
                if over:
                    raise BrokenPromise(f"F: {process.uid} takes {ceiling.name} beyond its {over}")
        for name, since, cap, binds in books.job_caps(spec):
            jobs = {p.job for p in alive if binds(p.spec)}
            if cap and since < placed and len(jobs) > cap and not grows:
                raise BrokenPromise(f"F: {process.uid} takes {name} beyond its cap of {cap}")

    def _exceeded(self, limits: Limits, group: list[WorldProcess], *, jobs: bool) -> str:
        """The dimension in which these processes keep more from others than a limit allows."""
        cpu_milli, memory_mib, device_milli = self.books.sums.kept(p.uid for p in group)
        used = {
            "jobs": len({process.job for process in group}) if jobs else 0,
            "cpu_milli": cpu_milli,
            "memory_mib": memory_mib,
            "device_milli": device_milli,
        }
        for name, amount in used.items():
            limit = getattr(limits, name)
            if limit is not None and amount > limit:
                return f"{name} of {limit} ({amount})"
        return ""

    def stands(self, uid: str, stopped: bool) -> None:
        """Its processes were stopped where they are, or go on: on CPUs that are its own again."""
        process = self.processes[uid]
        process.stopped = stopped
        here = [p for p in self.alive.values() if p.node == process.node]
        if not stopped and uid in self.alive:
            self._held(process, here)

    def signalled(self, uid: str) -> None:
        """Promise D: nothing is stopped unless the record says that it should be."""
        _, _, attempt = self.find(uid)
        if attempt.live and attempt.stop_cause is None:
            raise BrokenPromise(f"D: {uid} was told to stop, and nobody had asked for it")

    def final(self) -> None:
        """When all is quiet: nothing lost, every end known, every run accounted for."""
        for job_id in sorted(self.acknowledged):
            job = self.store.job(job_id)
            if job is None:
                raise BrokenPromise(f"A: job {job_id} was acknowledged and is gone")
            if job.state not in FINAL or job.outcome is None:
                raise BrokenPromise(f"A: job {job_id} is {job.state} when all is quiet")
        for job_id in sorted({p.job for p in self.processes.values()} | self.acknowledged):
            job = self.store.job(job_id)
            assert job is not None
            self._check_ends(job)
            self._check_outcome(job)
        for uid, process in self.processes.items():
            if not process.ended:
                raise BrokenPromise(f"C: {uid} is alive when all is quiet")
        self._check_charges()
        if self.books.live:
            raise BrokenPromise(
                f"C: {min(self.books.live)} is on record as alive when all is quiet"
            )

    def _check_charges(self) -> None:
        """Every account is charged what it kept from others, and all together no more than was."""
        sums, total_s = self.books.sums, 0.0
        for usage in self.store.load().usage:
            spent, account = usage.since(0.0), (usage.user, usage.project)
            total_s += spent.cpu_s
            charged = [spent.cpu_s, spent.memory_gib_s, spent.device_s]
            # An end told late, by a clock that was set in between, leaves no bounds for these.
            known = sums.is_known(account) and not (self.jumps and sums.shares(account))
            wrong = sums.wrong_charge(account, charged) if known else ""
            if wrong:
                raise BrokenPromise(f"F: {' in '.join(account)} was charged {wrong}")
        if total_s > sums.capacity_s(self.books.overcommit_cpu):
            raise BrokenPromise("F: more CPU time was charged than the nodes had")

    def _check_ends(self, job: Job) -> None:
        for task in job.tasks:
            for attempt in task.attempts:
                process = self.processes.get(attempt.uid)
                if attempt.cause is None:
                    raise BrokenPromise(f"E: attempt {attempt.uid} ended and has no cause")
                if attempt.cause is Cause.EXIT and (
                    process is None or process.exit_code != attempt.exit_code
                ):
                    raise BrokenPromise(f"E: {attempt.uid} is on record with another exit code")
                if attempt.cause is Cause.NODE_LOST and not self._excused(attempt):
                    raise BrokenPromise(
                        f"E: {attempt.uid} is on record as lost, and nothing was lost"
                    )
        self._check_count(job)

    def _check_outcome(self, job: Job) -> None:
        """No job ends for a reason that it did not have: who only gave way comes back."""
        outcome, spec = job.outcome, job.spec
        assert outcome is not None
        asked = {job.id, job.array_id} & self.cancelled
        gives_up = spec.preempt_mode is PreemptMode.CANCEL or self.books.cancels
        allowed = {
            JobState.COMPLETED: outcome.cause is Cause.EXIT and outcome.exit_code == 0,
            JobState.CANCELLED: bool(asked)
            or outcome.cause is Cause.DEPENDENCY
            or (outcome.cause is Cause.PREEMPTED and gives_up),
            JobState.UNSCHEDULABLE: bool(spec.scheduling_timeout_s),
            JobState.FAILED: outcome.cause not in PASSING,
        }
        if not allowed.get(outcome.state, True):
            raise BrokenPromise(f"E: job {job.id} ended {outcome.state} because of {outcome.cause}")
        if outcome.state is JobState.COMPLETED:
            stayed = [a for a in job.round if a.cause is not Cause.SHRUNK]
            if not stayed or any(a.exit_code != 0 for a in stayed):
                raise BrokenPromise(f"E: job {job.id} completed, and not all of its tasks did")

    def _excused(self, attempt: Attempt) -> bool:
        """Its process went down with the machine, or it was placed before a reboot."""
        boot = self.boots.get(attempt.allocation.node)
        return attempt.uid in self.excused or attempt.incarnation != boot

    def _check_count(self, job: Job) -> None:
        allowed = (1 + job.spec.retries) * (1 + job.requeues) + job.preemptions
        rounds = {attempt.number for task in job.tasks for attempt in task.attempts}
        if len(rounds) > allowed:
            raise BrokenPromise(
                f"B: job {job.id} had more attempts than its retries and requeues allow"
            )
