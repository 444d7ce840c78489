"""What a profile says of a node's future is what playing all comings and goings says.

The oracle knows no steps and no bits: it makes the room of every moment anew.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rota.core.derived.lanes import shape_of
from rota.core.facts.job import ServiceClass
from rota.core.facts.node import Allocation, Device, ForeignUse, NodeSpec
from rota.core.facts.placing import Placement
from rota.core.facts.policy import DEFAULT, PlaceRules
from rota.core.facts.tenant import Reservation
from rota.scheduling.later.free_profile import ALONE, FIELD, need_of
from rota.scheduling.later.occupancy import INFINITE
from rota.scheduling.later.start_search import earliest
from rota.scheduling.later.timeline import OVERDUE_S, Asking, Claim, LeavingAttempt, Timeline
from rota.scheduling.place.node_index import Space
from rota.scheduling.place.node_room import Room
from rota.scheduling.place.trial_rooms import count_in, place_in
from rota.testing.stage import Stage, node, role, spec

CPUS = 6
MIB = 1000
OVERBOOKED = replace(DEFAULT, place=PlaceRules(overcommit_cpu=1.5, overcommit_memory=1.5))


def cut_up(name: str) -> NodeSpec:
    """A node with one device in two parts, and a small one of another model."""
    whole = Device(0, f"{name}-0", "gpu", "A100", MIB)
    parts = [Device(n, f"{name}-{n}", "gpu", "A100 part", MIB // 2, parent=0) for n in (1, 2)]
    small = Device(3, f"{name}-3", "gpu", "L4", MIB // 2)
    return NodeSpec(name, CPUS * 1000, 64, 20, cpus=(0, 1, 2), devices=(whole, *parts, small))


NODES = (
    node("a", cpus=CPUS, mem=64, disk=20),
    node("b", cpus=CPUS, mem=64, disk=20),
    node("c", cpus=CPUS, mem=64, disk=20, gpus=3, gpu_mem=MIB),
    node("d", cpus=CPUS, mem=64, disk=20, gpus=2, gpu_mem=MIB),
    cut_up("e"),
)
NAMES = tuple(one.name for one in NODES)
times = st.integers(0, 12).map(float)
lengths = st.integers(1, 6)


@st.composite
def allocations(draw: st.DrawFn, name: str) -> Allocation:
    devices = [d.index for d in NODES[NAMES.index(name)].devices]
    chosen = tuple(sorted(draw(st.sets(st.sampled_from(devices), max_size=2)))) if devices else ()
    shared = bool(chosen) and draw(st.booleans())
    return Allocation(
        name,
        draw(st.integers(0, 3)) * 1000,
        draw(st.sampled_from((0, 8, 30))),
        draw(st.sampled_from((0, 0, 9))),
        devices=chosen,
        shared=shared,
        device_memory_mib=draw(st.sampled_from((201, 400))) if shared else 0,
        device_milli=draw(st.sampled_from((0, 500))) if shared else 0,
        firm=draw(st.booleans()),
        exclusive=draw(st.integers(0, 9)) == 0,
    )


@st.composite
def acts(draw: st.DrawFn) -> tuple[str, str, int, float, int, Allocation]:
    """(what, where, who, end or start, length, of how much)."""
    kinds = ("come", "come", "go", "claim", "unclaim", "reserve", "confine", "time", "look", "add")
    name = draw(st.sampled_from(NAMES))
    who = draw(st.integers(1, 5))
    held = draw(allocations(name))
    return draw(st.sampled_from(kinds)), name, who, draw(times), draw(lengths), held


def lower(low: Room, other: Room) -> None:
    """Keep, in every dimension, the less that either of two moments offers."""
    for name in ("cpu_milli", "memory_mib", "disk_mib", "firm_cpu_milli", "firm_memory_mib"):
        setattr(low, name, min(getattr(low, name), getattr(other, name)))
    low.holders, low.alone = max(low.holders, other.holders), max(low.alone, other.alone)
    low.cpus = [cpu for cpu in low.cpus if cpu in other.cpus]
    for index, room in low.devices.items():
        for name in ("taken", "sharers", "shared_mib"):
            setattr(room, name, max(getattr(room, name), getattr(other.devices[index], name)))


class World:
    """A few nodes with comings, goings and claims, told to a Timeline one by one."""

    def __init__(self, policy=DEFAULT) -> None:
        self.cluster = Stage(NODES, policy).cluster
        self.cluster.nodes["c"].foreign = (ForeignUse(1, 77, "eve", 300),)
        self.space = Space(policy)
        self.timeline = Timeline(self.space)
        for name in NAMES:
            self.space.refresh(self.cluster, name)
            self.timeline.set_node(name, {})
        self.here: dict[tuple[str, int], LeavingAttempt] = {}

    def act(
        self, what: str, name: str, who: int, at_s: float, length_s: int, held: Allocation
    ) -> None:
        key, timeline = (name, who), self.timeline
        if what in ("come", "add") and key not in self.here:
            leaving = self.here[key] = LeavingAttempt(at_s, name, f"u{who}", held)
            self.space.take(name, held)
            if what == "add":
                timeline.add(leaving)
            else:
                timeline.change_node(name, {leaving.uid: leaving})
        elif what == "go" and key in self.here:
            gone = self.here.pop(key)
            self.space.give_back(name, gone.allocation)
            timeline.change_node(name, {gone.uid: None})
        elif what == "claim" and who not in {c.job for cs in timeline.claims.values() for c in cs}:
            self.claim(name, Claim(at_s, at_s + length_s, held, job=who))
        elif what == "unclaim":
            timeline.unclaim_job(who)
        elif what in ("reserve", "confine"):
            owner = ("alice", "bob")[who % 2]
            made = Reservation(who, owner, at_s, at_s + length_s)
            confined = who if what == "confine" else 0
            self.claim(name, Claim(at_s, at_s + length_s, held, 0, made, confined))
        elif what == "time":
            self.pass_by(at_s)
        elif what == "look":
            timeline.profile(name, asking(spec()))

    def pass_by(self, now_s: float) -> None:
        """Time goes on, and a pass makes its claims anew."""
        timeline = self.timeline
        timeline.now_s = max(timeline.now_s, now_s)
        before = [(name, claim) for name, claims in timeline.claims.items() for claim in claims]
        timeline.unclaim()
        for name, claim in before:
            self.claim(name, claim)

    def claim(self, name: str, claim: Claim) -> None:
        """Claims that are over are made no more."""
        if claim.end_s > self.timeline.now_s:
            self.timeline.claim(name, claim)

    def leaves_s(self, item: LeavingAttempt) -> float:
        now_s = self.timeline.now_s
        return item.end_s if item.end_s > now_s else now_s + OVERDUE_S

    def room_at(self, name: str, at_s: float, who: Asking) -> Room:
        """The room of one moment."""
        room = self.space.rooms[name].copy(pins=False)
        for (where, _), item in self.here.items():
            if where == name and self.leaves_s(item) <= at_s:
                room.give_back(item.allocation)
        for claim in self.timeline.claims.get(name, ()):
            if claim.start_s <= at_s < claim.end_s and who.is_bound_by(claim):
                room.take(claim.allocation)
        return room

    def moments(self, name: str) -> list[float]:
        """When anything changes on a node."""
        found = {self.leaves_s(item) for (where, _), item in self.here.items() if where == name}
        for claim in self.timeline.claims.get(name, ()):
            found |= {claim.start_s, claim.end_s}
        return sorted(found)

    def window(self, name: str, from_s: float, until_s: float, who: Asking) -> Room:
        """The least of all moments between two."""
        low = self.room_at(name, from_s, who)
        for at_s in self.moments(name):
            if from_s < at_s < until_s:
                lower(low, self.room_at(name, at_s, who))
        return low

    def until_s(self, name: str, from_s: float, who: Asking) -> float:
        claims = self.timeline.claims.get(name, ())
        if any(claim.reservation and who.is_bound_by(claim) for claim in claims):
            return from_s + who.limit_s if who.limit_s else INFINITE
        return from_s + who.run_s

    def first_start(self, who: Asking, classes: set[int]) -> float | None:
        """The first moment at which something is given back and the job fits everywhere at once."""
        names = [name for name in NAMES if self.space.class_of[name].id in classes]
        for at_s in sorted({at_s for name in names for at_s in self._ends(name)}):
            rooms = {n: self.window(n, at_s, self.until_s(n, at_s, who), who) for n in names}
            if place_in(rooms, who.shape, self.space.class_of) is not None:
                return at_s
        return None

    def _ends(self, name: str) -> set[float]:
        ends = {self.leaves_s(item) for (where, _), item in self.here.items() if where == name}
        return ends | {claim.end_s for claim in self.timeline.claims.get(name, ())}


def asking(job_spec, run_s: float = 3.0) -> Asking:
    return Asking(3, "alice", "", shape_of(job_spec), run_s, float(job_spec.time_limit_s))


shapes = st.sampled_from([
    spec(cpus=1), spec(cpus=4, mem=30), spec(cpus=2, disk=9, time_limit_s=4), spec(cpus=0),
    spec(cpus=1, gpus=1), spec(cpus=0, gpus=2), spec(gpus=1, gpu_type="L4"),
    spec(gpus=1, gpu_mem=300), spec(gpus=1, gpu_part=0.5), spec(gpus=2, gpu_mem=400),
    spec(cpus=1, placement=Placement(exclusive=True)),
    spec(gpus=1, placement=Placement(exclusive=True), time_limit_s=4),
    spec(cpus=3, mem=40, service=ServiceClass.GUARANTEED),
    spec(cpus=2, tasks=4), spec(cpus=1, tasks=9, at_least=7), spec(gpus=1, tasks=4),
    spec(gpus=1, gpu_mem=300, tasks=6), spec(cpus=3, tasks=2, placement=Placement(node_count=2)),
    spec(role(name="one", gpus=1), role(name="two", cpus=4, tasks=2)),
])  # fmt: skip
#: Long ones: the nodes are many, and on each of them amounts must run short.
stories = st.lists(acts(), min_size=12, max_size=30)
policies = st.sampled_from((DEFAULT, OVERBOOKED))


def told(story, policy=DEFAULT) -> World:
    world = World(policy)
    for act in story:
        world.act(*act)
    return world


def contents(room: Room) -> dict[str, object]:
    devices = {
        index: (d.taken, d.sharers, d.shared_mib, d.foreign_mib)
        for index, d in room.devices.items()
    }
    return {
        "amounts": (room.cpu_milli, room.memory_mib, room.disk_mib),
        "firm": (room.firm_cpu_milli, room.firm_memory_mib),
        "attempts": (room.holders, room.alone),
        "devices": devices,
    }


@settings(max_examples=80)
@given(stories, times, lengths, policies)
def test_a_window_is_the_least_of_all_moments_in_it(story, from_s, length_s, policy):
    world = told(story, policy)
    from_s, who = max(from_s, world.timeline.now_s), asking(spec())

    for name in NAMES:
        for until_s in (from_s + length_s, INFINITE):
            window = world.timeline.window(name, from_s, until_s, who)

            assert contents(window) == contents(world.window(name, from_s, until_s, who))


@settings(max_examples=150)
@given(stories, times, lengths, shapes, policies)
def test_as_many_tasks_fit_as_can_be_placed_one_by_one(story, from_s, length_s, wanted, policy):
    world = told(story, policy)
    who = asking(wanted, length_s)
    from_s = max(from_s, world.timeline.now_s)

    for name in NAMES:
        kind, room = world.space.class_of[name], world.space.rooms[name]
        profile = world.timeline.profile(name, who)
        for one in who.shape.roles:
            bars = FIELD if who.shape.placement.exclusive else ALONE
            need = need_of(kind, one.request, firm=who.is_firm, bars=bars)
            counts = {
                at_s: count_in(world.window(name, at_s, at_s + length_s, who), who.shape, one)
                for at_s in [from_s, *filter(from_s.__lt__, world.moments(name))]
            }
            count, open_s = profile.look(room, need, one.count, from_s, from_s + length_s)
            assert count == counts[from_s] or (not need.exact and count > counts[from_s])
            assert open_s == from_s or not count
            assert not [at_s for at_s, some in counts.items() if some and at_s < open_s]


@settings(max_examples=100)
@given(stories, lengths, shapes, policies)
def test_a_job_is_told_the_first_moment_at_which_it_fits(story, run_s, wanted, policy):
    world = told(story, policy)
    who = asking(wanted, run_s)
    wants = world.space.wants(1, who.shape)
    now = dict.fromkeys(name for want in wants for name in world.space.open_nodes(want))

    found = earliest(world.timeline, who, INFINITE, wants, now, None)

    first_s = world.first_start(who, world.space.classes_for(wants))
    assert (found[0] if found is not None else None) == first_s


@given(stories, lengths, shapes)
def test_asking_when_a_job_fits_changes_nothing(story, run_s, wanted):
    world = told(story)
    who, timeline = asking(wanted, run_s), world.timeline
    wants = world.space.wants(1, who.shape)

    def ask() -> object:
        now = dict.fromkeys(name for want in wants for name in world.space.open_nodes(want))
        return earliest(timeline, who, INFINITE, wants, now, None)

    before = timeline.loosened, {n: [*c] for n, c in timeline.claims.items()}
    first = ask()
    after = timeline.loosened, {n: [*c] for n, c in timeline.claims.items()}

    assert ask() == first
    assert after == before
