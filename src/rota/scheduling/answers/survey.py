"""What every node has to say about a job that waits: how many fail by what, and the best of them.

Nodes of one class share what filters say, and nodes of one bucket share everything, so a large
cluster costs as many looks as it has kinds of nodes, unless the job tells single nodes apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.core.facts.job import ServiceClass
from rota.core.words.units import format_mib
from rota.scheduling.answers.reasons import Away, BadCompany, Claimed, Scarce, Unfit, WouldDelay
from rota.scheduling.place.devices import open_devices
from rota.scheduling.place.filters import Case, Problem, first_problem
from rota.scheduling.place.node_room import Room

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.derived.lanes import Shape
    from rota.core.facts.node import Node
    from rota.core.facts.resources import Request
    from rota.scheduling.answers.reasons import Reason
    from rota.scheduling.api import Entry
    from rota.scheduling.later.timeline import Claim
    from rota.scheduling.passes import Pass

INFINITE = float("inf")
#: Up to so many nodes are looked at one by one.
FEW = 64


class _Tally:
    """The nodes that fail in one way: how many, and the one that comes nearest."""

    __slots__ = ("count", "nearest", "reason")

    def __init__(self, reason: Reason, nearest: float, count: int) -> None:
        self.reason = reason
        self.nearest = nearest
        self.count = count


class Survey:
    """The verdicts of all nodes on one request of a job."""

    def __init__(self, this: Pass, entry: Entry, request: Request) -> None:
        self._pass = this
        self._entry = entry
        self._shape: Shape = entry.shape
        self._request = request
        self._firm = entry.shape.service is ServiceClass.GUARANTEED
        self._tallies: dict[str, dict[object, _Tally]] = {}
        self._static: dict[int, Problem] = {}
        #: Nodes that would take one task now, and the first of them.
        self.open = 0
        self.open_nodes: list[str] = []
        for name, count in self._nodes():
            self._look(name, count)

    def _nodes(self) -> Iterator[tuple[str, int]]:
        """Names with how many nodes each one stands for."""
        this = self._pass
        nodes, space = this.cluster.nodes, this.space
        if len(nodes) <= FEW or self._shape.placement.asks_nodes or this.rules.filters:
            yield from ((name, 1) for name in sorted(nodes))
            return
        yield from space.samples()
        yield from ((name, 1) for name, node in nodes.items() if not node.takes_work)

    def _look(self, name: str, count: int) -> None:
        node = self._pass.cluster.nodes[name]
        problem = self._problem(node)
        if problem.filter:
            reason: Reason = Unfit(
                filter=problem.filter, nodes=count, node=name, problem=problem.text
            )
            self._count("filter", (problem.filter, problem.text), reason, 0.0, count)
        elif not node.takes_work:
            state = "drained" if node.drained else str(node.state)
            reason = Away(nodes=count, node=name, state=state, note=node.note)
            self._count("node_away", state, reason, 0.0, count)
        else:
            self._look_into(name, count)

    def _problem(self, node: Node) -> Problem:
        """What filters say; one answer per class, unless the job names single nodes."""
        this, placement = self._pass, self._shape.placement
        kind = this.space.class_of.get(node.name)
        single = bool(placement.nodes or placement.exclude) or kind is None
        if not single and kind is not None and kind.id in self._static:
            return self._static[kind.id]
        found = first_problem(
            Case(
                self._shape,
                self._request,
                node.spec,
                node.all_labels,
                node.all_taints,
                this.policy,
                node.name,
            )
        )
        if not single and kind is not None:
            self._static[kind.id] = found
        return found

    def _look_into(self, name: str, count: int) -> None:
        """A node that takes work and could take this: has it room, and for how long?"""
        this, request = self._pass, self._request
        room = self._room(name)
        exclusive = self._shape.placement.exclusive
        short = room.shortage(request, firm=self._firm, exclusive=exclusive)
        if short:
            scarce, part = _scarce(room, request, short, count)
            self._count("room", scarce.resource, scarce, part, count)
        elif name in this.space.rooms and (text := this.near.problem(self._shape, name)):
            reason = BadCompany(nodes=count, node=name, problem=text)
            self._count("neighbours", text, reason, 0.0, count)
        elif (claimed := self._claimed(name, room)) is not None:
            kind = "reserved" if isinstance(claimed, Claimed) else "backfill"
            whose = claimed.reservation if isinstance(claimed, Claimed) else claimed.job
            self._count(kind, whose, claimed, claimed.start_s, count)
        else:
            self.open += count
            self.open_nodes.append(name)

    def _room(self, name: str) -> Room:
        this = self._pass
        room = this.space.rooms.get(name)
        if room is None or name in this.cluster.touched:
            return Room.now(this.cluster.nodes[name], this.policy.place)
        return room

    def _claimed(self, name: str, room: Room) -> Claimed | WouldDelay | None:
        """Whose claim begins before the job would be gone, and leaves no room for it."""
        this, entry = self._pass, self._entry
        claims = this.timeline.claims.get(name)
        if not claims or name not in this.space.rooms:
            return None
        limit_s = entry.key.time_limit_s
        stays_s = float(limit_s) if this.promises.counts_limit(name, entry) else entry.run_s
        until_s = this.now_s + stays_s if stays_s else INFINITE
        asking = this.asking(entry)
        left = this.timeline.window(name, this.now_s, until_s, asking)
        exclusive = self._shape.placement.exclusive
        if not left.shortage(self._request, firm=self._firm, exclusive=exclusive):
            return None
        key = entry.key
        binding = [
            claim
            for claim in claims
            if claim.start_s < until_s and claim.binds(entry.job, key.user, key.project)
        ]
        return _claim_reason(min(binding, key=_by_start), name, stays_s) if binding else None

    def _count(self, kind: str, key: object, reason: Reason, nearest: float, count: int) -> None:
        tallies = self._tallies.setdefault(kind, {})
        known = tallies.get(key)
        if known is None:
            tallies[key] = _Tally(reason, nearest, count)
            return
        known.count += count
        if nearest > known.nearest:
            known.nearest, known.reason = nearest, reason

    def of(self, kind: str) -> list[Reason]:
        """The reasons of one kind, those of most nodes first; among them the nearest to a fit."""
        tallies = self._tallies.get(kind, {}).values()
        ranked = sorted(tallies, key=lambda tally: (-tally.nearest, -tally.count))
        return [_with_count(tally) for tally in ranked]

    def all(self) -> list[Reason]:
        """Every reason, what is nearest to a fit first."""
        kinds = ("reserved", "backfill", "room", "neighbours", "node_away", "filter")
        return [reason for kind in kinds for reason in self.of(kind)]


def _with_count(tally: _Tally) -> Reason:
    reason = tally.reason
    if getattr(reason, "nodes", tally.count) != tally.count:
        changed: Reason = msgspec.structs.replace(reason, nodes=tally.count)
        return changed
    return reason


def _by_start(claim: Claim) -> tuple[float, int]:
    return claim.start_s, claim.job


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
    spec, name = room.node.spec, room.node.name
    foreign = 0
    if short == "whole node" or room.alone:
        # Somebody is there, or has the node to himself: no number helps.
        resource = "whole node" if short == "whole node" else "shared node"
        reason = Scarce(
            resource=resource, nodes=count, node=name, needed=0, free=room.holders, total=0
        )
        return reason, 0.0
    if short == "cpus":
        needed, free, total = request.cpu_milli, room.cpu_milli, spec.cpu_milli
        unit = "CPUs"
    elif short == "memory":
        needed, free, total, unit = request.memory_mib, room.memory_mib, spec.memory_mib, "MiB"
    elif short == "disk":
        needed, free, total, unit = request.disk_mib, room.disk_mib, spec.disk_mib, "MiB"
    else:
        rooms = room.devices.values()
        needed, total = request.device_count, len(rooms)
        free = len(open_devices(request, rooms))
        unit = device_words(request)
        foreign = sum(bool(device.foreign_pids) for device in rooms)
    milli = 1000 if short == "cpus" else 1
    reason = Scarce(
        resource=short,
        nodes=count,
        node=name,
        needed=needed / milli,
        free=max(0, free) / milli,
        total=total / milli,
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
