"""What a job that waits will cost: the least that any node asks which suits it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rota.core.derived.holdings import amount_of
from rota.core.facts.errors import Rejected
from rota.core.facts.site.prices import HOUR_S, hourly, models_of, money
from rota.scheduling.limits.quota_rules import paid_s_of
from rota.scheduling.place.filters import Case, first_problem
from rota.scheduling.place.scores import models_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Shape
    from rota.core.facts.job import JobSpec
    from rota.core.facts.node import Allocation, NodeSpec
    from rota.core.facts.placing import Taint
    from rota.core.facts.resources import Amount, Request

#: A node that stands for others like it.
Kind = tuple["NodeSpec", "Mapping[str, str]", "tuple[Taint, ...]"]


class Tariff:
    """Prices by the hour during one pass."""

    def __init__(self, cluster: Cluster, kinds: Sequence[Kind] | None = None) -> None:
        """``kinds``: the nodes that count, each for all that are like it; None: all on record."""
        self._cluster = cluster
        self._kinds = kinds
        self._of_shape: dict[int, float] = {}

    def least(self, number: int, amount: Amount) -> float:
        """For the shape with this number; for one that has none, by the amount."""
        known = self._of_shape.get(number)
        if known is not None:
            return known
        shape = self._cluster.lanes.shapes.get(number)
        if shape is None:
            return self._plain(amount)
        price = self._of_shape[number] = self.of_shape(shape)
        return price

    def of_shape(self, shape: Shape) -> float:
        """What it starts with; 0 where no node suits it."""
        return sum(
            self._for_task(shape, role.request) * shape.least_tasks(role) for role in shape.roles
        )

    def _for_task(self, shape: Shape, request: Request) -> float:
        policy, prices = self._cluster.policy, []
        for spec, labels, taints in self._all():
            case = Case(shape, request, spec, labels, taints, policy)
            if not first_problem(case).filter:
                alone = shape.placement.exclusive
                amount = spec.kept_by(request.amount) if alone else request.amount
                models = [d.model for d in spec.devices if d.usable] if alone else models_for(case)
                prices.append(hourly(policy.prices, spec, labels, amount, models))
        return min(prices, default=0.0)

    def _plain(self, amount: Amount) -> float:
        prices = self._cluster.policy.prices
        found = [
            hourly(prices, spec, labels, amount, [device.model for device in spec.devices][:1])
            for spec, labels, _ in self._all()
            if spec.devices or not amount.device_milli
        ]
        return min(found, default=0.0)

    def _all(self) -> Sequence[Kind]:
        if self._kinds is None:
            nodes = self._cluster.nodes.values()
            self._kinds = [(node.spec, node.all_labels, node.all_taints) for node in nodes]
        return self._kinds


class Estimate(NamedTuple):
    """What a job will probably cost."""

    hourly: float
    hours: float

    @property
    def cost(self) -> float:
        return self.hourly * self.hours


def refuse_cost(cluster: Cluster, spec: JobSpec) -> None:
    """Refuse what costs more than a whole budget of its user or of a project above it."""
    accounts = cluster.accounts
    quotas = [(f"user {spec.user}", accounts.quota_of(spec.user))]
    quotas += [(f"project {n}", accounts.projects[n].quota) for n in accounts.chain(spec.project)]
    bounds = [(scope, quota.hard.cost) for scope, quota in quotas]
    bounds += [(scope, quota.soft.cost) for scope, quota in quotas if not quota.borrow]
    found = [(scope, limit) for scope, limit in bounds if limit is not None]
    if not found:
        return
    guess = estimate(cluster, spec, ())
    for scope, limit in found:
        if guess.cost > limit:
            assumed = "" if spec.time_limit_s else ", as no time limit is named"
            words = f"{money(guess.cost)} for {guess.hours:.4g} hours{assumed}"
            why = f"{words}: {scope} has {money(limit)} to spend"
            raise Rejected.because("cost", words, why)


def estimate(cluster: Cluster, spec: JobSpec, allocations: Sequence[Allocation]) -> Estimate:
    """By where it would run, if that is known; else by the cheapest nodes that suit it.

    It is taken to run up to its limit, else as long as the policy assumes.
    """
    shape = cluster.lanes.shape_of(spec)
    price = Tariff(cluster).of_shape(shape)
    if allocations:
        price, own = 0.0, set[str]()
        for held in allocations:
            node = cluster.nodes[held.node]
            models, labels = models_of(node.spec, held), node.all_labels
            if held.keeps is None or held.node not in own:
                price += hourly(cluster.policy.prices, node.spec, labels, amount_of(held), models)
            own.add(held.node)
    devices = any(role.request.device_count for role in shape.roles)
    return Estimate(price, paid_s_of(spec, cluster.policy.backfill, devices=devices) / HOUR_S)
