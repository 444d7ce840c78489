"""A large made-up site: nodes of six kinds and a queue of two hundred shapes, from one seed."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, TypedDict, Unpack

from rota.core.changes import events as ev
from rota.core.changes.apply import apply
from rota.core.cluster import Cluster
from rota.core.facts.job import JobSpec, Role
from rota.core.facts.node import Device, NodeSpec
from rota.core.facts.resources import Request

if TYPE_CHECKING:
    from rota.core.facts.policy import Policy

GIB = 1024

#: (share of the fleet, CPUs, memory GiB, disk GiB, devices, model, memory of each GiB)
KINDS = (
    (0.35, 64, 256, 1024, 0, "", 0),
    (0.20, 128, 512, 2048, 0, "", 0),
    (0.15, 64, 512, 2048, 4, "A100", 40),
    (0.15, 192, 2048, 8192, 8, "H100", 80),
    (0.10, 96, 768, 4096, 8, "L40S", 48),
    (0.05, 128, 1024, 4096, 8, "A100", 80),
)
LIMITS_S = (600, 1800, 3600, 7200, 14400, 28800, 43200, 86400)
USERS = 20
SHAPES = 200


class More(TypedDict, total=False):
    """What all jobs say, instead of what chance says."""

    priority: int
    preemptible: bool


def nodes(count: int, seed: int = 7) -> list[NodeSpec]:
    """The fleet: kinds are mixed by chance, names say nothing about them."""
    chance = Random(seed)
    weights = [kind[0] for kind in KINDS]
    found = []
    for number in range(count):
        _, cpus, memory, disk, gpus, model, gpu_gib = chance.choices(KINDS, weights)[0]
        devices = tuple(
            Device(
                index=index,
                uuid=f"n{number}-{index}",
                model=model,
                memory_mib=gpu_gib * GIB,
                numa=index * 2 // gpus,
            )
            for index in range(gpus)
        )
        half = cpus // 2
        found.append(
            NodeSpec(
                name=f"n{number:05}",
                cpu_milli=cpus * 1000,
                memory_mib=memory * GIB,
                disk_mib=disk * GIB,
                cpus=tuple(range(cpus)),
                devices=devices,
                numa_cpus=(tuple(range(half)), tuple(range(half, cpus))),
                labels={"rack": f"r{number // 40}"} if count < 400 else {},
            )
        )
    return found


def shapes(seed: int = 11) -> list[tuple[Request, int, int]]:
    """(request, tasks, time limit): a fifth are gangs, three tenths share their devices."""
    chance = Random(seed)
    found: dict[tuple[Request, int, int], None] = {}
    while len(found) < SHAPES:
        share = len(found) / SHAPES
        disk = chance.choice((0, 0, 20, 50, 100)) * GIB
        limit_s = chance.choice(LIMITS_S)
        if share < 0.3:
            request = Request(
                chance.choice((1, 2, 4)) * 1000,
                chance.choice((4, 8, 16)) * GIB,
                disk,
                "gpu",
                1,
                "",
                chance.choice((4, 6, 8, 10, 12, 16, 20)) * GIB,
                True,
            )
        elif share < 0.65:
            gpus = chance.choice((1, 1, 1, 2, 2, 4, 8))
            request = Request(
                gpus * chance.choice((4, 6, 8, 12)) * 1000,
                gpus * chance.choice((16, 32, 48, 64)) * GIB,
                disk,
                "gpu",
                gpus,
                chance.choice(("", "", "A100", "H100")),
            )
        else:
            cpus = chance.choice((1, 2, 4, 8, 16, 24, 32, 48))
            memory = cpus * chance.choice((1, 2, 3, 4, 6)) * GIB
            request = Request(cpus * 1000, memory, disk)
        tasks = chance.choice((2, 2, 4, 4, 8, 16)) if len(found) % 5 == 0 else 1
        found[request, tasks, limit_s] = None
    return list(found)


def site(
    node_count: int,
    job_count: int,
    policy: Policy | None = None,
    seed: int = 3,
    **more: Unpack[More],
) -> Cluster:
    """A Cluster with all its nodes up and all its jobs waiting; all jobs may be told ``more``."""
    cluster = Cluster("bench")
    if policy is not None:
        apply(cluster, ev.PolicySet(policy=policy), 0.0)
    for spec in nodes(node_count):
        apply(cluster, ev.NodeRegistered(spec=spec, incarnation="i", boot_id="b"), 0.0)
    submit(cluster, job_count, 1000.0, seed, **more)
    return cluster


def submit(
    cluster: Cluster, job_count: int, now_s: float, seed: int = 3, **more: Unpack[More]
) -> None:
    """Jobs come in one after the other, shapes and users by chance."""
    chance = Random(seed)
    kinds = shapes()
    first = max(cluster.jobs, default=0) + 1
    popular = [1.0 / (rank + 1) ** 0.7 for rank in range(len(kinds))]
    chance.shuffle(popular)
    for number, (request, tasks, limit_s) in enumerate(chance.choices(kinds, popular, k=job_count)):
        user, priority = f"u{chance.randrange(USERS)}", chance.choice((25, 50, 50, 50, 75))
        spec = JobSpec(
            name="job",
            user=user,
            command=("true",),
            roles=(Role(count=tasks, request=request),),
            time_limit_s=limit_s,
            priority=more.get("priority", priority),
            preemptible=more.get("preemptible", False),
        )
        job = first + number
        event = ev.JobSubmitted(job=job, uid=f"u{job}", spec=spec, eligible=True)
        apply(cluster, event, now_s + number * 0.01)
