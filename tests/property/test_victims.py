"""Victims against brute force: never more than needed, the cheapest, and only who may be asked."""

from collections import Counter
from functools import partial
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.core.derived.holdings import amount_of
from rota.core.facts.job import Job, ServiceClass
from rota.core.facts.node import Allocation
from rota.core.facts.placing import Placement
from rota.core.facts.resources import Request
from rota.core.facts.states import Cause
from rota.scheduling.evict.node_units import NodeUnits, TaskWish
from rota.scheduling.evict.search import Takeover
from rota.scheduling.evict.unit import COST_MIN, Unit
from rota.scheduling.evict.victims import BEST_EFFORT_WEIGHT, VICTIM_S
from rota.scheduling.order.share_use import capacity
from rota.scheduling.place.node_room import Room
from rota.testing.stage import Stage, node
from tests.support.running import NOW_S, Lent, Site

GAP = 10
NODES = ("a", "b", "c")

running = st.fixed_dictionaries(
    {
        "on": st.lists(st.sampled_from(NODES), min_size=1, max_size=3).map(tuple),
        "cpus": st.integers(1, 3),
        "gpus": st.integers(0, 2),
        "priority": st.sampled_from((10, 40, 50, 55, 60)),
        "preemptible": st.sampled_from((True, True, False)),
        "service": st.sampled_from((ServiceClass.BURSTABLE, ServiceClass.BURSTABLE, *ServiceClass)),
        "start_s": st.sampled_from((NOW_S - 10, NOW_S - 400, NOW_S - 401, NOW_S - 900)),
        "restart_cost_s": st.sampled_from((0, 0, 1000)),
    }
)
wanted = st.fixed_dictionaries(
    {
        "tasks": st.integers(1, 3),
        "cpus": st.integers(1, 4),
        "gpus": st.integers(0, 3),
        "priority": st.sampled_from((50, 60, 65, 70)),
        "service": st.sampled_from((ServiceClass.BURSTABLE, ServiceClass.GUARANTEED)),
    }
)


def shared_by_some(wishes: dict) -> st.SearchStrategy[dict]:
    """The same, or with one or two devices that it shares."""
    shares = st.tuples(st.sampled_from((1, 1, 2)), st.sampled_from((4000, 12000, 20000, 30000)))
    return st.just(wishes) | shares.map(
        lambda some: wishes | {"gpus": some[0], "gpu_mem": some[1], "shared": True}
    )


def build(jobs: list[dict]) -> Site:
    """Whatever of these jobs fits runs."""
    site = Site(gap=GAP, min_runtime_s=100)
    for name in NODES:
        site.add_node(name, cpus=5, gpus=3)
    for number, wishes in enumerate(jobs):
        if site.has_room(**wishes):
            site.run(f"low {number}", **wishes)
    return site


def may_go(vip: Job, job: Job) -> bool:
    """The rules in the words of the manual, without any of the search's own code."""
    spec = job.spec
    if spec.service is ServiceClass.GUARANTEED or not job.started_s:
        return False
    if NOW_S - job.started_s < 100 or not job.live_attempts:
        return False
    if spec.service is ServiceClass.BEST_EFFORT:
        return True
    return spec.preemptible and vip.spec.priority >= spec.priority + GAP


def fits_without(site: Site, vip: Job, gone: tuple[Job, ...]) -> bool:
    rooms = site.rooms()
    for job in gone:
        for attempt in job.live_attempts:
            rooms[attempt.allocation.node].give_back(attempt.allocation)
    return placed(rooms, vip)


def placed(rooms: dict[str, Room], vip: Job) -> bool:
    firm, request = vip.spec.service is ServiceClass.GUARANTEED, vip.spec.request
    alone, own = vip.spec.placement.exclusive, set[str]()

    def fits(room: Room) -> bool:
        mine = room.node.name in own
        return not room.shortage(
            request, firm=firm, exclusive=alone and not mine, own=alone and mine
        )

    for _ in range(vip.spec.task_count):
        room = next(filter(fits, rooms.values()), None)
        if room is None:
            return False
        room.take(room.choose(request, firm=firm, exclusive=alone))
        own.add(room.node.name)
    return True


def cost_of(site: Site, jobs: tuple[Job, ...]) -> float:
    whole, nodes = capacity(site.cluster), len(site.cluster.nodes)
    total = 0.0
    for job in jobs:
        seconds = 1 + NOW_S - job.started_s + job.spec.restart_cost_s
        held = [attempt.allocation for attempt in job.live_attempts]
        share = max(
            sum(a.cpu_milli for a in held) / whole.cpu_milli,
            sum(a.memory_mib for a in held) / whole.memory_mib,
            sum(amount_of(a).device_milli for a in held) / whole.device_milli,
        )
        weight = BEST_EFFORT_WEIGHT if job.spec.service is ServiceClass.BEST_EFFORT else 1.0
        total += COST_MIN + (share * seconds + VICTIM_S / nodes) * weight
    return total


def cheapest(site: Site, vip: Job, lent: dict[str, int] | None = None) -> float | None:
    """The cost of the best of all sets of victims there are."""
    running_jobs = [job for job in site.cluster.jobs.values() if job is not vip]
    candidates = [job for job in running_jobs if may_go(vip, job) or may_give_back(job, lent)]
    costs = [
        cost_of(site, gone)
        for size in range(len(candidates) + 1)
        for gone in combinations(candidates, size)
        if fits_without(site, vip, gone) and is_lent(vip, gone, lent or {})
    ]
    return min(costs, default=None)


def may_give_back(job: Job, lent: dict[str, int] | None) -> bool:
    """Whether a job is old enough, and of an account that borrows."""
    if not lent or job.spec.service is ServiceClass.GUARANTEED or not job.live_attempts:
        return False
    return NOW_S - job.started_s >= 100 and lent.get(job.spec.user, 0) > 0


def is_lent(vip: Job, gone: tuple[Job, ...], lent: dict[str, int]) -> bool:
    """Whether an account that only gives back what it borrowed gives back no more than that."""
    counts = Counter(job.spec.user for job in gone)
    reclaimed = {job.spec.user for job in gone if not may_go(vip, job)}
    return all(counts[user] <= lent.get(user, 0) for user in reclaimed)


def find(site: Site) -> Takeover | None:
    return site.find("vip", NODES)


@given(st.lists(running, max_size=6), wanted)
def test_the_victims_are_the_cheapest_set_that_brute_force_finds(jobs: list[dict], wish: dict):
    site = build(jobs)
    vip = site.submit("vip", **wish)

    takeover = find(site)

    best = cheapest(site, vip)
    assert (takeover is None) == (best is None)
    if takeover is not None and best is not None:
        assert takeover.cost == pytest.approx(best)


@given(
    st.lists(running.flatmap(shared_by_some), max_size=7),
    wanted.flatmap(shared_by_some),
    st.booleans(),
)
def test_the_victims_are_the_cheapest_where_devices_are_shared_or_a_node_is_wanted_whole(
    jobs: list[dict], wish: dict, exclusive: bool
):
    site = build(jobs)
    vip = site.submit("vip", **wish, placement=Placement(exclusive=exclusive))

    takeover = find(site)

    best = cheapest(site, vip)
    assert (takeover is None) == (best is None)
    if takeover is not None and best is not None:
        assert takeover.cost == pytest.approx(best)


single = st.fixed_dictionaries(
    {
        "on": st.sampled_from([("a",), ("b",)]),
        "cpus": st.integers(0, 2),
        "gpus": st.integers(0, 2),
        "mem": st.sampled_from((0, 10_000, 30_000)),
        "service": st.sampled_from((ServiceClass.BURSTABLE, ServiceClass.BEST_EFFORT)),
        "start_s": st.integers(110, 900).map(lambda age_s: NOW_S - age_s),
    }
)


@settings(max_examples=300)
@given(
    st.lists(single.flatmap(shared_by_some), min_size=3, max_size=8),
    st.integers(0, 5),
    st.integers(0, 3),
    st.sampled_from((0, 20_000, 60_000)),
    st.sampled_from((("a", "b"), ("a",), ("b",), ())),
)
def test_the_cheapest_of_full_nodes_is_found_whatever_is_short_there(
    jobs: list[dict], cpus: int, gpus: int, mem: int, parted: tuple[str, ...]
):
    site = Site(gap=GAP, min_runtime_s=100)
    for name in ("a", "b"):
        add = site.add_parted_node if name in parted else partial(site.add_node, gpus=3)
        add(name, cpus=5)
    for number, wishes in enumerate(jobs):
        if site.has_room(**wishes):
            site.run(f"low {number}", **wishes)
    vip = site.submit("vip", cpus=cpus, gpus=gpus, mem=mem, priority=90)

    takeover = site.find("vip", ("a", "b"))

    best = cheapest(site, vip)
    assert (takeover is None) == (best is None)
    if takeover is not None and best is not None:
        assert takeover.cost == pytest.approx(best)


@given(
    st.lists(st.tuples(running, st.sampled_from(("bob", "eve"))), max_size=6),
    wanted,
    st.fixed_dictionaries({"bob": st.integers(0, 3), "eve": st.integers(0, 2)}),
)
def test_the_cheapest_victims_give_back_no_more_than_was_lent(
    jobs: list[tuple[dict, str]], wish: dict, lent: dict[str, int]
):
    site = build([one | {"user": user} for one, user in jobs])
    vip = site.submit("vip", **wish)

    takeover = site.find("vip", NODES, lent=Lent(**lent))

    best = cheapest(site, vip, lent)
    assert (takeover is None) == (best is None)
    if takeover is not None and best is not None:
        assert takeover.cost == pytest.approx(best)


@given(st.lists(running, max_size=7), st.lists(wanted, min_size=2, max_size=5))
def test_a_search_that_has_served_others_finds_what_a_new_one_finds(
    jobs: list[dict], wishes: list[dict]
):
    site = build(jobs)
    known = site.preemption()

    for number, wish in enumerate(wishes):
        vip = site.submit(f"vip {number}", **wish)
        takeover = site.find(f"vip {number}", NODES, known)
        fresh = site.find(f"vip {number}", NODES)

        assert (takeover is None) == (fresh is None)
        if takeover is None or fresh is None:
            continue
        assert takeover.cost == pytest.approx(fresh.cost)
        known.commit(takeover)
        for task, allocation in enumerate(takeover.allocations):
            known.rooms[allocation.node].take(allocation)
            site.place(vip, task, allocation, takeover.after)
        for eviction in takeover.evictions:
            name = next(name for name, job in site.names.items() if job == eviction.job)
            site.stop(name, Cause.PREEMPTED)


@given(st.lists(running, max_size=6), wanted)
def test_only_those_go_who_may_whole_and_none_of_them_in_vain(jobs: list[dict], wish: dict):
    site = build(jobs)
    vip = site.submit("vip", **wish)

    takeover = find(site)

    if takeover is None:
        return
    gone = tuple(site.cluster.jobs[eviction.job] for eviction in takeover.evictions)
    assert all(may_go(vip, job) for job in gone)
    assert all(not eviction.tasks for eviction in takeover.evictions)
    assert fits_without(site, vip, gone)
    for job in gone:
        assert not fits_without(site, vip, tuple(other for other in gone if other is not job))


@given(st.lists(running, max_size=6), wanted)
def test_the_room_is_there_once_the_victims_have_left_it(jobs: list[dict], wish: dict):
    site = build(jobs)
    vip = site.submit("vip", **wish)
    takeover = find(site)
    if takeover is None:
        return

    for task, allocation in enumerate(takeover.allocations):
        site.place(vip, task, allocation, takeover.after)
    waiting = site.withheld()
    for eviction in takeover.evictions:
        site.end_job(site.cluster.jobs[eviction.job])

    site.rooms()  # checks that nothing is held twice
    assert bool(waiting) == bool(takeover.after)
    assert site.withheld() == []


@given(st.lists(running, max_size=8), st.lists(wanted, min_size=2, max_size=4))
def test_jobs_of_one_pass_are_never_promised_the_same_room(jobs: list[dict], wishes: list[dict]):
    site = build(jobs)
    preemption = site.preemption()
    decided = []
    for number, wish in enumerate(wishes):
        name = f"vip {number}"
        vip = site.submit(name, **wish)
        takeover = site.find(name, NODES, preemption)
        if takeover is not None:
            preemption.commit(takeover)
            for allocation in takeover.allocations:
                preemption.rooms[allocation.node].take(allocation)
            decided.append((vip, takeover))

    for vip, takeover in decided:
        for task, allocation in enumerate(takeover.allocations):
            site.place(vip, task, allocation, takeover.after)
    site.rooms()
    evicted = [eviction.job for _, takeover in decided for eviction in takeover.evictions]
    assert len(evicted) == len(set(evicted))
    for job in evicted:
        site.end_job(site.cluster.jobs[job])
        site.rooms()
    assert site.withheld() == []


@given(
    st.lists(st.tuples(st.sampled_from(NODES), st.integers(1, 3)), min_size=2, max_size=9),
    st.integers(1, 9),
    wanted,
)
def test_an_elastic_job_never_shrinks_below_its_least_size(
    members: list[tuple[str, int]], least: int, wish: dict
):
    site = Site(gap=GAP, min_runtime_s=100)
    for name in NODES:
        site.add_node(name, cpus=9, gpus=3)
    nodes = tuple(name for name, _ in members)
    least = min(least, len(nodes))
    elastic = site.run("low", on=nodes, min_tasks=least, preemptible=False, priority=10)
    site.submit("vip", **(wish | {"cpus": 3}))

    takeover = find(site)

    if takeover is not None and takeover.evictions:
        (eviction,) = takeover.evictions
        assert 0 < len(set(eviction.tasks)) == len(eviction.tasks)
        assert len(elastic.tasks) - len(eviction.tasks) >= least


def in_parts(units: list[tuple[int, float]], missing: int) -> float | None:
    """What it costs to gain so much of (gain, cost), if a unit could be had in parts.

    No unit gives more than what is missing.
    """
    units = [(min(gain, missing), price) for gain, price in units]
    cost = 0.0
    for gain, price in sorted(units, key=lambda one: one[1] / one[0]):
        part = min(1.0, missing / gain)
        cost += part * price
        missing -= min(gain, missing)
        if not missing:
            # No unit is had in parts in the end: the cheapest that is not free is the least.
            return max(cost, min((p for _, p in units if p), default=0.0)) if cost else 0.0
    return None


amounts = st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 40))


@settings(max_examples=200)
@given(
    held=st.lists(amounts, min_size=1, max_size=5), cpus=st.integers(1, 20), mem=st.integers(0, 20)
)
def test_what_room_costs_at_the_least_is_the_cost_of_parts_and_no_set_costs_less(held, cpus, mem):
    here = Stage([node("a", cpus=24, mem=24)]).cluster.nodes["a"]
    room = Room.now(here)
    units = []
    for number, (cpu, mib, cost) in enumerate(sorted(held, key=lambda one: one[2]), start=1):
        allocation = Allocation("a", cpu * 1000, mib)
        room.take(allocation)
        units.append(
            Unit(number, float(cost), 0.0, False, True, held=((f"u{number}", allocation),))
        )
    rest = Allocation("a", room.cpu_milli, room.memory_mib)
    room.take(rest)
    wish = TaskWish(Request(cpu_milli=cpus * 1000, memory_mib=mem), False, False, False)

    least = NodeUnits(here, units).least_cost(wish, room)

    plain = [
        in_parts([(one[at], float(one[2])) for one in held if one[at]], wanted) if wanted else 0.0
        for at, wanted in ((0, cpus), (1, mem))
    ]
    assert least == (None if None in plain else pytest.approx(max(plain)))
    enough = [
        sum(one[2] for one in some)
        for count in range(len(held) + 1)
        for some in combinations(held, count)
        if sum(one[0] for one in some) >= cpus and sum(one[1] for one in some) >= mem
    ]
    assert (least is None) == (not enough)
    assert least is None or least <= min(enough) + 1e-9
