"""What jobs of a world ask for beyond amounts: rank, patience, company, shape and place.

Everything that is asked for can be had once the place is empty, so that each accepted job can
reach its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rota.core.facts.job import JobSpec, Role, ServiceClass
from rota.core.facts.placing import Affinity, Operator, Placement, Selector, Toleration
from rota.core.facts.policy import PreemptMode
from rota.core.facts.tenant import Access
from rota.worlds.site import PARENTS

if TYPE_CHECKING:
    from random import Random

    from rota.core.facts.resources import Request
    from rota.core.facts.tenant import Actor
    from rota.worlds.world import World

SERVICES = (*ServiceClass, *(ServiceClass.BURSTABLE,) * 3)


def richer(spec: JobSpec, actor: Actor, world: World) -> JobSpec:
    """The job with wishes of all kinds."""
    chance = world.site.chance
    top = (90,) if actor.access is Access.ADMIN else ()
    roles = _roles(chance, spec.roles[0])
    return msgspec.structs.replace(
        spec,
        project=chance.choice(("", "", *PARENTS)),
        queue=chance.choice(("default", "default", "side")),
        priority=chance.choice((5, 25, 50, 75, *top)),
        roles=roles,
        time_limit_s=chance.choice((0, 2, 4, 10, 30)),
        estimate_s=chance.choice((0, 0, 1, 5, 20)),
        deadline_s=world.now_s() + chance.choice((5.0, 60.0)) if chance.random() < 0.3 else 0.0,
        preemptible=chance.random() < 0.5,
        service=chance.choice(SERVICES),
        preempt_mode=chance.choice((None, None, None, *PreemptMode)),
        checkpoint_signal=chance.choice(("", "USR1")),
        restart_cost_s=chance.choice((0, 10)),
        type=chance.choice(("", "training", "inference")),
        labels={"team": chance.choice(("x", "y"))},
        placement=_placement(chance, roles, world),
    )


def _roles(chance: Random, first: Role) -> tuple[Role, ...]:
    """One task, a gang, an elastic gang, or a driver with workers."""
    request = _in_parts(chance, first.request)
    kind = chance.random()
    if kind < 0.5:
        return (Role(count=first.count, request=request),)
    if kind < 0.65:
        return (Role(count=chance.choice((2, 3, 4)), request=request),)
    if kind < 0.9:
        return (
            Role(count=chance.choice((3, 4)), min_count=chance.choice((1, 2)), request=request),
        )
    driver = msgspec.structs.replace(
        request, cpu_milli=500, memory_mib=0, device="", device_count=0, shared=False,
        device_memory_mib=0, device_milli=0,
    )  # fmt: skip
    # All of it fits on one node.
    worker = msgspec.structs.replace(request, cpu_milli=min(request.cpu_milli, 1000))
    return (Role(name="driver", request=driver), Role(name="worker", count=2, request=worker))


def _in_parts(chance: Random, request: Request) -> Request:
    """Half of the shared requests name thousandths of a device instead of memory."""
    if not request.shared or chance.random() < 0.5:
        return request
    milli = chance.choice((250, 500))
    return msgspec.structs.replace(request, device_memory_mib=0, device_milli=milli)


def _placement(chance: Random, roles: tuple[Role, ...], world: World) -> Placement:
    specs = [node.spec for node in world.nodes]
    count = sum(role.count for role in roles)
    alike = len({bool(spec.devices) for spec in specs}) == 1
    wishes: dict[str, Any] = {}
    if chance.random() < 0.4:
        wishes["tolerations"] = (Toleration("odd"),)
    if chance.random() < 0.1:
        wishes["exclusive"] = True
    if chance.random() < 0.2:
        wishes["affinities"] = (Affinity("team", "x", apart=chance.random() < 0.5, weight=10),)
    if alike and chance.random() < 0.4:
        wishes |= _of_one(chance, len(specs)) if count == 1 else _of_many(chance, count, len(specs))
    return Placement(**wishes)


def _of_one(chance: Random, nodes: int) -> dict[str, Any]:
    zone = chance.choice("ab" if nodes > 1 else "a")
    choices: list[dict[str, Any]] = [
        {"selectors": (Selector("zone", Operator.EQ, (zone,)),)},
        {"selectors": (Selector("speed", Operator.LT, ("1",)),)},
        {"selectors": (Selector("zone", Operator.IN, ("a", "b"), weight=5),)},
        {"nodes": ("n0",)},
        {"affinities": (Affinity("team", "y", apart=True),)},
    ]
    if nodes > 1:
        choices.append({"exclude": ("n0",)})
    return chance.choice(choices)


def _of_many(chance: Random, count: int, nodes: int) -> dict[str, Any]:
    if nodes > 1 and count == 2 and chance.random() < 0.5:
        return {"node_count": 2}
    return {"topology": "rack"}
