"""What every node has to say about a job that waits: how many fail by what, and which come closest.

Nodes of one class share what filters say, and nodes of one bucket share everything, so a large
cluster costs as many looks as it has kinds of nodes, unless the job tells single nodes apart.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from rota.core.facts.job import ServiceClass
from rota.core.words.units import format_mib
from rota.scheduling.answers.cluster_health import is_away
from rota.scheduling.answers.reasons import (
    Away,
    BadCompany,
    Claimed,
    Metered,
    Scarce,
    Unfit,
    WouldDelay,
    over_quota,
)
from rota.scheduling.later.promises import asking_of
from rota.scheduling.place.devices import open_devices
from rota.scheduling.place.filters import FILTERS, NO_PROBLEM, Case, FilterProblem, problems
from rota.scheduling.place.node_checks import pool_problem
from rota.scheduling.place.node_room import Room

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.derived.lanes import Shape
    from rota.core.facts.node import Node
    from rota.core.facts.resources import Request
    from rota.scheduling.answers.reasons import AwayState, Reason
    from rota.scheduling.api import Entry
    from rota.scheduling.later.timeline import Claim
    from rota.scheduling.passes import Pass

INFINITE = float("inf")
#: Up to this number of nodes are looked at one by one.
FEW = 64
#: How near a node comes to taking the job, among nodes that fail in the same kind of way.
Nearness = tuple[float, ...]
_DEPTHS = {name: depth for depth, (name, _) in enumerate(FILTERS)}
#: Filters by which the job itself rules out single nodes: such a node comes close in nothing.
_CHOSEN = ("named", "excluded")
#: What a node may lack: its field, the unit that it is told in, and how much makes one.
_AMOUNTS = {
    "cpus": ("cpu_milli", "CPUs", 1000),
    "memory": ("memory_mib", "MiB", 1),
    "disk": ("disk_mib", "MiB", 1),
}


@dataclass(slots=True)
class _Tally:
    """The nodes that fail in one way: how many, and the one that comes nearest."""

    reason: Reason
    nearest: Nearness
    count: int


class Survey:
    """The verdicts of all nodes on one request of a job."""

    def __init__(self, this: Pass, entry: Entry, request: Request) -> None:
        self._pass = this
        self._entry = entry
        self._shape: Shape = entry.shape
        self._request = request
        self._firm = entry.shape.service is ServiceClass.GUARANTEED
        self._tallies: dict[str, dict[object, _Tally]] = {}
        self._static: dict[int, tuple[FilterProblem, Nearness]] = {}
        #: Nodes that would take one task now, and the first of them.
        self.open = 0
        self.open_nodes: list[str] = []
        for name, count in self._nodes():
            self._look(name, count)

    def _nodes(self) -> Iterator[tuple[str, int]]:
        """Names with how many nodes each one stands for."""
        this = self._pass
        nodes, space = this.cluster.nodes, this.space
        if len(nodes) <= FEW or self._shape.placement.asks_nodes or this.keys.rules.filters:
            yield from ((name, 1) for name in sorted(nodes))
            return
        yield from space.samples()
        yield from ((name, 1) for name, node in nodes.items() if not node.takes_work)

    def _look(self, name: str, count: int) -> None:
        node = self._pass.cluster.nodes[name]
        problem, nearest = self._problem(node)
        if problem.filter == "taints" and is_away(node):
            note = node.spec.remarks[-1] if node.spec.remarks else ""
            away = Away(nodes=count, node=name, state="away", note=note)
            self._count("node_away", "away", away, (), count)
        elif problem.filter:
            reason: Reason = Unfit(
                filter=problem.filter, nodes=count, node=name, problem=problem.text
            )
            self._count("filter", (problem.filter, problem.text), reason, nearest, count)
        elif not node.takes_work:
            state: AwayState = "drained" if node.drained else node.state.value
            reason = Away(nodes=count, node=name, state=state, note=node.note)
            self._count("node_away", state, reason, (), count)
        else:
            self._look_into(name, count)

    def _problem(self, node: Node) -> tuple[FilterProblem, Nearness]:
        """What filters say; one answer per class, unless the job names single nodes."""
        this, placement = self._pass, self._shape.placement
        kind = this.space.class_of.get(node.name)
        labels, taints = node.all_labels, node.all_taints
        case = Case(
            self._shape, self._request, node.spec, labels, taints, this.cluster.policy, node.name
        )
        if placement.nodes or placement.exclude or kind is None:
            return _judged(case)
        if kind.id not in self._static:
            self._static[kind.id] = _judged(case)
        return self._static[kind.id]

    def _look_into(self, name: str, count: int) -> None:
        """A node that takes work and could take this: has it room, and for how long?"""
        this, request, node = self._pass, self._request, self._pass.cluster.nodes[name]
        room = self._room(name)
        exclusive = self._shape.placement.exclusive
        short = room.shortage(request, firm=self._firm, exclusive=exclusive)
        if short:
            scarce, part = _scarce(room, request, short, count)
            self._count("room", scarce.resource, scarce, (part,), count)
        elif node.spec.pool and (text := pool_problem(node, self._shape)):
            self._count("engine", text, Metered(nodes=count, node=name, problem=text), (), count)
        elif name in this.space.rooms and (text := this.checks.problem(self._shape, name)):
            reason = BadCompany(nodes=count, node=name, problem=text)
            self._count("neighbours", text, reason, (), count)
        elif (over := this.checks.short_of_node(self._entry, name)) is not None:
            self._count("quota", over.scope, over_quota(over, name), (-over.missing,), count)
        elif isinstance(claimed := self._claimed(name), Claimed):
            # The node that opens first is the nearest, or the one that is there for longest.
            near_s = -claimed.end_s if claimed.reservation else claimed.start_s
            self._count("reserved", claimed.reservation, claimed, (near_s,), count)
        elif claimed is not None:
            self._count("backfill", claimed.job, claimed, (claimed.start_s,), count)
        else:
            self.open += count
            self.open_nodes.append(name)

    def _room(self, name: str) -> Room:
        this = self._pass
        room = this.space.rooms.get(name)
        if room is None or name in this.scheduler.changed_nodes():
            return Room.now(this.cluster.nodes[name], this.cluster.policy.place)
        return room

    def _claimed(self, name: str) -> Claimed | WouldDelay | None:
        """The claim that the job waits for on a node that has room for it now.

        Of reservations it is the last one before the job fits: when an earlier one ends, the next
        is still in the way. Of promises it is the first that the job would delay.
        """
        this = self._pass
        claims = this.scheduler.timeline.claims.get(name)
        if not claims or name not in this.space.rooms:
            return None
        timeline, asking = this.scheduler.timeline, asking_of(self._entry)
        firm = this.promises.grounds.binds(name, asking.job)
        stays_s = asking.limit_s if firm or timeline.is_bound(name, asking) else asking.run_s
        binding = [claim for claim in claims if asking.is_bound_by(claim)]
        binding.sort(key=_reserved_first)
        made = [claim for claim in binding if claim.reservation is not None]
        found, at_s = None, this.now_s
        while claim := self._last_straw(name, made, at_s, stays_s or INFINITE):
            found, at_s = claim, claim.end_s
        found = found or self._last_straw(name, binding, this.now_s, stays_s or INFINITE)
        return _claim_reason(found, name, stays_s) if found is not None else None

    def _last_straw(
        self, name: str, claims: list[Claim], from_s: float, stays_s: float
    ) -> Claim | None:
        """The first of the claims that, with all before it, leaves no room for the whole stay."""
        until_s = from_s + stays_s
        met = [claim for claim in claims if claim.start_s < until_s and claim.end_s > from_s]

        def is_short(count: int) -> bool:
            left = self._pass.scheduler.timeline.window_under(
                met[:count], name, from_s, until_s, asking_of(self._entry)
            )
            exclusive = self._shape.placement.exclusive
            return bool(left.shortage(self._request, firm=self._firm, exclusive=exclusive))

        if not met or not is_short(len(met)):
            return None
        return met[bisect_left(range(1, len(met)), True, key=is_short)]

    def _count(self, kind: str, key: object, reason: Reason, nearest: Nearness, count: int) -> None:
        tallies = self._tallies.setdefault(kind, {})
        known = tallies.get(key)
        if known is None:
            tallies[key] = _Tally(reason, nearest, count)
            return
        known.count += count
        if nearest > known.nearest:
            known.nearest, known.reason = nearest, reason

    def of(self, kind: str) -> list[Reason]:
        """The reasons of one kind: the nearest to a fit first, then the one of most nodes."""
        tallies = self._tallies.get(kind, {}).values()
        ranked = sorted(tallies, key=lambda tally: (tally.nearest, tally.count), reverse=True)
        return [_with_count(tally) for tally in ranked]

    def all(self) -> list[Reason]:
        """Every reason, what is nearest to a fit first."""
        kinds = ("quota", "reserved", "backfill", "engine", "room", "neighbours", "node_away")
        return [reason for kind in (*kinds, "filter") for reason in self.of(kind)]


def _with_count(tally: _Tally) -> Reason:
    reason = tally.reason
    if getattr(reason, "nodes", tally.count) != tally.count:
        changed: Reason = msgspec.structs.replace(reason, nodes=tally.count)
        return changed
    return reason


def _judged(case: Case) -> tuple[FilterProblem, Nearness]:
    """The first filter that objects. A node is the nearer the fewer filters object, and the later
    in the chain the first of them stands."""
    found: list[FilterProblem] = []
    for problem in problems(case):
        found.append(problem)
        if problem.filter in _CHOSEN:
            return problem, (-INFINITE, 0)
    if not found:
        return NO_PROBLEM, ()
    return found[0], (-len(found), _DEPTHS[found[0].filter])


def _reserved_first(claim: Claim) -> tuple[bool, float, int]:
    return claim.reservation is None, claim.start_s, claim.job


def _claim_reason(claim: Claim, name: str, stays_s: float) -> Claimed | WouldDelay:
    made = claim.reservation
    if made is None:
        return WouldDelay(job=claim.job, start_s=claim.start_s, nodes=1, node=name, stays_s=stays_s)
    return Claimed(
        reservation=made.id,
        owner=made.owner or made.project or (f"job {made.job}" if made.job else ""),
        start_s=made.start_s,
        end_s=made.end_s,
        nodes=1,
        node=name,
        stays_s=stays_s,
        note=made.note,
    )


def _scarce(room: Room, request: Request, short: str, count: int) -> tuple[Scarce, float]:
    """What a node lacks, and which part of the request it has."""
    name, devices, foreign = room.node.name, room.devices.values(), 0
    if short == "whole node" or room.alone:
        # Another job is there, or has the node to itself: no number helps.
        what = short if short == "whole node" else "shared node"
        free = room.holders
        return Scarce(resource=what, nodes=count, node=name, needed=0, free=free, total=0), 0.0
    field, unit, size = _AMOUNTS.get(short, ("", device_words(request), 1))
    if field:
        needed, free, total = (getattr(of, field) for of in (request, room, room.node.spec))
    else:
        needed, total = request.device_count, len(devices)
        free = len(open_devices(request, devices))
        foreign = sum(bool(device.foreign_pids) for device in devices)
    reason = Scarce(
        resource=short,
        nodes=count,
        node=name,
        needed=needed / size,
        free=max(0, free) / size,
        total=total / size,
        unit=unit,
        foreign=foreign,
    )
    return reason, free / needed if needed else 1.0


def device_words(request: Request) -> str:
    """``A100 gpu``, ``gpu with 20G to share``."""
    words = f"{request.device_type} {request.device}".strip()
    if request.shared and request.device_memory_mib:
        return f"{words} with {format_mib(request.device_memory_mib)} to share"
    if request.shared:
        return f"{words} with a share of {request.device_milli / 1000:g}"
    return words
