"""Where a task fits best, without looking at every node.

Three ideas keep a placement cheap:

* Nodes of one class with equal free amounts are interchangeable, so they share a *bucket*.
* Each *want* (a request with its constraints) keeps a heap of the buckets that it fits in, best
  first. A bucket that emptied is dropped when it comes to the top of some heap.
* A want learns of new buckets only when it is served: live buckets stand in order of creation
  and are walked backwards to the last one that it has seen. Most die before anybody looks.

A bucket's free amounts are one integer of guarded fields: one subtraction and one mask answer
"does it fit?" in all dimensions at once. What integers cannot say (claims of others from some
moment on, named nodes, neighbours, several models in one node, plug-ins) is asked of the node.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from rota.core.job import ServiceClass
from rota.scheduling.nodeclass import NodeClass, Standing, class_key
from rota.scheduling.room import Room
from rota.scheduling.scores import UNIT, Free, cost_of, ease, strategy, tightness

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rota.core.cluster import Cluster
    from rota.core.lanes import Shape
    from rota.core.node import Allocation, Node
    from rota.core.policy import Policy
    from rota.core.resources import Request

FIELD = 32
TOP = (1 << (FIELD - 1)) - 1
GUARDS = sum(1 << (FIELD * d + FIELD - 1) for d in range(4))
#: Above the amounts: numbers of the class, the device state and the claim, 24 bits each.
NUMBER = (1 << 24) - 1
CLASS_AT = 4 * FIELD
SIGN_AT = CLASS_AT + 24
CLAIM_AT = SIGN_AT + 24
BUCKET_BITS = 32
BUCKET_MASK = (1 << BUCKET_BITS) - 1
#: Equal scores are told apart by the amounts themselves, never by who came first.
FINGER_BITS = 32
FINGER_MASK = (1 << FINGER_BITS) - 1
MIX = 0x9E3779B97F4A7C15
#: Nodes that take more tasks of one kind than this are not told apart.
CLIP_MAX = 64
#: Scores are whole numbers below this; the heap wants the best to be the least.
SCORE_TOP = 1 << 40
INFINITE = float("inf")

#: What a node offers to a picky want: the room to choose from, or None.
Ask = Callable[[str], Room | None]


def pack(cpu_milli: int, memory_mib: int, disk_mib: int, devices: int) -> int:
    """Free amounts as one integer, each field cut at what it can hold."""
    return (
        max(0, min(cpu_milli, TOP))
        | max(0, min(memory_mib, TOP)) << FIELD
        | max(0, min(disk_mib, TOP)) << 2 * FIELD
        | max(0, min(devices, TOP)) << 3 * FIELD
    )


class Want:
    """One kind of task, and the buckets that it fits in by how many of it they take."""

    __slots__ = ("clip", "cursor", "exclusive", "firm", "heaps", "packed", "picky", "request",
                 "seen", "shape", "standings")  # fmt: skip

    def __init__(self, request: Request, shape: Shape, clip: int, picky: bool) -> None:
        self.request = request
        self.shape = shape
        #: More than this many on one node make no difference.
        self.clip = clip
        self.firm = shape.service is ServiceClass.GUARANTEED
        self.exclusive = shape.placement.exclusive
        alone = 0 if request.shared else request.device_count
        self.packed = pack(request.cpu_milli, request.memory_mib, request.disk_mib, alone)
        #: By the number of a class; None: never on such a node.
        self.standings: dict[int, Standing | None] = {}
        self.heaps: list[list[int]] = [[] for _ in range(clip + 1)]
        self.seen = 0
        #: Where to go on when nodes are taken in order: (``Space.grown``, position).
        self.cursor = (-1, 0)
        #: Integers do not tell the whole truth: every node is asked.
        self.picky = picky


class Space:
    """All nodes that take work, by what they have left."""

    def __init__(self, policy: Policy, *, picky: bool = False) -> None:
        """``picky``: something beyond integers (a plug-in) has a say in every placement."""
        self.policy = policy
        self._picky = picky
        self.rooms: dict[str, Room] = {}
        self.class_of: dict[str, NodeClass] = {}
        #: What each class was told from: while these very objects stay, so does the class.
        self._told: dict[str, tuple[object, object, object]] = {}
        self._wants: dict[int, tuple[Want, ...]] = {}
        self._classes: dict[object, NodeClass] = {}
        self._class_list: list[NodeClass] = []
        # One entry per bucket, never used again: a vector that comes back gets a new number.
        self._vectors: list[int] = []
        self._nodes: list[list[str]] = []
        self._counts: list[int] = []
        self._terms: list[int] = []
        self._live: dict[int, int] = {}
        self._at: dict[str, int] = {}
        #: Interned device states: free memory of each shareable device, most first.
        self._signs: list[tuple[int, ...]] = [()]
        self._sign_ids: dict[tuple[int, ...], int] = {(): 0}
        #: Interned claims on a node: the first moment that somebody else wants it.
        self._claims: list[float] = [INFINITE]
        self._claim_ids: dict[float, int] = {INFINITE: 0}
        self.claimed_from: dict[str, float] = {}
        #: What a tight fit is worth; 0: the strategy looks at all amounts together.
        self._fit = _weight_of_fit(policy)
        self._strategy = strategy(policy.place.strategy, policy)
        self._dearest = 0.0
        #: Nodes are taken in the order of their names, whatever they have left.
        self.in_order = policy.place.strategy == "first-fit"
        self._names: list[str] | None = None
        #: Changes whenever room is given back: where a want found nothing, it may now.
        self.grown = 0

    def refresh(self, cluster: Cluster, name: str) -> None:
        """Take a node's present state in; it may be new, changed, or out of service."""
        node = cluster.nodes.get(name)
        if node is None or not node.takes_work:
            self._leave(name)
            self.rooms.pop(name, None)
            self.class_of.pop(name, None)
            self._told.pop(name, None)
            self._names = None
            return
        self.class_of[name] = self._class(node)
        if name not in self.rooms:
            self._names = None
        self.grown += 1
        self.rooms[name] = Room.now(node, self.policy.place)
        self.put(name)

    def _class(self, node: Node) -> NodeClass:
        told = (node.spec, node.labels, node.taints)
        before = self._told.get(node.name)
        if before is not None and all(old is new for old, new in zip(before, told, strict=True)):
            return self.class_of[node.name]
        self._told[node.name] = told
        key = class_key(node)
        known = self._classes.get(key)
        if known is None:
            known = self._classes[key] = NodeClass(len(self._class_list), node, self.policy)
            self._class_list.append(known)
            if cost_of(known.labels) > self._dearest:
                self._dearest = cost_of(known.labels)
                self.forget_wants()
        return known

    def claim(self, name: str, from_s: float) -> None:
        """Somebody wants the node from then on: tasks that stay longer are looked at singly."""
        if from_s < self.claimed_from.get(name, INFINITE) and name in self.rooms:
            self.claimed_from[name] = from_s
            self.put(name)

    def set_claim(self, name: str, from_s: float) -> None:
        """The earliest claim on a node is another one now."""
        self.grown += 1
        if from_s == INFINITE:
            self.claimed_from.pop(name, None)
        else:
            self.claimed_from[name] = from_s
        if name in self.rooms:
            self.put(name)

    def unclaim(self) -> None:
        """Forget all claims."""
        claimed, self.claimed_from = self.claimed_from, {}
        self.grown += bool(claimed)
        for name in claimed:
            if name in self.rooms:
                self.put(name)

    def put(self, name: str) -> None:
        """Move a node to the bucket of its free amounts, making one when needed."""
        room, kind = self.rooms[name], self.class_of[name]
        if room.alone:
            # Somebody has it to himself: not even a task that asks for nothing fits beside him.
            self._leave(name)
            return
        idle, sign = self._device_state(room) if room.devices else (0, 0)
        vector = (
            pack(room.cpu_milli, room.memory_mib, room.disk_mib, idle)
            | GUARDS
            | kind.id << CLASS_AT
            | sign << SIGN_AT
        )
        if self.claimed_from and name in self.claimed_from:
            vector |= self._claim_number(self.claimed_from[name]) << CLAIM_AT
        old = self._at.get(name)
        if old is not None:
            if self._vectors[old] == vector:
                return
            self._leave(name)
        bucket = self._live.get(vector)
        if bucket is None:
            bucket = self._live[vector] = len(self._vectors)
            self._vectors.append(vector)
            self._nodes.append([name])
            self._counts.append(1)
            self._terms.append(self._term(room, kind))
        else:
            heappush(self._nodes[bucket], name)
            self._counts[bucket] += 1
        self._at[name] = bucket

    def _term(self, room: Room, kind: NodeClass) -> int:
        """The part of the score that a node has of itself: how little is going on there."""
        easy = ease(Free(max(0, room.cpu_milli), max(0, room.memory_mib)), kind.total)
        name = self.policy.place.strategy
        if name == "score":
            return self.policy.place.weight_load * easy
        return (UNIT - easy) // 101 if name == "best-fit" else easy // 101

    def _leave(self, name: str) -> None:
        bucket = self._at.pop(name, None)
        if bucket is None:
            return
        self._counts[bucket] -= 1
        if not self._counts[bucket]:
            del self._live[self._vectors[bucket]]
            self._nodes[bucket] = []

    def _device_state(self, room: Room) -> tuple[int, int]:
        idle = 0
        free: list[int] = []
        for device in room.devices.values():
            if device.idle:
                idle += 1
            if left := device.free_mib:
                free.append(left)
        free.sort(reverse=True)
        sign = tuple(free)
        number = self._sign_ids.get(sign)
        if number is None:
            number = self._sign_ids[sign] = len(self._signs)
            self._signs.append(sign)
        return idle, number

    def _claim_number(self, from_s: float) -> int:
        number = self._claim_ids.get(from_s)
        if number is None:
            number = self._claim_ids[from_s] = len(self._claims)
            self._claims.append(from_s)
        return number

    def wants(self, number: int, shape: Shape) -> tuple[Want, ...]:
        """The heaps for each role of the shape with this number."""
        known = self._wants.get(number)
        if known is None:
            picky = self._picky or shape.service is ServiceClass.GUARANTEED
            picky = picky or shape.placement.asks_nodes
            known = self._wants[number] = tuple(
                Want(role.request, shape, min(role.count, CLIP_MAX), picky) for role in shape.roles
            )
        return known

    def forget_wants(self) -> None:
        """Drop all heaps: they are made again as they are needed."""
        self._wants.clear()

    @property
    def want_count(self) -> int:
        return len(self._wants)

    def _standing(self, want: Want, number: int) -> Standing | None:
        standing = self._class_list[number].standing(
            want.request, want.shape, self.policy, self._fit, self._dearest
        )
        want.standings[number] = standing
        return standing

    def catch_up(self, want: Want) -> None:
        """Score the live buckets that were made since this want was last served."""
        total, seen = len(self._vectors), want.seen
        if seen == total or self.in_order:
            return
        want.seen = total
        packed, standings, clip, guards = want.packed, want.standings, want.clip, GUARDS
        terms, fit, heaps = self._terms, self._fit, want.heaps
        shared = want.request.shared and want.request.device_count > 0
        for vector, bucket in reversed(self._live.items()):
            if bucket < seen:
                break
            if (vector - packed) & guards != guards:
                continue
            number = vector >> CLASS_AT & NUMBER
            standing = standings[number] if number in standings else self._standing(want, number)
            if standing is None:
                continue
            takes = clip
            if shared and not (takes := self._sharers(want, vector)):
                continue
            if clip > 1:
                takes = _beside(packed, vector, takes)
            if fit and not shared:
                const, dimension, slope, most, _, _ = standing
                free = vector >> dimension * FIELD & TOP
                score = const - slope * free // most + terms[bucket]
            else:
                score = self._score(want, vector, standing, terms[bucket])
            finger = (vector * MIX >> 40) & FINGER_MASK
            key = (SCORE_TOP - score) << FINGER_BITS | finger
            heappush(heaps[takes], key << BUCKET_BITS | bucket)

    def _sharers(self, want: Want, vector: int) -> int:
        """How many of a want the shared devices of a bucket take, up to what matters."""
        count = want.request.device_count
        share = self._class_list[vector >> CLASS_AT & NUMBER].share(want.request)
        free = self._signs[vector >> SIGN_AT & NUMBER]
        if not share or len(free) < count or free[count - 1] < share:
            return 0
        if want.clip == 1:
            return 1
        places = sum(left // share for left in free)
        return max(1, min(want.clip, places // count))

    def _score(self, want: Want, vector: int, standing: Standing, term: int) -> int:
        """The score where one dimension does not say it all."""
        total = self._class_list[vector >> CLASS_AT & NUMBER].total
        free = Free(
            vector & TOP,
            vector >> FIELD & TOP,
            vector >> 2 * FIELD & TOP,
            vector >> 3 * FIELD & TOP,
            self._signs[vector >> SIGN_AT & NUMBER],
        )
        if not self._fit:
            return self._strategy(want.request, free, total, standing.static)
        return standing.base + self._fit * tightness(want.request, free, total) + term

    def best(self, want: Want, takes: int, until_s: float, ask: Ask) -> tuple[str, Room] | None:
        """The best node among those that take so many of a want, and the room to choose from.

        ``until_s`` is when the task will be gone. Nodes that somebody claims before that, and
        all nodes of picky wants, are asked one by one.
        """
        if self.in_order:
            return self._first(want, until_s, ask)
        heap, counts = want.heaps[takes], self._counts
        skipped: list[int] = []
        found: tuple[str, Room] | None = None
        while heap:
            bucket = heap[0] & BUCKET_MASK
            if not counts[bucket]:
                heappop(heap)
                continue
            found = self._node_in(bucket, want, until_s, ask)
            if found is not None:
                break
            skipped.append(heappop(heap))
        for entry in skipped:
            heappush(heap, entry)
        return found

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
            room = self._offered(self._at[name], name, want, until_s, ask)
            if room is not None:
                return name, room
        if passed_all:
            want.cursor = (self.grown, len(names))
        return None

    def _offered(self, bucket: int, name: str, want: Want, until_s: float, ask: Ask) -> Room | None:
        return ask(name) if self._must_ask(bucket, want, until_s) else self.rooms[name]

    def _must_ask(self, bucket: int, want: Want, until_s: float) -> bool:
        vector = self._vectors[bucket]
        return (
            want.picky
            or until_s > self._claims[vector >> CLAIM_AT & NUMBER]
            or self._class_list[vector >> CLASS_AT & NUMBER].mixed
        )

    def _node_in(
        self, bucket: int, want: Want, until_s: float, ask: Ask
    ) -> tuple[str, Room] | None:
        if not self._must_ask(bucket, want, until_s):
            names, at = self._nodes[bucket], self._at
            while at.get(names[0]) != bucket:
                heappop(names)
            return names[0], self.rooms[names[0]]
        for name in self._members(bucket):
            room = ask(name)
            if room is not None:
                return name, room
        return None

    def _members(self, bucket: int) -> list[str]:
        """The nodes of a bucket in order; entries of nodes that left are cleaned away."""
        names = self._nodes[bucket]
        if len(names) > self._counts[bucket]:
            names = [*dict.fromkeys(name for name in names if self._at.get(name) == bucket)]
            heapify(names)
            self._nodes[bucket] = names
        return sorted(names)

    def samples(self) -> Iterator[tuple[str, int]]:
        """The first node of each bucket, and how many nodes it stands for."""
        for bucket in self._live.values():
            names = self._nodes[bucket]
            while self._at.get(names[0]) != bucket:
                heappop(names)
            yield names[0], self._counts[bucket]

    def take(self, name: str, allocation: Allocation) -> None:
        self.rooms[name].take(allocation)
        self.put(name)

    def give_back(self, name: str, allocation: Allocation) -> None:
        self.rooms[name].give_back(allocation)
        self.grown += 1
        self.put(name)

    def open_nodes(self, want: Want) -> Iterator[str]:
        """Every node that integers let one of a want on: those that take most of it first."""
        if self.in_order:
            yield from (name for name in sorted(self.rooms) if self.may_fit(want, name))
        self.catch_up(want)
        for heap in reversed(want.heaps):
            for entry in sorted(set(heap)):
                if self._counts[entry & BUCKET_MASK]:
                    yield from self._members(entry & BUCKET_MASK)

    def classes_for(self, wants: Sequence[Want]) -> set[int]:
        """The classes of nodes that can ever take one of these."""
        return {
            kind.id
            for kind in self._class_list
            for want in wants
            if (
                want.standings[kind.id]
                if kind.id in want.standings
                else self._standing(want, kind.id)
            )
            is not None
        }

    def takes(self, want: Want, name: str) -> int:
        """How many of a want integers let on this node, up to what matters."""
        if not self.may_fit(want, name):
            return 0
        vector = self._vectors[self._at[name]]
        shared = want.request.shared and want.request.device_count > 0
        return _beside(want.packed, vector, self._sharers(want, vector) if shared else want.clip)

    def may_ever_fit(self, want: Want, name: str) -> bool:
        """Whether a node of this kind takes one of a want when nothing else is there."""
        number = self.class_of[name].id
        known = number in want.standings
        return (want.standings[number] if known else self._standing(want, number)) is not None

    def may_fit(self, want: Want, name: str) -> bool:
        """Whether integers let one of a want on this node."""
        bucket = self._at.get(name)
        if bucket is None:
            return False
        vector = self._vectors[bucket]
        if (vector - want.packed) & GUARDS != GUARDS:
            return False
        number = vector >> CLASS_AT & NUMBER
        known = number in want.standings
        if (want.standings[number] if known else self._standing(want, number)) is None:
            return False
        shared = want.request.shared and want.request.device_count > 0
        return not shared or self._sharers(want, vector) > 0


def _beside(packed: int, vector: int, takes: int) -> int:
    """How many of a request fit in a bucket side by side, up to ``takes``."""
    for shift in (0, FIELD, 2 * FIELD, 3 * FIELD):
        asked = packed >> shift & TOP
        if asked:
            takes = min(takes, (vector >> shift & TOP) // asked)
    return max(1, takes)


def _weight_of_fit(policy: Policy) -> int:
    rules = policy.place
    known = {"score": rules.weight_fit, "best-fit": 100, "spread": -100, "worst-fit": -100}
    return known.get(rules.strategy, 0)
