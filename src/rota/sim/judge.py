"""What really happened in a world, kept apart from what the controller believes.

The judge sees every process start and end with its own eyes and knows what callers were told.
Each rule below is one of the promises A to F of the architecture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.states import FINAL, Cause

if TYPE_CHECKING:
    from rota.core.job import Attempt, Job
    from rota.core.node import Allocation, NodeSpec
    from rota.store.api import Store


class Broken(AssertionError):
    """A promise was broken; the seed of the world tells the whole story."""


class Process:
    """One real process of the world."""

    __slots__ = ("allocation", "ended", "exit_code", "job", "node", "task", "uid")

    def __init__(self, uid: str, job: int, task: int, allocation: Allocation) -> None:
        self.uid = uid
        self.job = job
        self.task = task
        self.node = allocation.node
        self.allocation = allocation
        self.ended = False
        self.exit_code: int | None = None


class Judge:
    """Holds the controller to its promises."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.processes: dict[str, Process] = {}
        self.acknowledged: set[int] = set()
        self.excused: set[str] = set()
        #: The latest life of each node, as attempts name it.
        self.boots: dict[str, str] = {}

    def find(self, uid: str) -> tuple[Job, int, Attempt]:
        """Promise C: what starts is on disk before it starts."""
        job_uid, task_text, number = uid.rsplit(".", 2)
        job = self.store.job_by_uid(job_uid)
        if job is None:
            raise Broken(f"C: {uid} starts and its job is not on disk")
        task = int(task_text)
        for attempt in job.tasks[task].attempts if job.tasks else ():
            if attempt.uid == uid and attempt.number == int(number):
                return job, task, attempt
        raise Broken(f"C: {uid} starts and the attempt is not on disk")

    def starts(self, uid: str, node: NodeSpec) -> Process:
        job, task, attempt = self.find(uid)
        if uid in self.processes:
            raise Broken(f"B: {uid} was started a second time")
        twin = next((p for p in self._alive() if (p.job, p.task) == (job.id, task)), None)
        if twin is not None:
            raise Broken(f"B: {uid} starts while {twin.uid} is alive")
        process = self.processes[uid] = Process(uid, job.id, task, attempt.allocation)
        self._check_room(node)
        return process

    def _alive(self) -> list[Process]:
        return [process for process in self.processes.values() if not process.ended]

    def _check_room(self, node: NodeSpec) -> None:
        held = [p.allocation for p in self._alive() if p.node == node.name]
        if sum(a.cpu_milli for a in held) > node.cpu_milli:
            raise Broken(f"F: node {node.name} runs more than its CPUs")
        if sum(a.memory_mib for a in held) > node.memory_mib:
            raise Broken(f"F: node {node.name} runs more than its memory")
        devices = [index for a in held if not a.shared for index in a.devices]
        if len(devices) != len(set(devices)):
            raise Broken(f"F: a device of {node.name} is in two hands")

    def signalled(self, uid: str) -> None:
        """Promise D: nothing is stopped unless the record says that it should be."""
        _, _, attempt = self.find(uid)
        if attempt.live and attempt.stop_cause is None:
            raise Broken(f"D: {uid} was told to stop, and nobody had asked for it")

    def final(self) -> None:
        """When all is quiet: nothing lost, every end known, every run accounted for."""
        runs: dict[tuple[int, int], int] = {}
        for process in self.processes.values():
            runs[process.job, process.task] = runs.get((process.job, process.task), 0) + 1
        for job_id in sorted(self.acknowledged):
            job = self.store.job(job_id)
            if job is None:
                raise Broken(f"A: job {job_id} was acknowledged and is gone")
            if job.state not in FINAL or job.outcome is None:
                raise Broken(f"A: job {job_id} is {job.state} when all is quiet")
            self._check_ends(job)
        for uid, process in self.processes.items():
            if not process.ended:
                raise Broken(f"C: {uid} is alive when all is quiet")

    def _check_ends(self, job: Job) -> None:
        for task in job.tasks:
            for attempt in task.attempts:
                process = self.processes.get(attempt.uid)
                if attempt.cause is None:
                    raise Broken(f"E: attempt {attempt.uid} ended and has no cause")
                if attempt.cause is Cause.EXIT and (
                    process is None or process.exit_code != attempt.exit_code
                ):
                    raise Broken(f"E: {attempt.uid} is on record with another exit code")
                if attempt.cause is Cause.NODE_LOST and not self._excused(attempt):
                    raise Broken(f"E: {attempt.uid} is on record as lost, and nothing was lost")
        self._check_count(job)

    def _excused(self, attempt: Attempt) -> bool:
        """Its process went down with the machine, or it was placed before a reboot."""
        boot = self.boots.get(attempt.allocation.node)
        return attempt.uid in self.excused or attempt.incarnation != boot

    def _check_count(self, job: Job) -> None:
        allowed = (1 + job.spec.retries) * (1 + job.requeues)
        if any(len(task.attempts) > allowed for task in job.tasks):
            raise Broken(f"B: job {job.id} had more attempts than its retries and requeues allow")
