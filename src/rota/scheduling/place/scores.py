"""How good a node is for a task, as a whole number: the higher, the better.

A score is a sum of named terms, each worth its weight in points of ``UNIT``: with the usual
weights of 30, 20, 20, 20 and 10 the best node has 1,000,000. The terms that depend on a node's
class (affinity, locality, cost) are added up once per class by ``class_score``; those that depend
on what is left (fit, load) are the business of a *strategy*. The fit is how little is stranded of
a node's devices (``stranding.py``), or how full a node without devices gets. The load counts only
where jobs are to be spread; elsewhere all nodes have all of its points. Whole numbers only: the
same inputs give the same score on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING

from rota.core.facts.placing import TaintEffect, cluster_of
from rota.core.facts.policy import Mixing
from rota.core.facts.site.clusters import Choice
from rota.core.facts.site.models import is_variant
from rota.core.facts.site.prices import hourly
from rota.scheduling.place.free import SMALLEST, UNIT, ease
from rota.scheduling.place.gradient import Gradient
from rota.scheduling.place.packing import best_fit, dot_product, gpu_packing
from rota.scheduling.place.stranding import FINEST, Stranding

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rota.core.derived.lanes import Shape
    from rota.core.facts.node import Allocation, NodeSpec
    from rota.core.facts.placing import Taint
    from rota.core.facts.policy import Policy
    from rota.core.facts.resources import Request
    from rota.scheduling.place.filters import Case, Neighbours
    from rota.scheduling.place.free import Free, Total
    from rota.scheduling.place.packing import Rule

#: Taken off where a job should go only when there is nowhere else: more than any sum of terms.
LAST_RESORT = 1 << 32

#: A wish of this weight goes before what a site only avoids.
STRONGEST = 100

#: What the choice of a virtual data centre is worth: a thousandth of its scale outweighs all other
#: terms together, and all of it is less than a last resort.
WEIGHT_VDC = 100_000

#: The label of nodes that lists the data sets which are near, with commas between.
DATA_LABEL = "data"
#: The label of nodes that says what an hour costs, in any unit as long as it is one.
COST_LABEL = "cost"


#: (request, what is left, what there is, the class's part of the score) -> how good it is.
Strategy = Callable[["Request", "Free", "Total", int], int]


def class_score(case: Case, dearest: float = 0.0) -> int:
    """The part of the score that is the same for all nodes of a class; below 0: last resort."""
    return sum(class_terms(case, dearest).values())


def class_terms(case: Case, dearest: float = 0.0) -> dict[str, int]:
    """The same by name. ``dearest`` is what the dearest class costs."""
    shape, labels, rules = case.shape, case.labels, case.policy.place
    terms = {
        "affinity": rules.weight_affinity * affinity(shape, labels, case.taints),
        "locality": rules.weight_locality * locality(shape, labels),
        "cost": rules.weight_cost * cheapness(class_cost(case), dearest),
    }
    mixed = case.spec.devices and not case.request.device_count
    if mixed and rules.cpu_jobs_on_gpu_nodes is Mixing.AVOID and not _is_wished(shape, labels):
        terms["mixing"] = -LAST_RESORT
    return terms


def affinity(shape: Shape, labels: Mapping[str, str], taints: Iterable[Taint]) -> int:
    """The share of the soft wishes that the class fulfils, by weight; 0 where a taint says avoid.

    Wishes about neighbours count among them; ``neighbour_score`` adds those that hold.
    """
    placement = shape.placement
    for taint in taints:
        if taint.effect is TaintEffect.AVOID and not any(
            toleration.bears(taint) for toleration in placement.tolerations
        ):
            return 0
    wished = _wished(shape)
    if not wished:
        return UNIT
    # A wish with a negative weight is fulfilled where its selector is not.
    fulfilled = sum(
        abs(selector.weight)
        for selector in placement.selectors
        if selector.weight and selector.admits(labels) == (selector.weight > 0)
    )
    return UNIT * fulfilled // wished


def _is_wished(shape: Shape, labels: Mapping[str, str]) -> bool:
    """Whether the job wishes for this class as strongly as it can: more than a site avoids it."""
    selectors = shape.placement.selectors
    return any(wish.weight >= STRONGEST and wish.admits(labels) for wish in selectors)


def _wished(shape: Shape) -> int:
    placement = shape.placement
    if not (placement.selectors or placement.affinities):
        return 0
    return sum(abs(s.weight) for s in placement.selectors) + sum(
        abs(a.weight) for a in placement.affinities
    )


def neighbour_score(
    shape: Shape,
    node: str,
    labels: Mapping[str, str],
    neighbours: Neighbours,
    policy: Policy,
) -> int:
    """What the soft wishes about neighbours that hold on this node add to its score."""
    wished = _wished(shape)
    held = sum(
        abs(wish.weight)
        for wish in shape.placement.affinities
        if wish.weight and (neighbours.near(wish, node, labels) != wish.apart) == (wish.weight > 0)
    )
    return policy.place.weight_affinity * UNIT * held // wished if wished else 0


def locality(shape: Shape, labels: Mapping[str, str]) -> int:
    """The share of the job's data sets that the node has near; all of them when it names none."""
    wanted = dict.fromkeys(shape.placement.data)
    if not wanted:
        return UNIT
    near = {name.strip() for name in labels.get(DATA_LABEL, "").split(",")}
    return UNIT * sum(name in near for name in wanted) // len(wanted)


def cost_of(labels: Mapping[str, str]) -> float:
    """What the label says; nothing where there is none, or none that is a price."""
    try:
        cost = float(labels.get(COST_LABEL, "0"))
    except ValueError:
        return 0.0
    return cost if isfinite(cost) and cost > 0 else 0.0


def class_cost(case: Case) -> float:
    """What an hour of the request costs on such a node; without prices, what the label says."""
    prices = case.policy.prices
    if not prices.rates:
        return cost_of(case.labels)
    return hourly(prices, case.spec, case.labels, case.request.amount, models_for(case))


def models_for(case: Case) -> list[str]:
    """The models of the devices that the request would get there, as far as a class tells."""
    request = case.request
    fitting = [
        device.model
        for device in case.spec.devices
        if device.kind == request.device and is_variant(device.model, request.device_type)
    ]
    return fitting[: request.device_count]


def vdc_points(case: Case, dearest: float) -> int:
    """What its virtual data centre thinks of this class's cluster; 0: it looks at nodes, or none.

    More than all other terms together, so that it decides and they break ties.
    """
    vdc = case.policy.vdc(case.shape.placement.vdc) if case.shape.placement.vdc else None
    if vdc is None:
        return 0
    cluster = cluster_of(case.labels)
    match vdc.strategy:
        case Choice.WEIGHT:
            worth = {member.name: member.priority * member.weight for member in vdc.clusters}
            part = worth.get(cluster, 0.0) / (max(worth.values()) or 1.0)
        case Choice.AFFINITY:
            wished = vdc.preferred
            part = 1 - wished.index(cluster) / len(wished) if cluster in wished else 0.0
        case Choice.COST:
            part = cheapness(class_cost(case), dearest) / UNIT
        case _:
            part = 0.0
    return WEIGHT_VDC * int(UNIT * part)


def vdc_fit(case: Case) -> int:
    """What a tight fit is worth more in a virtual data centre that goes by it."""
    vdc = case.policy.vdc(case.shape.placement.vdc) if case.shape.placement.vdc else None
    return WEIGHT_VDC if vdc is not None and vdc.strategy is Choice.FIT else 0


def cheapness(cost: float, dearest: float) -> int:
    """Full where the node costs nothing, none where it costs as much as the dearest."""
    if not cost:
        return UNIT
    return UNIT - int(UNIT * min(1.0, cost / dearest)) if dearest > 0 else 0


def tightness(request: Request, free: Free, total: Total) -> int:
    """How full the node would be in the dimension that matters most to the request.

    Devices matter most to a request that wants some; a share of one counts on the fullest device
    that still has room for it. Otherwise it is the dimension that the request takes the most of.
    """
    count = request.device_count
    if count and not request.shared:
        devices = total[3] or 1
        return UNIT * (devices - free[3] + count) // devices
    if count:
        return shared_tightness(request.share_of(total[4]), free[4], total[4])
    cpu, memory = request.cpu_milli, request.memory_mib
    cpu_total, memory_total = total[0] or 1, total[1] or 1
    disk = request.disk_mib
    if disk:
        disk_total = total[2] or 1
        if disk * cpu_total > cpu * disk_total and disk * memory_total > memory * disk_total:
            return UNIT - UNIT * (free[2] - disk) // disk_total
    if memory * cpu_total > cpu * memory_total:
        return UNIT - UNIT * (free[1] - memory) // memory_total
    return UNIT - UNIT * (free[0] - cpu) // cpu_total


def shared_tightness(share: int, lefts: tuple[int, ...], size: int) -> int:
    """How full the fullest device would be that has room for a share, in MiB like the others."""
    for left in reversed(lefts):
        if left >= share:
            return UNIT - UNIT * (left - share) // (size or 1)
    return 0


def _score(policy: Policy, stranding: Stranding | None) -> Strategy:
    """The weighted sum."""
    rules = policy.place
    weight_fit, weight_load = rules.weight_fit, rules.weight_load

    def spread(request: Request, free: Free, total: Total, static: int) -> int:
        loose = UNIT - tightness(request, free, total)
        return weight_fit * loose + weight_load * ease(free, total) + static

    def score(request: Request, free: Free, total: Total, static: int) -> int:
        if stranding is None or not total.makes:
            fit = weight_fit * tightness(request, free, total)
        else:
            fit = weight_fit * UNIT * stranding.score(request, free, total) // FINEST
        return fit + weight_load * UNIT + static

    return spread if rules.spread else score


def _first_fit(request: Request, free: Free, total: Total, static: int) -> int:
    """All nodes are equal, so the first one in order is taken."""
    return 0 if static >= 0 else -LAST_RESORT


def _spread(request: Request, free: Free, total: Total, static: int) -> int:
    """The opposite: the emptiest node, so that jobs disturb each other least."""
    good = 100 * (UNIT - tightness(request, free, total)) + ease(free, total) // 101
    return good if static >= 0 else good - LAST_RESORT


def _packed(rule: Rule) -> Strategy:
    """A rule of the literature on the scale of all scores."""

    def score(request: Request, free: Free, total: Total, static: int) -> int:
        good = UNIT * rule(request, free, total)
        return good if static >= 0 else good - LAST_RESORT

    return score


#: Those whose scores are so coarse that the names of nodes decide: the first of equals is taken.
COARSE = ("best-fit", "dotprod", "gpu-packing", "fgd")

#: What knows the shapes that come: of ``score`` and of ``fgd``.
Measure = Stranding | Gradient

#: Strategies that keep room for the shapes that come, and what they measure it by.
MEASURES: Mapping[str, type[Stranding] | type[Gradient]] = MappingProxyType(
    {"score": Stranding, "fgd": Gradient}
)

#: (policy, what knows the shapes that come, the largest node) -> how to score.
Maker = Callable[["Policy", "Measure | None", "Total"], Strategy]

#: Every name that a policy may choose.
STRATEGIES: Mapping[str, Maker] = MappingProxyType(
    {
        "score": lambda policy, measure, largest: _score(
            policy, measure if isinstance(measure, Stranding) else None
        ),
        "first-fit": lambda policy, measure, largest: _first_fit,
        "spread": lambda policy, measure, largest: _spread,
        "worst-fit": lambda policy, measure, largest: _spread,
        "best-fit": lambda policy, measure, largest: _packed(best_fit(largest)),
        "dotprod": lambda policy, measure, largest: _packed(dot_product(largest)),
        "gpu-packing": lambda policy, measure, largest: _packed(gpu_packing),
        # Without shapes to keep room for it packs.
        "fgd": lambda policy, measure, largest: _packed(
            measure.score if isinstance(measure, Gradient) else best_fit(largest)
        ),
    }
)


def strategy(
    name: str, policy: Policy, measure: Measure | None = None, largest: Total = SMALLEST
) -> Strategy:
    """The strategy of this name, which is one of ``STRATEGIES``.

    ``measure`` knows the shapes that ``score`` and ``fgd`` keep room for. Others measure what is
    left against the ``largest`` node.
    """
    return STRATEGIES[name](policy, measure, largest)


def placement_score(allocations: Iterable[Allocation], specs: Mapping[str, NodeSpec]) -> int:
    """How good a placement turned out: 50 over several nodes, from 100 to 150 on one.

    One node is worth 100 and 20 more; within one NUMA domain 30 on top, in exactly two 10. Where
    nobody knows the domains, several devices earn nothing for them.
    """
    held = tuple(allocations)
    nodes = {allocation.node for allocation in held}
    if len(nodes) != 1:
        return 50 if nodes else 0
    spec = specs.get(held[0].node)
    domains = _domains(held, spec) if spec is not None else set()
    return 120 + {1: 30, 2: 10}.get(len(domains), 0)


def _domains(held: Sequence[Allocation], spec: NodeSpec) -> set[int]:
    """The NUMA domains in use; empty when some of them are not known."""
    used = {index for allocation in held for index in allocation.devices}
    if len(used) == 1:
        return {0}
    if used:
        numa = {device.numa for device in spec.devices if device.index in used}
        return set() if -1 in numa else numa
    cpus = {cpu for allocation in held for cpu in allocation.cpus}
    return {number for number, group in enumerate(spec.numa_cpus) if not cpus.isdisjoint(group)}
