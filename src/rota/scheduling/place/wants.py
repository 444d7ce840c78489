"""What a task wants and what a bucket of nodes has left, as integers that compare at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.job import ServiceClass
from rota.scheduling.place.ranks import RANK_BITS

if TYPE_CHECKING:
    from rota.core.derived.lanes import Shape
    from rota.core.facts.resources import Request
    from rota.scheduling.place.nodeclass import ClassFit
    from rota.scheduling.place.scores import Measure

FIELD = 32
TOP = (1 << (FIELD - 1)) - 1
GUARDS = sum(1 << (FIELD * d + FIELD - 1) for d in range(4))
AMOUNTS = (1 << 4 * FIELD) - 1
#: Above the amounts: the numbers of the class and of the device state. No number is given out
#: twice; with a thousand new states a second these last for decades.
NUMBER_BITS = 40
NUMBER = (1 << NUMBER_BITS) - 1
CLASS_AT = 4 * FIELD
SIGN_AT = CLASS_AT + NUMBER_BITS
#: Then the place of the node by name, where that tells equally good ones apart.
RANK_AT = SIGN_AT + NUMBER_BITS
#: What a score depends on: everything below that.
STATE_MASK = (1 << RANK_AT) - 1
#: Above all: the moment from which the node is claimed.
CLAIM_AT = RANK_AT + RANK_BITS
#: The number of a bucket in the entry of a heap; wide enough for all that will ever be made.
BUCKET_BITS = 48
BUCKET_MASK = (1 << BUCKET_BITS) - 1
#: Equal scores are told apart by the amounts themselves, then by the class, the device state and
#: the claim, never by which came first: numbers that were given out in some order say nothing.
FINGER_BITS = 64
#: The score stands above both.
SCORE_AT = FINGER_BITS + BUCKET_BITS
HALF_MASK = (1 << 32) - 1
MIX = 0x9E3779B97F4A7C15
PRIME = (1 << 32) - 5
#: Nodes that take more tasks of one kind than this are not told apart.
CLIP_MAX = 64
#: Scores are whole numbers below this; the heap wants the best to be the least.
SCORE_TOP = 1 << 40
INFINITE = float("inf")


def pack(cpu_milli: int, memory_mib: int, disk_mib: int, devices: int) -> int:
    """Free amounts as one integer, each field cut at what it can hold."""
    if 0 <= cpu_milli <= TOP and 0 <= memory_mib <= TOP and 0 <= disk_mib <= TOP >= devices >= 0:
        return cpu_milli | memory_mib << FIELD | disk_mib << 2 * FIELD | devices << 3 * FIELD
    return (
        max(0, min(cpu_milli, TOP))
        | max(0, min(memory_mib, TOP)) << FIELD
        | max(0, min(disk_mib, TOP)) << 2 * FIELD
        | max(0, min(devices, TOP)) << 3 * FIELD
    )


def finger(amounts: int, content: int) -> int:
    """Where equals stand among each other; ``content`` is what ``content_of`` gave, added up."""
    return (amounts * MIX >> 40 & HALF_MASK) << 32 | (amounts + content) % PRIME


def content_of(value: object) -> int:
    """A number that follows from a value alone, in every process and after every restart."""
    return int.from_bytes(repr(value).encode(), "big") % PRIME


class Want:
    """One kind of task, and the buckets that it fits in by how many of it they take."""

    __slots__ = (
        *("asks", "cleaned", "clip", "cursor", "exclusive", "firm", "heaps", "measure"),
        *("packed", "picky", "points", "request", "seen", "shape", "shared", "spread"),
        "standings",
    )

    def __init__(
        self, request: Request, shape: Shape, clip: int, *, picky: bool, spread: bool
    ) -> None:
        self.request = request
        self.shape = shape
        self.firm = shape.service is ServiceClass.GUARANTEED
        self.exclusive = shape.placement.exclusive
        #: More than this many on one node make no difference.
        self.clip = clip
        alone = 0 if request.shared else request.device_count
        amounts = (request.cpu_milli, request.memory_mib, request.disk_mib, alone)
        self.packed = pack(*amounts)
        #: The dimensions that it asks something of, and how much.
        self.asks = tuple([(at, min(asked, TOP)) for at, asked in enumerate(amounts) if asked])
        self.shared = request.shared and request.device_count > 0
        #: By the number of a class; None: never on such a node.
        self.standings: dict[int, ClassFit | None] = {}
        #: How many fit and the score by state of a node, where these come again; None: none fits.
        self.points: dict[int, tuple[int, int] | None] = {}
        self.heaps: list[list[int]] = [[] for _ in range(clip + 1)]
        #: How many buckets had been made when this want was last served, and when the entries of
        #: buckets that are gone were last dropped.
        self.seen = self.cleaned = 0
        #: What its scores were found with: see ``Heaps.expect``.
        self.measure: Measure | None = None
        #: Where to go on when nodes are taken in order: (``Space.grown``, position).
        self.cursor = (-1, 0)
        #: Integers do not tell the whole truth: every node is asked.
        self.picky = picky
        #: The emptiest node is the best.
        self.spread = spread

    def start_over(self, measure: Measure | None) -> None:
        """All buckets are to be scored anew; the classes that it may go to are as they were."""
        self.measure = measure
        self.points.clear()
        for heap in self.heaps:
            heap.clear()
        self.seen = self.cleaned = 0


def beside(asks: tuple[tuple[int, int], ...], left: tuple[int, ...], takes: int) -> int:
    """How many of a request fit in a bucket side by side, up to ``takes``."""
    for at, asked in asks:
        if (fitting := left[at] // asked) < takes:
            takes = fitting
    return takes or 1
