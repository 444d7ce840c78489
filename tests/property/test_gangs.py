"""Gangs: the fast search finds room exactly when there is some, all tasks start or none does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.core.derived.lanes import Shape, shape_of
from rota.core.facts.job import Role, ServiceClass
from rota.core.facts.policy import Backfill, BackfillRules, PlaceRules, Policy, PreemptRules
from rota.scheduling.place.filters import Case, first_problem
from rota.scheduling.place.node_room import Room
from rota.scheduling.place.trial_rooms import count_in
from rota.testing.stage import Stage, node, spec
from tests.property import sites

if TYPE_CHECKING:
    from rota.core.facts.job import JobSpec


def busy_stage(nodes, strategy, jobs, overcommit=1.0) -> Stage:
    """A site in the middle of something, where nobody passes anybody."""
    place = PlaceRules(strategy=strategy, overcommit_cpu=overcommit)
    stage = Stage(nodes, Policy(place=place, backfill=BackfillRules(kind=Backfill.NONE)))
    for job in jobs:
        stage.submit(job)
    stage.run()
    return stage


def allowed(stage: Stage, shape: Shape, role: Role) -> list[str]:
    """Nodes that may take tasks of a role by everything but room."""
    cluster = stage.cluster
    return [
        name
        for name, node in cluster.nodes.items()
        if not first_problem(
            Case(
                shape,
                role.request,
                node.spec,
                node.all_labels,
                node.all_taints,
                cluster.policy,
                name,
            )
        ).filter
    ]


def groups_of(stage: Stage, shape: Shape) -> list[set[str]]:
    """The sets of nodes that one job may be spread over."""
    nodes = stage.cluster.nodes
    key = shape.placement.topology
    groups = [set(nodes)]
    if key:
        values = sorted({node.all_labels.get(key, "") for node in nodes.values()} - {""})
        groups = [{n for n, node in nodes.items() if node.all_labels.get(key) == v} for v in values]
    if shape.task_count == 1:
        return groups
    sides = sorted({node.spec.side for node in nodes.values()})
    return [{n for n in group if nodes[n].spec.side == side} for group in groups for side in sides]


def has_room(stage: Stage, shape: Shape) -> bool:
    """Whether a job of one role fits, by counting how many of its tasks each node takes."""
    (role,) = shape.roles
    rules = stage.cluster.policy.place
    counts = {
        name: count_in(Room.now(stage.cluster.nodes[name], rules), shape, role)
        for name in allowed(stage, shape, role)
    }
    nodes = stage.cluster.nodes
    return any(
        # The engine of a pool spreads them itself.
        _enough(
            [count for name, count in counts.items() if name in group],
            shape.placement.node_count if not any(nodes[n].spec.pool for n in group) else 0,
            role,
        )
        for group in groups_of(stage, shape)
    )


def _enough(counts: list[int], nodes: int, role: Role) -> bool:
    if not nodes:
        return sum(counts) >= (role.min_count or role.count)
    shares = sorted(role.count // nodes + (n < role.count % nodes) for n in range(nodes))
    wanted = [share for share in reversed(shares) if share]
    most = sorted(counts, reverse=True)
    return len(most) >= len(wanted) and all(
        have >= share for have, share in zip(most, wanted, strict=False)
    )


def alone(spec: JobSpec) -> JobSpec:
    """The same without wishes about neighbours, which counting does not know of."""
    placement = msgspec.structs.replace(spec.placement, affinities=())
    return msgspec.structs.replace(spec, placement=placement, roles=spec.roles[:1])


single_role_jobs = st.one_of(sites.specs().map(alone), sites.gang_specs())


@settings(max_examples=120)
@given(
    nodes=sites.nodes(least=1),
    jobs=st.lists(sites.specs(), max_size=6),
    probes=st.lists(single_role_jobs, min_size=1, max_size=4),
    strategy=st.sampled_from(sites.STRATEGIES),
    overcommit=st.sampled_from([1.0, 1.5]),
)
def test_a_job_of_one_kind_of_task_finds_room_exactly_when_counting_says_so(
    nodes, jobs, probes, strategy, overcommit
):
    stage = busy_stage(nodes, strategy, jobs, overcommit)

    for probe in probes:
        shape = shape_of(probe)
        expected = has_room(stage, shape)

        job = stage.submit(probe)
        stage.run()

        assert (job in stage.started_s) == expected


def brute_room(stage: Stage, shape: Shape) -> bool:
    """Whether all tasks of all roles fit somehow: every way of distributing them is tried."""
    rules = stage.cluster.policy.place
    rooms = {name: Room.now(node, rules) for name, node in stage.cluster.nodes.items()}
    open_to = [allowed(stage, shape, role) for role in shape.roles]
    firm = shape.service is ServiceClass.GUARANTEED
    exclusive = shape.placement.exclusive
    every = tuple(
        number
        for number, role in enumerate(shape.roles)
        for _ in range(role.min_count or role.count)
    )

    def distribute(tasks: tuple[int, ...], group: set[str], own: tuple[str, ...]) -> bool:
        if not tasks:
            return True
        number = tasks[0]
        request = shape.roles[number].request
        for name in open_to[number]:
            mine = name in own
            room = rooms[name]
            if name not in group or room.shortage(
                request, firm=firm, exclusive=exclusive and not mine, own=mine
            ):
                continue
            allocation = room.choose(request, firm=firm, exclusive=exclusive)
            room.take(allocation)
            found = distribute(tasks[1:], group, (*own, name))
            room.give_back(allocation)
            if found:
                return True
        return False

    return any(
        distribute(tasks, group, ())
        for group in groups_of(stage, shape)
        for tasks in (every, every[::-1])
    )


@st.composite
def two_role_jobs(draw: st.DrawFn) -> JobSpec:
    spec = alone(draw(sites.specs()))
    placement = msgspec.structs.replace(spec.placement, node_count=0)
    roles = tuple(
        Role(name=name, count=draw(st.integers(1, 2)), request=draw(sites.requests))
        for name in ("driver", "worker")
    )
    return msgspec.structs.replace(spec, roles=roles, placement=placement)


@settings(max_examples=100)
@given(
    nodes=sites.nodes(least=1, most=3),
    jobs=st.lists(sites.specs(), max_size=3),
    probe=two_role_jobs(),
    strategy=st.sampled_from(sites.STRATEGIES),
)
def test_a_job_of_two_roles_finds_room_exactly_when_some_distribution_fits(
    nodes, jobs, probe, strategy
):
    stage = busy_stage(nodes, strategy, jobs)
    expected = brute_room(stage, shape_of(probe))

    job = stage.submit(probe)
    stage.run()

    assert (job in stage.started_s) == expected


@settings(max_examples=80)
@given(
    nodes=sites.nodes(),
    policy=sites.policies(),
    jobs=sites.submissions(st.one_of(sites.gang_specs(), sites.specs()), most=12),
    starts=sites.hosts,
)
def test_gangs_start_whole_and_lie_as_they_asked_to(nodes, policy, jobs, starts):
    stage = sites.hosted(nodes, policy, starts)
    for job in jobs:
        stage.submit_later(job.at_s, job.spec, job.runs_s)

    stage.run()
    for _ in range(400):
        if not stage.step():
            break
        for number in stage.running:
            check_gang(stage, number)
    else:
        raise AssertionError("the story has no end")


def check_gang(stage: Stage, number: int) -> None:
    """Between passes a live gang has at least its least size, on the nodes that it asked for."""
    job = stage.cluster.jobs[number]
    if any(attempt.stop_cause for attempt in job.live_attempts):
        return
    live = [task for task in job.tasks if task.current is not None and task.current.live]
    for index, role in enumerate(job.spec.roles):
        count = sum(task.role == index for task in live)
        assert (role.min_count or role.count) <= count <= role.count
    placement = job.spec.placement
    used = stage.nodes_of(number)
    if placement.topology:
        values = {stage.cluster.nodes[name].all_labels[placement.topology] for name in used}
        assert len(values) == 1
    if placement.node_count and len(job.spec.roles) == 1 and not job.spec.elastic:
        counts = [used.count(name) for name in set(used)]
        assert len(counts) == min(placement.node_count, job.spec.task_count)
        assert max(counts) - min(counts) <= 1


@settings(max_examples=60)
@given(
    sizes=st.lists(st.integers(2, 6), min_size=2, max_size=8),
    policy=sites.policies(preempt=PreemptRules()),
    starts=sites.hosts,
)
def test_gangs_never_hold_halves_of_each_others_room(sizes, policy, starts):
    stage = sites.hosted([node(f"n{number}", cpus=2) for number in range(3)], policy, starts)
    jobs = [stage.submit(spec(tasks=size, cpus=1, time_limit_s=10)) for size in sizes]

    stage.play()

    assert sorted(stage.ended_s) == jobs
