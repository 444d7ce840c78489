"""The world of a job: its members by rank, the nodes they are on, and where they meet.

Ranks are counted through without gaps, also where an elastic job lacks some of its tasks. The
first member's node is where all of them meet; that member holds the port.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rota.core.facts.states import Cause
from rota.hostlist import compress

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rota.core.cluster import Cluster
    from rota.core.facts.job import Attempt, Job, Role
    from rota.core.facts.policy import Policy

#: For nodes that did not say where they are: all their tasks meet on one machine then.
LOOPBACK = "127.0.0.1"


class WorldMember(NamedTuple):
    """One task of the world, and where it stands in it."""

    task: int
    rank: int
    node: str
    node_rank: int
    local_rank: int


class GangWorld(NamedTuple):
    """Who takes part.

    What is the same for many members is worked out once: there may be thousands of them.
    """

    members: dict[int, WorldMember]
    #: In the order of their ranks, and the ranks on each of them.
    nodes: dict[str, list[int]]
    #: CPUs that the job holds on each node.
    cpus: list[int]
    #: The names of the nodes in short.
    nodelist: str
    address: str
    port: int
    #: For the members' files; empty when they can rely on it that nothing changes.
    told: bytes = b""


def world_of(cluster: Cluster, job: Job) -> GangWorld:
    """The world as it is now: without those that were asked to leave it."""
    members: dict[int, WorldMember] = {}
    nodes: dict[str, list[int]] = {}
    milli: dict[str, int] = {}
    order: dict[str, int] = {}
    placed = _members(job)
    for rank, (task, attempt) in enumerate(placed):
        node = attempt.allocation.node
        here = nodes.setdefault(node, [])
        members[task] = WorldMember(task, rank, node, order.setdefault(node, len(order)), len(here))
        here.append(rank)
        milli[node] = milli.get(node, 0) + attempt.allocation.cpu_milli
    first = placed[0][1] if placed else None
    home = cluster.nodes.get(first.allocation.node) if first is not None else None
    world = GangWorld(
        members,
        nodes,
        # A task that holds a part of a CPU is told of a whole one.
        [max(1, held // 1000) for held in milli.values()],
        compress(nodes),
        (home.spec.address if home is not None else "") or LOOPBACK,
        first.port if first is not None else 0,
    )
    return world._replace(told=_encode(world, job)) if cluster.may_grow(job.spec) else world


def _members(job: Job) -> list[tuple[int, Attempt]]:
    """The attempts of this round by task, without those that an elastic job gave up."""
    number = max((a.number for a in job.round), default=0)
    latest = [(task.index, task.attempts[-1]) for task in job.tasks if task.attempts]
    return [
        (task, attempt)
        for task, attempt in latest
        if attempt.number == number and Cause.SHRUNK not in (attempt.cause, attempt.stop_cause)
    ]


def _version(job: Job) -> int:
    """How often somebody joined or left in this round, beyond the first one."""
    number = max((a.number for a in job.round), default=0)
    mine = [a for task in job.tasks for a in task.attempts if a.number == number]
    left = sum(Cause.SHRUNK in (attempt.cause, attempt.stop_cause) for attempt in mine)
    return len(mine) + left


def _encode(world: GangWorld, job: Job) -> bytes:
    """What a member reads when it was told that the world has changed.

    ``version`` grows with each change within one round.
    """
    body = {
        "version": _version(job),
        "world_size": len(world.members),
        "nodes": list(world.nodes),
        "master_addr": world.address,
        "master_port": world.port,
        "members": [
            {
                "task": member.task,
                "rank": member.rank,
                "node": member.node,
                "node_rank": member.node_rank,
                "local_rank": member.local_rank,
                "local_world_size": len(world.nodes[member.node]),
            }
            for member in world.members.values()
        ],
    }
    return msgspec.json.encode(body) + b"\n"


def role_of(job: Job, task: int) -> tuple[Role, int]:
    """The role of a task, and which one of that role it is."""
    index = task
    for role in job.spec.roles:
        if index < role.count:
            return role, index
        index -= role.count
    return job.spec.roles[-1], index


def per_node(counts: Iterable[int]) -> str:
    """As Slurm writes it: ``2(x3),1``."""
    parts = []
    for count, same in groupby(counts):
        times = len(list(same))
        parts.append(f"{count}(x{times})" if times > 1 else str(count))
    return ",".join(parts)


def choose_port(policy: Policy, wish: int, taken: Collection[int]) -> int:
    """A port for a gang to meet at: the wished one, or the next that no other gang has there."""
    for step in range(policy.port_count):
        port = policy.port_first + (wish + step) % policy.port_count
        if port not in taken:
            return port
    return 0


def ports_on(cluster: Cluster, node: str) -> set[int]:
    """The ports that live attempts on a node hold."""
    held = set()
    for uid in cluster.nodes[node].live:
        job_id, task = cluster.live.where[uid]
        held.add(cluster.jobs[job_id].tasks[task].attempts[-1].port)
    return held
