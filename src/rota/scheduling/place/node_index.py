"""Where a task fits best, without looking at every node.

Three ideas keep a placement cheap:

* Nodes of one class with equal free amounts are interchangeable, so they share a *bucket*.
* Each *want* (a request with its constraints) keeps a heap of the buckets that it fits in, best
  first. A bucket that emptied is dropped when it comes to the top of some heap.
* A want learns of new buckets only when it is served: live buckets stand in order of creation
  and are walked backwards to the last one that it has seen. Most die before anybody looks.

Where a strategy finds very many nodes equally good, the first by name is taken: every node has a
bucket of its own then, and wants remember the score of each state instead.

A bucket's free amounts are one integer of guarded fields: one subtraction and one mask answer
"does it fit?" in all dimensions at once. What integers cannot say (claims of others from some
moment on, named nodes, neighbours, several models in one node, plug-ins) is asked of the node.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from rota.scheduling.place.buckets import Buckets
from rota.scheduling.place.free import SMALLEST
from rota.scheduling.place.heaps import Heaps
from rota.scheduling.place.node_room import Room
from rota.scheduling.place.nodeclass import Classes
from rota.scheduling.place.ranks import Ranks
from rota.scheduling.place.scores import COARSE
from rota.scheduling.place.tariff import Tariff
from rota.scheduling.place.wants import BUCKET_MASK, INFINITE, SCORE_AT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Shape
    from rota.core.facts.node import Allocation, Node
    from rota.core.facts.policy import Policy
    from rota.core.facts.resources import Amount
    from rota.scheduling.api import NodeView
    from rota.scheduling.place.buckets import Bucket
    from rota.scheduling.place.fragments import Spare, Typical
    from rota.scheduling.place.free import Total
    from rota.scheduling.place.wants import Want

#: What a node offers to a picky want: the room to choose from, or None.
Ask = Callable[[str], Room | None]


class EngineNodes(NamedTuple):
    """The nodes of engines, among all that take work."""

    #: What members of a gang there must have in common, by node.
    sides: dict[str, str]
    #: The nodes among whose machines the engine chooses.
    pools: set[str]
    #: The nodes whose engine takes tasks before there is room for them.
    early: set[str]

    def note(self, node: Node) -> None:
        spec = node.spec
        if spec.name in self.sides:
            self.drop(spec.name)
        if not spec.engine:
            return
        self.sides[spec.name] = spec.side
        if spec.pool:
            self.pools.add(spec.name)
        if spec.early:
            self.early.add(spec.name)

    def drop(self, name: str) -> None:
        self.sides.pop(name, None)
        self.pools.discard(name)
        self.early.discard(name)


class Space:
    """All nodes that take work, and for each want the best of them first."""

    def __init__(self, policy: Policy, *, picky: bool = False) -> None:
        """``picky``: something beyond integers (a plug-in) has a say in every placement."""
        self._policy = policy
        self.rooms: dict[str, Room] = {}
        self._classes = Classes(policy)
        self.class_of = self._classes.of
        name = policy.place.strategy
        #: Where many nodes are equally good the first by name is taken.
        self._ranks = Ranks() if name in COARSE else None
        ranked = self._ranks is not None
        self._buckets = Buckets(policy.place, ranked=ranked)
        self._heaps = Heaps(policy, self._buckets, self._classes, picky=picky, ranked=ranked)
        self._prefer = self._heaps.device_for if name == "fgd" else None
        #: From when on each node is claimed: tasks that stay longer are looked at singly.
        self.claimed_from: dict[str, float] = {}
        #: Nodes are taken in the order of their names, whatever they have left.
        self.in_order = name == "first-fit"
        self._names: list[str] | None = None
        self.engines = EngineNodes({}, set(), set())
        #: Changes whenever room is given back: where a want found nothing, it may now.
        self.grown = 0
        #: Changes whenever anything is taken or given back.
        self.shifts = 0

    def refresh(self, cluster: Cluster, name: str) -> None:
        """Take a node's present state in; it may be new, changed, or out of service."""
        node, classes = cluster.nodes.get(name), self._classes
        measure = self._measure()
        if node is None or not node.takes_work:
            self._drop(name)
        else:
            classes.sort_in(node)
            self.engines.note(node)
            before = self._buckets.at.get(name)
            room = self.rooms.get(name)
            if room is None:
                self._names = None
            if room is None or not room.follow(node):
                room = self.rooms[name] = Room.now(node, self._policy.place)
            room.prefer = self._prefer
            if self._ranks is not None and name not in self._ranks.of and self._ranks.add(name):
                for other in self.rooms:
                    self.put(other)
            self.put(name)
            # What a pass itself took is no news: where it found nothing there is nothing still.
            self.grown += self._buckets.at.get(name) is not before
        if classes.forget_empty() or measure != self._measure():
            self._heaps.scores_changed()

    def _measure(self) -> tuple[Total, object]:
        """What scores are measured against."""
        classes = self._classes
        return classes.largest if self._ranks is not None else SMALLEST, classes.measure

    def _drop(self, name: str) -> None:
        self._buckets.leave(name)
        self._classes.drop(name)
        self.engines.drop(name)
        if self.rooms.pop(name, None) is None:
            return
        # Nodes behind it move up, and a want goes on from a place in the order of names.
        self._names = None
        self.grown += 1
        if self._ranks is not None:
            self._ranks.remove(name)

    def claim(self, name: str, from_s: float) -> None:
        """The node is claimed from then on, or from an earlier moment that is known."""
        if from_s < self.claimed_from.get(name, INFINITE) and name in self.rooms:
            self.claimed_from[name] = from_s
            self.put(name)

    def set_claim(self, name: str, from_s: float) -> None:
        """The earliest claim on a node is another one now."""
        if from_s == INFINITE:
            self.claimed_from.pop(name, None)
        else:
            self.claimed_from[name] = from_s
        if name in self.rooms:
            self.put(name)

    def unclaim(self) -> None:
        """Forget all claims."""
        claimed, self.claimed_from = self.claimed_from, {}
        for name in claimed:
            if name in self.rooms:
                self.put(name)

    def put(self, name: str) -> None:
        """See which bucket a node belongs in now."""
        room = self.rooms[name]
        self.shifts += 1
        if room.alone:
            # One job has it to itself: not even a task that asks for nothing fits beside.
            self._buckets.leave(name)
            return
        rank = self._ranks.of[name] if self._ranks is not None else 0
        claim_s = self.claimed_from.get(name, INFINITE)
        self._buckets.put(name, room, self.class_of[name], claim_s, rank)

    def take(self, name: str, allocation: Allocation) -> None:
        self.rooms[name].take(allocation)
        self.put(name)

    def give_back(self, name: str, allocation: Allocation) -> None:
        self.rooms[name].give_back(allocation)
        self.grown += 1
        self.put(name)

    def prices(self, cluster: Cluster) -> Callable[[int, Amount], float] | None:
        """What jobs cost by the hour on the nodes that take work; None: nothing."""
        if not self._policy.prices.rates:
            return None
        kinds = [(kind.spec, kind.labels, kind.taints) for kind in self._classes.there]
        return Tariff(cluster, kinds).least

    def samples(self) -> Iterator[tuple[str, int]]:
        """One node for each sort that differs in class or in what is left, and how many it has."""
        return self._buckets.samples()

    def spare(self, name: str) -> Spare:
        """What is left on a node, as the measure of fragments sees it."""
        return self._heaps.spare(self.rooms[name])

    def expect(self, typical: Sequence[Typical]) -> None:
        """The shapes that usually come, for the strategy that keeps room for them."""
        self._heaps.expect(typical)

    def score_with(self, extra: Callable[[Shape, NodeView], int]) -> None:
        """Plugged-in scorers add to every score; what they said before is forgotten."""
        self._heaps.extra = extra
        self._heaps.forget()

    def wants(self, number: int, shape: Shape) -> tuple[Want, ...]:
        """What each role of the shape with this number wants."""
        return self._heaps.wants(number, shape)

    def forget_unused(self, shapes: Mapping[int, Shape]) -> None:
        """Nobody waits but with these shapes: what was found out about others may go."""
        self._heaps.forget_unused(shapes, len(shapes))

    def catch_up(self, want: Want) -> None:
        """Let a want know of all that changed since it was last served."""
        if not self.in_order:
            self._heaps.catch_up(want)

    def best(
        self,
        want: Want,
        takes: int,
        until_s: float,
        ask: Ask,
        bonus: Callable[[str], int] | None = None,
    ) -> tuple[str, Room] | None:
        """The best node among those that take ``count`` of a want, and the room to choose from.

        ``until_s`` is when the task will be gone. Nodes that are claimed before that, and all
        nodes of picky wants, are asked one by one. With ``bonus`` every single node has points of
        its own, so all of them are looked at.
        """
        if self.in_order:
            return self._first(want, until_s, ask)
        heap, alive = want.heaps[takes], self._buckets.by_number
        if bonus is not None:
            return self._best_of_all(heap, ask, bonus)
        skipped: list[int] = []
        found: tuple[str, Room] | None = None
        while heap:
            bucket = alive.get(heap[0] & BUCKET_MASK)
            if bucket is None:
                heappop(heap)
                continue
            found = self._node_in(bucket, want, until_s, ask)
            if found is not None:
                break
            skipped.append(heappop(heap))
        for entry in skipped:
            heappush(heap, entry)
        return found

    def _best_of_all(
        self, heap: list[int], ask: Ask, bonus: Callable[[str], int]
    ) -> tuple[str, Room] | None:
        ranked = sorted(
            ((entry >> SCORE_AT) - bonus(name), name) for entry, name in self._nodes_of(heap)
        )
        for _, name in ranked:
            room = ask(name)
            if room is not None:
                return name, room
        return None

    def _nodes_of(self, heap: list[int]) -> Iterator[tuple[int, str]]:
        """The nodes of all buckets in a heap, best first, each with the entry of its bucket."""
        for entry in sorted(heap):
            bucket = self._buckets.by_number.get(entry & BUCKET_MASK)
            if bucket is not None:
                yield from ((entry, name) for name in self._buckets.members(bucket))

    def _first(self, want: Want, until_s: float, ask: Ask) -> tuple[str, Room] | None:
        """The first node by name that fits. Room only shrinks in between, so go on from there."""
        if self._names is None:
            self._names = sorted(self.rooms)
        names = self._names
        at = want.cursor[1] if want.cursor[0] == self.grown else 0
        passed_all = True
        for index in range(at, len(names)):
            name = names[index]
            if not self.may_fit(want, name):
                continue
            if passed_all:
                want.cursor, passed_all = (self.grown, index), False
            room = ask(name) if self.must_ask(name, want, until_s) else self.rooms[name]
            if room is not None:
                return name, room
        if passed_all:
            want.cursor = (self.grown, len(names))
        return None

    def must_ask(self, name: str, want: Want, until_s: float) -> bool:
        """Whether integers do not say all about a want on this node."""
        bucket = self._buckets.at.get(name)
        return bucket is None or self._must_ask(bucket, want, until_s)

    def _node_in(
        self, bucket: Bucket, want: Want, until_s: float, ask: Ask
    ) -> tuple[str, Room] | None:
        if not self._must_ask(bucket, want, until_s):
            name = self._buckets.first(bucket)
            return name, self.rooms[name]
        for name in self._buckets.members(bucket):
            room = ask(name)
            if room is not None:
                return name, room
        return None

    def open_nodes(self, want: Want) -> Iterator[str]:
        """Every node that integers let one of a want on: those that take most of it first."""
        if self.in_order:
            yield from (name for name in sorted(self.rooms) if self.may_fit(want, name))
        self.catch_up(want)
        for heap in reversed(want.heaps):
            yield from (name for _, name in self._nodes_of(heap))

    def classes_for(self, wants: Sequence[Want]) -> set[int]:
        """The classes of nodes that can ever take one of these."""
        standing = self._heaps.standing
        return {
            number
            for number in self._classes.by_number
            if any(standing(want, number) is not None for want in wants)
        }

    def suited(self, number: int, shape: Shape) -> list[str]:
        """The nodes that may ever take a task of a shape, by their class and by their name."""
        classes, admits = self.classes_for(self.wants(number, shape)), shape.placement.admits
        return [n for n, kind in self.class_of.items() if kind.id in classes and admits(n)]

    def takes(self, want: Want, name: str) -> int:
        """How many of a want integers let on this node, up to what matters."""
        bucket = self._buckets.at.get(name)
        return self._heaps.count(want, bucket) if bucket is not None else 0

    def may_fit(self, want: Want, name: str) -> bool:
        """Whether integers let one of a want on this node."""
        bucket = self._buckets.at.get(name)
        return bucket is not None and self._heaps.count(want, bucket) > 0

    def may_ever_fit(self, want: Want, name: str) -> bool:
        """Whether a node of this kind takes one of a want when nothing else is there."""
        return self._heaps.standing(want, self.class_of[name].id) is not None

    def _must_ask(self, bucket: Bucket, want: Want, until_s: float) -> bool:
        if want.picky or until_s > bucket.claim_s or bucket.kind.mixed:
            return True
        # Where there are engines, a gang must not lie half in one.
        return bool(self.engines.sides) and want.shape.task_count > 1
