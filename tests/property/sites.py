"""Random sites and queues: small ones, so that jobs get in each other's way all the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
from hypothesis import strategies as st

from rota.core.facts.features import Feature
from rota.core.facts.job import JobSpec, Role, ServiceClass
from rota.core.facts.node import Device, Machine, NodeSpec
from rota.core.facts.placing import Affinity, Operator, Placement, Selector, Taint, Toleration
from rota.core.facts.policy import (
    Backfill,
    BackfillRules,
    OrderRules,
    PlaceRules,
    Policy,
    PreemptMode,
    PreemptRules,
)
from rota.core.facts.resources import Request
from rota.testing.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Sequence

CARD_MIB = 1000
MEMORY_MIB = 64
DISK_MIB = 20
STRATEGIES = ("score", "first-fit", "best-fit", "spread", "fgd", "dotprod", "gpu-packing")


#: How many starts a host allows in one pass: a deep queue is spread over several ticks.
hosts = st.sampled_from([1, 2, 5, 256])


class Submission(NamedTuple):
    """A job, when it comes and how long it really runs."""

    spec: JobSpec
    at_s: float = 0.0
    runs_s: float = 0.0


def _node(
    number: int, cpus: int, cards: tuple[str, ...], rack: str, labels: str, taints: bool, pins: bool
) -> NodeSpec:
    devices = tuple(
        Device(
            index=index,
            uuid=f"n{number}-{index}",
            model=model,
            memory_mib=CARD_MIB if model == "A100" else CARD_MIB // 2,
            numa=index % 2,
        )
        for index, model in enumerate(cards)
    )
    known = {"rack": rack} if rack else {}
    if labels:
        known["zone"] = labels
    return NodeSpec(
        f"n{number}",
        cpus * 1000,
        MEMORY_MIB,
        DISK_MIB,
        cpus=tuple(range(cpus)) if pins else (),
        devices=devices,
        labels=known,
        taints=(Taint("special"),) if taints else (),
    )


cards = st.one_of(
    st.just(()),
    st.integers(1, 3).map(lambda count: ("A100",) * count),
    st.sampled_from([("A100", "L4"), ("L4", "L4"), ("A100", "L4", "A100")]),
)


@st.composite
def nodes(
    draw: st.DrawFn, least: int = 2, most: int = 5, *, plain: bool = False
) -> tuple[NodeSpec, ...]:
    """``plain``: nothing but CPUs, memory and equal cards."""
    found = []
    for number in range(draw(st.integers(least, most))):
        kind = draw(st.integers(2, 6))
        few = draw(cards)
        if plain:
            found.append(_node(number, kind, ("A100",) * len(few), "", "", False, True))
            continue
        rack = draw(st.sampled_from(("r1", "r1", "r2", "")))
        zone = draw(st.sampled_from(("", "a", "b")))
        special, pins = draw(st.integers(0, 4)) == 0, draw(st.booleans())
        node = _node(number, kind, few, rack, zone, special, pins)
        is_pool, early = draw(st.integers(0, 5)) == 0, draw(st.integers(0, 2))
        found.append(_pool(node, early) if is_pool else node)
    return tuple(found)


def _pool(node: NodeSpec, early: int) -> NodeSpec:
    """The same as two machines of an engine that chooses between them."""
    cut = -(-len(node.devices) // 2)
    half = Machine(
        max(1000, node.cpu_milli // 2), MEMORY_MIB // 2, DISK_MIB // 2, node.devices[:cut], 2
    )
    able = tuple(feature for feature in Feature if feature not in (Feature.IMAGES_ONLY, "shares"))
    engine = {"engine": "lab", "pool": True, "inside_max": 2, "early": early}
    return msgspec.structs.replace(node, cpus=(), features=able, largest=half, **engine)


plain_requests = st.builds(
    Request,
    cpu_milli=st.sampled_from([500, 1000, 1000, 2000, 4000]),
    memory_mib=st.sampled_from([0, 0, 8, 16, 40]),
    disk_mib=st.sampled_from([0, 0, 5, 15]),
)
card_requests = st.builds(
    Request,
    cpu_milli=st.sampled_from([0, 500, 1000]),
    device=st.just("gpu"),
    device_count=st.sampled_from([1, 1, 2]),
    device_type=st.sampled_from(["", "", "A100", "L4"]),
    device_memory_mib=st.sampled_from([0, 0, 600]),
)
shared_requests = st.one_of(
    st.builds(
        Request,
        cpu_milli=st.sampled_from([0, 500]),
        device=st.just("gpu"),
        device_count=st.sampled_from([1, 1, 2]),
        device_memory_mib=st.sampled_from([100, 300, 450, 700]),
        shared=st.just(True),
    ),
    st.builds(
        Request,
        cpu_milli=st.sampled_from([0, 500]),
        device=st.just("gpu"),
        device_count=st.sampled_from([1, 1, 2]),
        device_type=st.sampled_from(["", "A100"]),
        device_milli=st.sampled_from([100, 333, 500, 1000]),
        shared=st.just(True),
    ),
)
requests = st.one_of(plain_requests, plain_requests, card_requests, shared_requests)

selectors = st.sampled_from(
    [
        Selector("zone", Operator.EQ, ("a",)),
        Selector("zone", Operator.NE, ("a",)),
        Selector("zone", Operator.EXISTS),
        Selector("zone", Operator.IN, ("a", "b"), weight=10),
    ]
)
affinities = st.sampled_from(
    [
        Affinity("app", "web"),
        Affinity("app", "web", apart=True),
        Affinity("app", apart=True, topology="rack"),
        Affinity("app", "db", topology="rack"),
        Affinity("app", "web", weight=5),
    ]
)
tolerations = st.sampled_from([(), (Toleration("special"),), (Toleration("*"),)])
#: One wish or two at a time: who has many finds no node in so small a site.
placements = st.one_of(
    st.just(Placement()),
    st.just(Placement()),
    st.builds(Placement, tolerations=tolerations, selectors=st.tuples(selectors)),
    st.builds(Placement, affinities=st.tuples(affinities)),
    st.builds(Placement, nodes=st.sampled_from([("n0",), ("n0", "n1")])),
    st.builds(Placement, tolerations=tolerations, exclude=st.just(("n0",))),
    st.builds(Placement, node_count=st.integers(1, 2), exclusive=st.booleans()),
    st.builds(Placement, topology=st.just("rack"), node_count=st.sampled_from([0, 0, 2])),
    st.builds(Placement, tolerations=tolerations, exclusive=st.just(True)),
)


@st.composite
def roles(draw: st.DrawFn, most: int = 2, *, elastic: bool = True) -> tuple[Role, ...]:
    found = []
    for number in range(draw(st.sampled_from([1, 1, 1, most]))):
        count = draw(st.sampled_from([1, 1, 1, 2, 3, 5]))
        least = draw(st.sampled_from([0, 0, 1, 2])) if elastic else 0
        found.append(
            Role(
                name=f"role{number}",
                count=count,
                min_count=least if least < count else 0,
                request=draw(requests),
            )
        )
    return tuple(found)


@st.composite
def specs(draw: st.DrawFn, *, limits: bool = True, plain: bool = False) -> JobSpec:
    """A job of any kind; with ``limits`` each one has a time limit."""
    limit_s = draw(st.integers(1, 6)) * 10 if limits else draw(st.sampled_from([0, 10, 30]))
    placement = Placement() if plain else draw(placements)
    service = draw(st.sampled_from([*ServiceClass, ServiceClass.BURSTABLE]))
    return JobSpec(
        name="job",
        user=draw(st.sampled_from(["alice", "bob", "carol"])),
        project=draw(st.sampled_from(["", "vision"])),
        command=("true",),
        roles=draw(roles()),
        priority=draw(st.sampled_from([10, 50, 90])),
        labels=draw(st.sampled_from([{}, {"app": "web"}, {"app": "db"}])),
        placement=placement,
        service=ServiceClass.BURSTABLE if plain else service,
        time_limit_s=limit_s,
        grace_s=draw(st.sampled_from([0, 5])),
        preemptible=draw(st.booleans()),
    )


@st.composite
def gang_specs(draw: st.DrawFn) -> JobSpec:
    """Several equal tasks with a word on how they lie."""
    count = draw(st.integers(2, 7))
    least = draw(st.sampled_from([0, 0, 1, 2]))
    placement = Placement(
        node_count=draw(st.sampled_from([0, 1, 2, 3])),
        topology=draw(st.sampled_from(["", "", "rack"])),
        exclusive=draw(st.sampled_from([False, False, True])),
        tolerations=draw(tolerations),
    )
    return JobSpec(
        name="gang",
        user="alice",
        command=("true",),
        roles=(Role(count=count, min_count=min(least, count - 1), request=draw(requests)),),
        placement=placement,
        time_limit_s=draw(st.integers(1, 6)) * 10,
    )


@st.composite
def simple_specs(draw: st.DrawFn, widest: int = 3) -> JobSpec:
    """Whole nodes, CPUs or cards with a limit: for properties about time rather than place."""
    request = draw(
        st.one_of(
            st.builds(Request, cpu_milli=st.integers(1, 4).map(lambda n: n * 1000)),
            st.builds(
                Request, cpu_milli=st.just(500), device=st.just("gpu"), device_count=st.just(1)
            ),
            st.builds(
                Request,
                cpu_milli=st.just(0),
                device=st.just("gpu"),
                device_count=st.just(1),
                device_memory_mib=st.sampled_from([300, 600]),
                shared=st.just(True),
            ),
        )
    )
    count = draw(st.sampled_from([1, 1, 1, 2, widest]))
    return JobSpec(
        name="job",
        user=draw(st.sampled_from(["alice", "bob"])),
        command=("true",),
        roles=(Role(count=count, request=request),),
        time_limit_s=draw(st.integers(1, 12)) * 10,
    )


@st.composite
def submissions(
    draw: st.DrawFn, one: st.SearchStrategy[JobSpec], most: int = 14, spread_s: int = 100
) -> tuple[Submission, ...]:
    """Jobs that come over some time, and end at or before their limits."""
    found = []
    for _ in range(draw(st.integers(1, most))):
        spec = draw(one)
        share = draw(st.sampled_from([1.0, 1.0, 0.7, 0.25]))
        at_s = float(draw(st.sampled_from([0, 0, 0, 7, 13, 20, 35, 50, spread_s])))
        found.append(Submission(spec, at_s, share * (spec.time_limit_s or 30)))
    return tuple(sorted(found, key=lambda submission: submission.at_s))


def policies(**fixed: object) -> st.SearchStrategy[Policy]:
    """Any rules of order, backfill, placement and preemption."""
    parts: dict[str, st.SearchStrategy[object]] = {
        "order": st.builds(
            OrderRules,
            primary=st.sampled_from(["priority", "fifo", "fairshare", "sjf", "multifactor"]),
            secondary=st.sampled_from(["fairshare", "fifo"]),
            strict=st.sampled_from([False, False, True]),
        ),
        "backfill": st.builds(
            BackfillRules,
            kind=st.sampled_from(list(Backfill)),
            depth=st.sampled_from([0, 0, 2]),
            delay_max_s=st.just(30),
        ),
        "place": st.builds(
            PlaceRules,
            strategy=st.sampled_from(STRATEGIES),
            overcommit_cpu=st.sampled_from([1.0, 1.0, 1.5]),
            overcommit_memory=st.sampled_from([1.0, 1.0, 1.25]),
            devices=st.sampled_from(["numa", "sequential", "random"]),
        ),
        "preempt": st.builds(
            PreemptRules,
            enabled=st.sampled_from([True, True, False]),
            mode=st.sampled_from(list(PreemptMode)),
            gap=st.sampled_from([0, 100]),
            min_runtime_s=st.sampled_from([0, 15]),
            only_willing=st.booleans(),
        ),
    }
    known = {name: st.just(value) for name, value in fixed.items()}
    return st.builds(Policy, **(parts | known))


def hosted(nodes: Sequence[NodeSpec], policy: Policy, starts: int) -> Stage:
    """A stage under one of the ``hosts``."""
    return Stage(nodes, policy, starts_per_pass=starts)


def without_neighbours(spec: JobSpec) -> JobSpec:
    """The same job with no word about others: whom it waits for may never come."""
    placement = msgspec.structs.replace(spec.placement, affinities=())
    return msgspec.structs.replace(spec, placement=placement)


def backfilling(kind: Backfill, **more: object) -> Policy:
    """In order of submission, with this kind of backfill."""
    return Policy(
        order=OrderRules(primary="fifo", secondary="fifo"),
        backfill=BackfillRules(kind=kind, **more),
    )


def play(stage: Stage, jobs: Sequence[Submission]) -> list[int]:
    """Let them all come and go; the ids in order of submission."""
    for job in jobs:
        stage.submit_later(job.at_s, job.spec, job.runs_s)
    first = stage.cluster.ids.next
    stage.play(steps=1000)
    return list(range(first, first + len(jobs)))
