"""All jobs that wait for room, in the order of the policy, as a plan of the line needs them."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from rota.core.facts.resources import NOTHING, Amount
from rota.scheduling.answers.explain import Inquiry
from rota.scheduling.answers.line_plan import pack
from rota.scheduling.answers.line_play import LinePiece, Rule, rule_of
from rota.scheduling.limits.least import least_of
from rota.scheduling.order.heads import Head
from rota.scheduling.order.lengths import stay_s_of
from rota.scheduling.outcomes import Barred, Capped

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Lane
    from rota.core.facts.job import JobSpec
    from rota.scheduling.api import Entry
    from rota.scheduling.order.keys import Key
    from rota.scheduling.scheduler import Scheduler

#: Amounts that are planned with: CPUs, memory, disk, devices.
KINDS = 4
#: Jobs of a lane, and of a line, beyond which nothing is said.
LANE_MAX, LINE_MAX = 10_000, 20_000
#: Jobs that are looked at in one go: a few milliseconds.
STEP = 250
#: A job that has outlived what it was taken to last leaves at any moment.
SOON_S = 1.0


class WaitingLine(NamedTuple):
    """Jobs in order and their pieces, what runs, what is free, and what may pass."""

    jobs: list[int]
    pieces: list[LinePiece]
    running: list[LinePiece]
    free: int
    rule: Rule


def packed(amount: Amount) -> int:
    parts = (amount.cpu_milli, amount.memory_mib, amount.disk_mib, amount.device_milli)
    return pack([max(part, 0) for part in parts])


def waiting_line(
    scheduler: Scheduler, now_s: float, lasts_s: Callable[[JobSpec, float], float]
) -> WaitingLine:
    """Who waits for room or for a turn; jobs that wait for anything else are in nobody's way."""
    steps = line_in_steps(scheduler, now_s, lasts_s)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            line: WaitingLine = done.value
            return line


def line_in_steps(
    scheduler: Scheduler, now_s: float, lasts_s: Callable[[JobSpec, float], float]
) -> Generator[None, None, WaitingLine]:
    """The same, a few hundred jobs at a time: between two steps jobs may come, start and end.

    Whether these are in the line depends on the step; the next look will know.
    """
    cluster = scheduler.cluster
    keyed: dict[int, tuple[Key, LinePiece]] = {}
    keys, left = Inquiry(scheduler, now_s).this.keys, STEP
    fitting: dict[int, bool] = {}
    for lane in [*cluster.lanes.lanes.values()]:
        shape, done, taken = lane.key.shape, 0, STEP
        while taken == STEP and done < LANE_MAX and lane.members:
            if shape not in fitting:
                fitting[shape] = _suits_a_node(scheduler, shape)
            if not fitting[shape] or _is_capped(scheduler, lane):
                break
            amount = scheduler.amount(shape)
            size = packed(amount)
            found = islice(_jobs(cluster, lane, amount), done, done + STEP)
            pieces = [
                (job, (keys.of(entry, amount), piece_of(cluster, spec, size, entry.run_s, lasts_s)))
                for job, spec, entry in found
            ]
            keyed.update(pieces)
            taken = len(pieces)
            done, left = done + taken, left - taken
            if left <= 0:
                yield
                keys, left = Inquiry(scheduler, now_s).this.keys, STEP
    yield
    free, running = yield from _held(cluster, now_s, lasts_s)
    yield
    ranked = sorted((key, job, piece) for job, (key, piece) in keyed.items())[:LINE_MAX]
    jobs, line = [job for _, job, _ in ranked], [piece for _, _, piece in ranked]
    return WaitingLine(jobs, line, running, free, rule_of(cluster.policy))


def piece_of(
    cluster: Cluster,
    spec: JobSpec,
    size: int,
    passes_s: float,
    lasts_s: Callable[[JobSpec, float], float],
) -> LinePiece:
    """A job that waits: how long it will last, and what a pass takes it to."""
    return LinePiece(size, max(lasts_s(spec, 0.0), SOON_S), passes_s, stay_s_of(cluster, spec, 0.0))


def _suits_a_node(scheduler: Scheduler, shape: int) -> bool:
    """Whether there is a node at all that such a job could have; else nobody knows when."""
    return scheduler.promises.may_ever_fit(shape, scheduler.space.class_of)


def _is_capped(scheduler: Scheduler, lane: Lane) -> bool:
    """Whether a limit or a share, and not room, holds the lane back."""
    waits = scheduler.waits
    return lane.number not in waits.open and isinstance(waits.of(lane.number), Capped | Barred)


def _jobs(cluster: Cluster, lane: Lane, amount: Amount) -> Iterator[tuple[int, JobSpec, Entry]]:
    head = Head(cluster, lane, amount)
    while (entry := head.advance(cluster)) is not None:
        item = cluster.arrays[head.array] if head.array else cluster.jobs[entry.job]
        yield entry.job, item.spec, entry


def _held(
    cluster: Cluster, now_s: float, lasts_s: Callable[[JobSpec, float], float]
) -> Generator[None, None, tuple[int, list[LinePiece]]]:
    """What nobody holds on nodes that take work; what each job that runs gives back, and when."""
    free = NOTHING
    for node in cluster.nodes.values():
        if node.takes_work:
            spec = node.spec
            devices = 1000 * len(spec.devices)
            free = free.plus(Amount(spec.cpu_milli, spec.memory_mib, spec.disk_mib, devices))
    running: list[LinePiece] = []
    for done, number in enumerate(dict.fromkeys(job for job, _ in cluster.live.where.values())):
        if done % STEP == STEP - 1:
            yield
        job = cluster.jobs.get(number)
        if job is None or not job.live_attempts:
            continue
        held = least_of(cluster.lanes.shape_of(job.spec))
        free = free.plus(held, -1)
        ran_s = max(now_s - job.started_s, 0.0) if job.started_s else 0.0
        left_s = max(lasts_s(job.spec, ran_s) - ran_s, SOON_S)
        stays_s = max(stay_s_of(cluster, job.spec, ran_s) - ran_s, SOON_S)
        running.append(LinePiece(packed(held), left_s, 0.0, stays_s))
    return packed(free), running
