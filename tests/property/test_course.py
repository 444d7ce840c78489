"""What is remembered of a node's future says the same as playing all comings and goings again."""

from hypothesis import given
from hypothesis import strategies as st

from rota.core.derived.lanes import shape_of
from rota.core.facts.node import Allocation
from rota.core.facts.policy import DEFAULT
from rota.core.facts.resources import Request
from rota.scheduling.later import timeline as timelines
from rota.scheduling.later.timeline import Asking, Claim, Leaving, Timeline
from rota.scheduling.place.node_index import Space
from rota.testing.stage import Stage, node, spec

NODES = ("a", "b", "c")
CPUS = 6
times = st.integers(0, 12).map(float)
#: (what, node, who, end or start, length, CPUs).
acts = st.tuples(
    st.sampled_from(("come", "go", "claim", "unclaim", "time", "look")),
    st.sampled_from(NODES),
    st.integers(1, 5),
    times,
    st.integers(1, 6),
    st.integers(1, 3),
)


class World:
    """A few nodes with comings, goings and promises, told to a Timeline one by one."""

    def __init__(self) -> None:
        self.cluster = Stage([node(name, cpus=CPUS) for name in NODES]).cluster
        self.space = Space(DEFAULT)
        self.timeline = Timeline(self.space)
        for name in NODES:
            self.space.refresh(self.cluster, name)
            self.timeline.set_node(name, {})
        self.here: dict[tuple[str, int], Leaving] = {}
        self.promised: dict[int, list[tuple[str, Claim]]] = {}

    def act(self, what: str, name: str, who: int, at_s: float, length_s: int, cpus: int) -> None:
        key, timeline = (name, who), self.timeline
        held = Allocation(name, cpus * 1000, 0)
        if what == "come" and key not in self.here:
            leaving = self.here[key] = Leaving(at_s, f"u{who}", name, held)
            self.space.take(name, held)
            timeline.change_node(name, {leaving.uid: leaving})
        elif what == "go" and key in self.here:
            gone = self.here.pop(key)
            self.space.give_back(name, gone.allocation)
            timeline.change_node(name, {gone.uid: None})
        elif what == "claim" and who not in self.promised:
            claim = Claim(at_s, at_s + length_s, held, job=who)
            self.promised[who] = [(name, claim)]
            timeline.claim(name, claim)
        elif what == "unclaim" and self.promised.pop(who, None):
            timeline.unclaim_job(who)
        elif what == "time":
            timeline.now_s = max(timeline.now_s, at_s)
        elif what == "look":
            timeline.course(name, asking(cpus, length_s))

    def afresh(self) -> Timeline:
        """A Timeline that was told everything at once."""
        fresh = Timeline(self.space)
        fresh.now_s = self.timeline.now_s
        for name in NODES:
            leaving = {item.uid: item for (at, _), item in self.here.items() if at == name}
            fresh.set_node(name, leaving)
        self.space.unclaim()
        for claims in self.promised.values():
            for name, claim in claims:
                fresh.claim(name, claim)
        return fresh


def asking(cpus: int, run_s: float) -> Asking:
    return Asking(99, "alice", "", shape_of(spec(cpus=cpus)), float(run_s))


@given(st.lists(acts, max_size=25), times, st.integers(1, 6))
def test_a_course_offers_what_the_window_offers(story, from_s, length_s):
    world = World()
    for act in story:
        world.act(*act)
    from_s = max(from_s, world.timeline.now_s)

    for name in NODES:
        course = world.timeline.course(name, asking(1, length_s))
        assert course is not None
        count, _ = course.look(Request(cpu_milli=1000), CPUS, from_s, from_s + length_s)
        window = world.timeline.window(name, from_s, from_s + length_s, asking(1, length_s))
        assert count == max(0, min(CPUS, window.cpu_milli // 1000))


@given(st.lists(acts, max_size=25), st.integers(1, 4), st.integers(1, 6))
def test_a_start_is_found_the_short_way_as_the_long_way(story, cpus, run_s):
    world = World()
    for act in story:
        world.act(*act)
    who = asking(cpus, run_s)
    wants = world.space.wants(1, who.shape)
    small = timelines.SMALL

    def earliest(timeline: Timeline) -> tuple[float, list[str]] | None:
        now = world.space.open_nodes(wants[0])
        found = timeline.earliest(who, 40.0, wants, now, None)
        return (found[0], [held.node for held in found[1]]) if found is not None else None

    short = earliest(world.timeline)
    try:
        timelines.SMALL = 0
        long = earliest(world.afresh())
    finally:
        timelines.SMALL = small

    assert short == long
