"""A pass over lanes decides what a plain walk over all waiting jobs would decide."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.controller.commands import commands as cmd
from rota.controller.recover import recover
from rota.core.cluster import Cluster
from rota.core.derived import lanes
from rota.core.derived.lanes import shape_of
from rota.core.facts.errors import Rejected
from rota.core.facts.job import JobSpec
from rota.core.facts.node import Device, NodeSpec
from rota.core.facts.policy import Backfill, BackfillRules, Mixing, OrderRules, PlaceRules, Policy
from rota.core.facts.states import JobState, QueueState
from rota.core.facts.tenant import Queue
from rota.scheduling.api import Start
from rota.scheduling.place.node_room import Room
from rota.scheduling.scheduler import Scheduler
from rota.testing.scene import OPERATOR, Scene
from tests.property.wishes import CARD_MIB, arrays, resources, wishes

#: In order of submission, on the first node that has room; what does not fit is skipped.
PLAIN = Policy(
    order=OrderRules(primary="fifo", secondary="fifo"),
    backfill=BackfillRules(kind=Backfill.NONE),
    place=PlaceRules(strategy="first-fit", cpu_jobs_on_gpu_nodes=Mixing.ALLOW),
)

submissions = st.lists(
    st.tuples(resources, wishes, st.one_of(st.just(""), arrays)), min_size=1, max_size=12
)


def place(requests, rooms):
    """Room for every task, or the dimension that is short. All or nothing.

    First fit in node order. What is taken stays taken in ``rooms``; on failure it is given back.
    """
    taken = []
    for request in requests:
        short = "nodes"
        for room in rooms:
            short = room.shortage(request)
            if not short:
                allocation = room.choose(request)
                room.take(allocation)
                taken.append((room, allocation))
                break
        else:
            for room, allocation in reversed(taken):
                room.give_back(allocation)
            return short
    return [allocation for _, allocation in taken]


def plain_pass(cluster: Cluster) -> list[Start]:
    """Every ready job by itself, in order: no lanes, no memory of earlier passes."""
    nodes = sorted(cluster.nodes.values(), key=lambda node: node.name)
    rooms = [Room.now(node) for node in nodes if node.takes_work]
    used = {cap: len(ids) for cap, ids in cluster.census.active_in.items()}
    starts = []
    for _, job, array, spec in sorted(ready(cluster), key=lambda one: one[:2]):
        limits = caps(cluster, spec, array or family(cluster, job))
        if any(used.get(cap, 0) >= limit for cap, limit in limits.items()):
            continue
        if cluster.queues[spec.queue].state is QueueState.PAUSED:
            continue
        allocations = place(shape_of(spec).requests, rooms)
        if not isinstance(allocations, str):
            starts.append(Start(job, tuple(allocations), array))
            for cap in limits:
                used[cap] = used.get(cap, 0) + 1
    return starts


def ready(cluster: Cluster) -> list[tuple[int, int, int, JobSpec]]:
    jobs = [job for job in cluster.jobs.values() if job.state is JobState.QUEUED]
    found = [(job.spec, job.id, 0) for job in jobs if job.eligible_s]
    for array in cluster.arrays.values():
        if array.eligible_s and not array.held:
            ids = [array.element_id(p) for p in array.pending().walk()]
            found += [(array.spec, job, array.id) for job in ids]
    return [(-cluster.queues[spec.queue].priority, job, array, spec) for spec, job, array in found]


def family(cluster: Cluster, job: int) -> int:
    return cluster.jobs[job].array_id


def caps(cluster: Cluster, spec: JobSpec, array: int) -> dict[Any, int]:
    limits = {("queue", spec.queue): cluster.queues[spec.queue].max_running}
    if spec.group:
        limits["group", spec.group] = cluster.groups[spec.group].max_concurrent
    if array:
        limits["array", array] = cluster.arrays[array].cap
    return {cap: limit for cap, limit in limits.items() if limit}


@settings(max_examples=150)
@given(
    early=submissions,
    late=submissions,
    side=st.builds(
        Queue,
        name=st.just("side"),
        priority=st.sampled_from([40, 50, 60]),
        max_running=st.integers(0, 3),
        state=st.sampled_from([QueueState.ACTIVE, QueueState.ACTIVE, QueueState.PAUSED]),
    ),
    touched=st.lists(st.integers(1, 40), max_size=6),
)
def test_a_pass_starts_what_a_walk_over_every_waiting_job_would_start(early, late, side, touched):
    scene = Scene(nodes=0)
    cards = tuple(
        Device(index=i, uuid=f"card{i}", memory_mib=CARD_MIB, numa=i // 2) for i in range(3)
    )
    scene.add_node(NodeSpec("big", 6000, 128, cpus=tuple(range(6))))
    scene.add_node(NodeSpec("gpu", 3000, 64, cpus=tuple(range(3)), devices=cards))
    scene.ask(cmd.SetQueue(actor=OPERATOR, queue=side))
    submit_all(scene, early)
    for node in ("big", "gpu"):
        scene.ask(cmd.DrainNode(actor=OPERATOR, node=node, drained=True))
    submit_all(scene, late)
    scene.hold(*touched)
    scene.release(*touched)
    for uid in sorted(scene.alive)[::2]:
        job, task = scene.cluster.live.where[uid]
        scene.finish(job, task=task)

    cluster = recover(scene.store.load())
    cluster.policy = PLAIN
    for node in cluster.nodes.values():
        node.drained = False

    plan = Scheduler(cluster).run(scene.now_s, limit=1000)

    assert plan.starts == plain_pass(cluster)


def submit_all(scene: Scene, asked: list[tuple[dict[str, Any], dict[str, Any], str]]) -> None:
    for needs, more, array in asked:
        with suppress(Rejected):
            scene.submit(array=array, **needs, **more)


places = st.tuples(st.integers(-3, 0), st.integers(1, 12))


@given(steps=st.lists(st.tuples(st.booleans(), places), max_size=80), slack=st.integers(0, 6))
def test_a_lane_is_walked_in_order_whatever_was_added_and_removed(steps, slack):
    lane = lanes.Lane(lanes.key_with(1, JobSpec(name="job", user="alice")), 1)
    members: dict[int, tuple[int, int]] = {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lanes, "SLACK", slack)
        for adds, place_ in steps:
            if adds:
                lane.add(place_)
                members[place_[1]] = place_
            else:
                lane.remove(place_[1])
                members.pop(place_[1], None)

            assert list(lane.walk()) == sorted(members.values())
            assert len(lane) == len(members)
