"""What is counted and timed as it happens: histograms and counters of one process.

What the state shows at any moment is not kept here; it is read when somebody asks for it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from rota.controller.tallies import Counted, Counts, Spread, Spreads
from rota.core.changes import events as ev
from rota.core.changes import gpu_events
from rota.core.facts.states import Cause

if TYPE_CHECKING:
    from rota.controller.traces import Traces
    from rota.core.facts.job import Job
    from rota.store.api import Batch

#: From a tenth of a millisecond to ten seconds: what the controller itself does.
FAST_S = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
#: From a hundredth of a second to a week: how long jobs wait.
WAIT_S = (0.01, 0.03, 0.1, 0.3, 1, 5, 30, 120, 600, 1800, 3600, 14400, 43200, 86400, 604800)
#: Causes with which an attempt gave way to another one.
_GAVE_WAY = frozenset({Cause.PREEMPTED, Cause.BACKFILL_WINDOW})


class Meters:
    """All of one controller. Reading the log of a tick costs a look at each of its events."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()

        #: Who is told of single spans of time; None: nobody is.
        self.traces: Traces | None = None

        def timer(name: str, text: str) -> Spread:
            return Spreads(registry, name, text, FAST_S).labels()

        def counts(name: str, text: str, label: str) -> Counts:
            return Counts(registry, name, text, (label,))

        def counter(name: str, text: str) -> Counted:
            return Counts(registry, name, text).labels()

        self.tick = timer("rota_tick_seconds", "Deciding one tick, without its commit.")
        self.passes = timer("rota_pass_seconds", "The scheduling pass of one tick.")
        self.commit = timer("rota_commit_seconds", "Waiting for one commit.")
        text = "From a request to the begin of its answer."
        kinds = ("method", "route", "status")
        self.http = Spreads(registry, "rota_http_request_seconds", text, FAST_S, kinds)
        text = "From the submit to the first start of a job."
        gpus = ("gpus",)
        self.submit_to_start = Spreads(registry, "rota_submit_to_start_seconds", text, WAIT_S, gpus)
        text = "From when nothing but room was missing to the start of a try."
        self.wait = Spreads(registry, "rota_wait_seconds", text, WAIT_S, gpus)
        self.submitted = counter("rota_jobs_submitted", "Jobs and arrays that were taken in.")
        self.ended = counts("rota_jobs_ended", "Jobs that ended, by state.", "state")
        self.tries = counts("rota_attempts_ended", "Tries that ended, by cause.", "cause")
        text = "What passes decided: start (of a task), evict (of a job)."
        self.decisions = counts("rota_decisions", text, "kind")
        text = "Jobs that started while another one waited with a promise of room."
        self.backfills = counter("rota_backfills", text)
        self.promises = counts("rota_promises", "Promises of deadlines: kept, broken.", "outcome")
        self.preemptions = counter("rota_preemptions", "Jobs that gave way and wait again.")
        text = "Seconds times CPUs or GPUs of tries that gave way, since their last checkpoint."
        self.lost = counts("rota_lost_work_seconds", text, "resource")
        text = "What owners were told about their GPUs: overuse, idle."
        self.warnings = counts("rota_gpu_warnings", text, "kind")
        self.failures = counts("rota_gpu_failures", "Failures that GPUs reported.", "node")

    def timed(self, spread: Spread, name: str) -> Timed:
        """What is done within is timed, and told as a span of this name."""
        return Timed(self, spread, name)

    def span(self, name: str, taken_s: float, **facts: str | int) -> None:
        """Something that took so long and is over now."""
        if self.traces is not None:
            self.traces.tell(name, taken_s, facts)

    def passed(self, taken_s: float, ahead: int) -> None:
        """How long the pass of a tick took, and how many jobs it let past others."""
        self.passes.observe(taken_s)
        self.backfills.inc(ahead)
        self.span("pass", taken_s)

    @property
    def ticks(self) -> int:
        """How many there were."""
        return self.tick.count

    @property
    def commit_s(self) -> float:
        """How long commits took together."""
        return self.commit.sum

    def read(self, batch: Batch) -> None:
        """What was committed: events, and the jobs that they are about."""
        jobs = {job.id: job for job in batch.jobs}
        for record in batch.events:
            event = record.event
            match event:
                case ev.JobSubmitted() | ev.ArraySubmitted():
                    self.submitted.inc()
                case ev.AttemptPlaced():
                    self.decisions.labels("start").inc()
                case ev.AttemptStarted():
                    self._started(jobs.get(event.job), event.uid, event.started_s)
                case ev.AttemptEnded():
                    self._ended(jobs.get(event.job), event)
                case ev.JobPreempted():
                    self.preemptions.inc()
                case ev.JobSettled():
                    self.ended.labels(str(event.outcome.state)).inc()
                    ended = jobs.get(event.job)
                    if ended is not None and ended.promise == "kept":
                        self.promises.labels("kept").inc()
                case _:
                    self._read_rare(event)

    def _read_rare(self, event: ev.AnyEvent) -> None:
        match event:
            case ev.StopPlanned(then="preempt" | "evict"):
                self.decisions.labels("evict").inc()
            case ev.PromiseBroken():
                self.promises.labels("broken").inc()
            case gpu_events.GpuOverused():
                self.warnings.labels("overuse").inc()
            case gpu_events.GpuIdle():
                self.warnings.labels("idle").inc()
            case gpu_events.DeviceFailed():
                self.failures.labels(event.node).inc()
            case _:
                pass

    def _started(self, job: Job | None, uid: str, started_s: float) -> None:
        """Once for a job, however many tasks it has."""
        first = job.round[0] if job is not None and job.round else None
        if job is None or first is None or first.uid != uid:
            return
        gpus = "yes" if first.allocation.devices else "no"
        if first.number == 1:
            self.submit_to_start.labels(gpus).observe(max(0.0, started_s - job.submitted_s))
        if job.eligible_s:
            self.wait.labels(gpus).observe(max(0.0, started_s - job.eligible_s))

    def _ended(self, job: Job | None, event: ev.AttemptEnded) -> None:
        self.tries.labels(str(event.cause)).inc()
        attempt = job.tasks[event.task].current if job is not None and job.tasks else None
        if job is None or attempt is None or attempt.uid != event.uid:
            return
        if event.started_s and not (attempt.pid or attempt.external):
            # Its start was not told before: the same report tells of both.
            self._started(job, event.uid, event.started_s)
        if event.cause in _GAVE_WAY and attempt.started_s:
            lost_s = max(0.0, event.ended_s - max(attempt.started_s, job.checkpoint_s))
            self.lost.labels("cpu").inc(lost_s * attempt.allocation.cpu_milli / 1000)
            self.lost.labels("gpu").inc(lost_s * len(attempt.allocation.devices))


class Timed:
    """Around something that takes time."""

    __slots__ = ("_began_s", "_meters", "_name", "_spread")

    def __init__(self, meters: Meters, spread: Spread, name: str) -> None:
        self._meters, self._spread, self._name = meters, spread, name

    def __enter__(self) -> None:
        self._began_s = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        taken_s = time.perf_counter() - self._began_s
        self._spread.observe(taken_s)
        self._meters.span(self._name, taken_s)
