"""All jobs that wait for room, in the order of the policy, as a plan of the line needs them.

A plan takes the site as one large node. A job that may use some of the nodes only has a *part* of
the site: it takes its amounts of the site and, beside them, of every part that holds its own. So
it starts no sooner than there is room where it may be.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from rota.core.derived.holdings import least_of
from rota.core.facts.resources import NOTHING, Amount
from rota.scheduling.answers.explain import Inquiry
from rota.scheduling.answers.line_plan import FIELD, pack
from rota.scheduling.answers.line_play import LinePiece, Rule, play_line, rule_of
from rota.scheduling.limits.least import least_on
from rota.scheduling.order.heads import Head
from rota.scheduling.order.lengths import stay_s_of
from rota.scheduling.outcomes import Barred, Capped

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Lane
    from rota.core.facts.job import Job, JobSpec
    from rota.core.facts.node import NodeSpec
    from rota.scheduling.api import Entry
    from rota.scheduling.order.keys import Key
    from rota.scheduling.scheduler import Scheduler

#: Amounts that are planned with: CPUs, memory, disk, devices.
KINDS = 4
#: Jobs of a lane, and of a line, beyond which nothing is said.
LANE_MAX, LINE_MAX = 10_000, 20_000
#: Parts of the site that are told apart; of jobs with a further one nothing is said.
PARTS_MAX = 32
#: Jobs that are looked at in one go: a few milliseconds.
STEP = 250
#: A job that has outlived what it was taken to last leaves at any moment.
SOON_S = 1.0


#: Names of nodes in service.
Part = frozenset[str]


class WaitingLine(NamedTuple):
    """Jobs in order and their pieces, what runs, what is free, and what may pass."""

    jobs: list[int]
    pieces: list[LinePiece]
    #: The nodes that each of them may use.
    parts: list[Part]
    running: list[LinePiece]
    #: Which jobs these are, and what each of them holds on which node.
    holders: list[int]
    held: list[dict[str, Amount]]
    #: What the nodes in service have, and what nobody holds of that.
    total: dict[str, Amount]
    free: int
    rule: Rule

    def play(self, last: int | None = None) -> list[float]:
        """How long each job waits (``play_line``), each in the part of the site that it may use."""
        known = dict.fromkeys([frozenset(self.total), *self.parts])
        parts = [*known][:PARTS_MAX]
        if len(parts) == 1:
            return play_line(self.rule, self.free, self.running, self.pieces, KINDS, last)
        fields = {part: _fields([part <= other for other in parts]) for part in parts}
        at_node = {name: _fields([name in part for part in parts]) for name in self.total}
        running = [
            piece._replace(amount=sum(packed(held[name]) * at_node[name] for name in held))
            for piece, held in zip(self.running, self.held, strict=True)
        ]
        line = [
            piece._replace(amount=piece.amount * fields.get(part, 1))
            for piece, part in zip(self.pieces, self.parts, strict=True)
        ]
        kinds = KINDS * len(parts)
        waits_s = play_line(self.rule, self._free_in(parts), running, line, kinds, last)
        told = zip(waits_s, self.parts, strict=True)
        return [wait_s if part in fields else float("inf") for wait_s, part in told]

    def _free_in(self, parts: list[Part]) -> int:
        """What nobody holds in each of the parts."""
        left = self.total.copy()
        for held in self.held:
            for name, amount in held.items():
                left[name] = left[name].plus(amount, -1)
        sums = [sum_of(left[name] for name in part) for part in parts]
        return sum(packed(amount) << (FIELD * KINDS * at) for at, amount in enumerate(sums))


def _fields(counts: Iterable[bool]) -> int:
    """What puts amounts into the fields of the parts that they count in, by multiplication."""
    return sum(1 << (FIELD * KINDS * at) for at, does in enumerate(counts) if does)


def sum_of(amounts: Iterable[Amount]) -> Amount:
    total = NOTHING
    for amount in amounts:
        total = total.plus(amount)
    return total


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
    keyed: dict[int, tuple[Key, LinePiece, int]] = {}
    keys, left = Inquiry(scheduler, now_s).this.keys, STEP
    parts: dict[int, Part] = {}
    for lane in [*cluster.lanes.lanes.values()]:
        shape, done, taken = lane.key.shape, 0, STEP
        while taken == STEP and done < LANE_MAX and lane.members:
            if shape not in parts:
                parts[shape] = part_of(scheduler, shape)
            if not parts[shape] or _is_capped(scheduler, lane):
                break
            size = packed(least_on(cluster, cluster.lanes.shapes[shape]))
            found = islice(_jobs(cluster, lane), done, done + STEP)
            pieces = [
                (
                    keys.of(entry, least_of(entry.shape)),
                    job,
                    piece_of(cluster, spec, size, entry.run_s, lasts_s),
                )
                for job, spec, entry in found
            ]
            keyed |= {job: (key, piece, shape) for key, job, piece in pieces}
            taken = len(pieces)
            done, left = done + taken, left - taken
            if left <= 0:
                yield
                keys, left = Inquiry(scheduler, now_s).this.keys, STEP
    yield
    total = {n: _whole(node.spec) for n, node in cluster.nodes.items() if node.takes_work}
    holders, running = yield from _running(cluster, now_s, lasts_s, total)
    held = [*holders.values()]
    yield
    ranked = sorted((key, job, piece, shape) for job, (key, piece, shape) in keyed.items())
    jobs, line = [job for _, job, _, _ in ranked], [piece for _, _, piece, _ in ranked]
    # Nodes may have gone since the parts were found out.
    here = {shape: part.intersection(total) for shape, part in parts.items()}
    free = sum_of(total.values())
    for amount in map(sum_of, (each.values() for each in held)):
        free = free.plus(amount, -1)
    return WaitingLine(
        jobs[:LINE_MAX],
        line[:LINE_MAX],
        [here[shape] for _, _, _, shape in ranked[:LINE_MAX]],
        running,
        [*holders],
        held,
        total,
        packed(free),
        rule_of(cluster.policy),
    )


def piece_of(
    cluster: Cluster,
    spec: JobSpec,
    size: int,
    passes_s: float,
    lasts_s: Callable[[JobSpec, float], float],
) -> LinePiece:
    """A job that waits: how long it will last, and what a pass takes it to."""
    return LinePiece(size, max(lasts_s(spec, 0.0), SOON_S), passes_s, stay_s_of(cluster, spec, 0.0))


def part_of(scheduler: Scheduler, shape: int) -> Part:
    """The nodes in service that such a job may use; none: nobody knows when it starts."""
    nodes, shapes = scheduler.cluster.nodes, scheduler.cluster.lanes.shapes
    suited = scheduler.space.suited(shape, shapes[shape])
    return frozenset(name for name in suited if nodes[name].takes_work)


def _is_capped(scheduler: Scheduler, lane: Lane) -> bool:
    """Whether a limit or a share, and not room, holds the lane back."""
    waits = scheduler.waits
    return lane.number not in waits.open and isinstance(waits.of(lane.number), Capped | Barred)


def _jobs(cluster: Cluster, lane: Lane) -> Iterator[tuple[int, JobSpec, Entry]]:
    head = Head(cluster, lane)
    while (entry := head.advance(cluster)) is not None:
        item = cluster.arrays[head.array] if head.array else cluster.jobs[entry.job]
        yield entry.job, item.spec, entry


def _whole(spec: NodeSpec) -> Amount:
    return Amount(spec.cpu_milli, spec.memory_mib, spec.disk_mib, 1000 * len(spec.devices))


def _running(
    cluster: Cluster,
    now_s: float,
    lasts_s: Callable[[JobSpec, float], float],
    total: Mapping[str, Amount],
) -> Generator[None, None, tuple[dict[int, dict[str, Amount]], list[LinePiece]]]:
    """What each job that runs gives back on nodes that take work, and when."""
    running: list[LinePiece] = []
    found: dict[int, dict[str, Amount]] = {}
    for done, number in enumerate(dict.fromkeys(job for job, _ in cluster.live.where.values())):
        if done % STEP == STEP - 1:
            yield
        job = cluster.jobs.get(number)
        held = _held(cluster, job, total) if job is not None else {}
        if job is None or not held:
            continue
        ran_s = max(now_s - job.started_s, 0.0) if job.started_s else 0.0
        left_s = max(lasts_s(job.spec, ran_s) - ran_s, SOON_S)
        stays_s = max(stay_s_of(cluster, job.spec, ran_s) - ran_s, SOON_S)
        found[number] = held
        running.append(LinePiece(packed(sum_of(held.values())), left_s, 0.0, stays_s))
    return found, running


def _held(cluster: Cluster, job: Job, total: Mapping[str, Amount]) -> dict[str, Amount]:
    """What a job holds on the nodes in service."""
    found: dict[str, Amount] = {}
    for attempt in job.live_attempts:
        node = attempt.allocation.node
        if node in total:
            used = cluster.accounts.holdings.count_of(attempt).used
            found[node] = found.get(node, NOTHING).plus(used)
    return found
