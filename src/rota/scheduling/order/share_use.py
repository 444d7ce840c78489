"""What accounts hold and have used, as a load on each resource: 1 is all that there is."""

from __future__ import annotations

from math import fsum, log
from typing import TYPE_CHECKING

from rota.core.derived.usage import Spent
from rota.core.facts.resources import NOTHING, Amount

if TYPE_CHECKING:
    from collections.abc import Collection

    from rota.core.cluster import Cluster
    from rota.core.derived.usage import Usage
    from rota.core.facts.policy import ShareRules
    from rota.scheduling.order.share_tree import Account


class ShareUse:
    """Made once per pass that asks for shares; accounts are added up when they are asked for."""

    def __init__(
        self, cluster: Cluster, now_s: float, total: Amount | None, projects: Collection[str]
    ) -> None:
        self._cluster = cluster
        self._now_s = now_s
        self._rules = cluster.policy.share
        #: The names that an account holds things under, and its records.
        self._names: dict[Account, list[str]] = {}
        self._records: dict[Account, list[Usage]] = {}
        holders = (str(name) for kind, name in cluster.accounts.holdings.of if kind == "account")
        ready = (str(name) for kind, name in cluster.accounts.waiting.of if kind == "ready")
        for name in dict.fromkeys([*holders, *ready]):
            user, _, project = name.partition("\n")
            account = (project if project in projects else "", user)
            self._names.setdefault(account, []).append(name)
        for usage in cluster.accounts.usage.values():
            account = (usage.project if usage.project in projects else "", usage.user)
            self._records.setdefault(account, []).append(usage)
        self.active: dict[Account, None] = dict.fromkeys(self._names)
        self.known: dict[Account, None] = dict.fromkeys([*self._names, *self._records])
        self._sums: dict[Account, tuple[Amount, Spent]] = {}
        #: What a unit held, and a unit-second used, adds to the load: per resource.
        self._of_live, self._of_past = weights(self._rules, total or capacity(cluster))

    def load_of(self, held: Amount) -> list[float]:
        """What holding this adds."""
        cpu, memory, device = self._of_live
        return [cpu * held.cpu_milli, memory * held.memory_mib, device * held.device_milli]

    def load_of_all(self, accounts: list[Account]) -> list[float]:
        """What these accounts hold and have used."""
        sums = [self._sums.get(account) or self._sum_up(account) for account in accounts]
        live = NOTHING
        for held, _ in sums:
            if held is not NOTHING:
                live = live.plus(held)
        past = _sum_of([used for _, used in sums])
        used = (past.cpu_s, past.memory_gib_s, past.device_s)
        return [
            now + weight * spent
            for now, weight, spent in zip(self.load_of(live), self._of_past, used, strict=True)
        ]

    def with_provider(self, load: list[float], project: str, leaves: list[Account]) -> list[float]:
        """The load of a project, with its past as its provider's accounting has it."""
        outer = self._cluster.accounts.outer.get(project)
        if self._rules.source != "provider" or outer is None or outer.load is None:
            return load
        held = NOTHING
        for leaf in leaves:
            held = held.plus((self._sums.get(leaf) or self._sum_up(leaf))[0])
        rules = self._rules
        both = rules.live_weight + rules.past_weight
        part = rules.past_weight / both * outer.load if both else 0.0
        each = (rules.weight_cpu, rules.weight_memory, rules.weight_device)
        return [now + part * weight for now, weight in zip(self.load_of(held), each, strict=True)]

    def _sum_up(self, account: Account) -> tuple[Amount, Spent]:
        live, spent = NOTHING, []
        holdings, running = self._cluster.accounts.holdings, self._cluster.accounts.running.of
        for name in self._names.get(account, ()):
            counter = ("account", name)
            if counter in holdings.of:
                live = live.plus(holdings.used(counter))
            if counter in running:
                spent.append(self._running(name))
        spent += [self._remembered(usage) for usage in self._records.get(account, ())]
        found = self._sums[account] = (live, _sum_of(spent))
        return found

    def _running(self, account: str) -> Spent:
        running, rules, now_s = self._cluster.accounts.running, self._rules, self._now_s
        if rules.memory == "window":
            return running.since(("account", account), now_s, now_s - rules.window_s)
        return running.decayed(("account", account), now_s, rules.half_life_s)

    def _remembered(self, usage: Usage) -> Spent:
        if self._rules.memory == "window":
            return usage.since(self._now_s - self._rules.window_s)
        return usage.recent_at(self._now_s, self._rules.half_life_s)


_Weights = tuple[float, float, float]


def weights(rules: ShareRules, total: Amount) -> tuple[_Weights, _Weights]:
    """What a unit that is held adds to the load, and a unit-second that was used."""
    if rules.form == "simple":
        gpu = float(total.device_milli > 0)
        live, past = rules.live_weight / 1000, rules.past_weight / 3600
        return (live * (1 - gpu), 0.0, live * gpu), (past * (1 - gpu), 0.0, past * gpu)
    both = rules.live_weight + rules.past_weight
    memory_s = remembered_s(rules)
    have = (total.cpu_milli / 1000, total.memory_mib / 1024, total.device_milli / 1000)
    all_weights = (rules.weight_cpu, rules.weight_memory, rules.weight_device)
    each = [w / (h * both) if h and both else 0.0 for w, h in zip(all_weights, have, strict=True)]
    cpu, memory, device = (rules.live_weight * unit for unit in each)
    of_live = (cpu / 1000, memory / 1024, device / 1000)
    cpu, memory, device = (rules.past_weight * unit / memory_s for unit in each)
    return of_live, (cpu, memory, device)


def _sum_of(spent: list[Spent]) -> Spent:
    """Exactly rounded, so that the order of records does not matter."""
    if len(spent) == 1:
        return spent[0]
    return Spent(
        fsum(each.cpu_s for each in spent),
        fsum(each.memory_gib_s for each in spent),
        fsum(each.device_s for each in spent),
    )


def remembered_s(rules: ShareRules) -> float:
    """How many seconds of use are remembered of an account that has always used all of it."""
    if rules.memory == "window" or rules.half_life_s <= 0:
        return float(max(rules.window_s, 1))
    return rules.half_life_s / log(2.0)


def capacity(cluster: Cluster) -> Amount:
    """Everything that the nodes on record have, up or not: a reboot changes nobody's share."""
    cpu = memory = disk = devices = 0
    for node in cluster.nodes.values():
        spec = node.spec
        cpu += spec.cpu_milli
        memory += spec.memory_mib
        disk += spec.disk_mib
        devices += len(spec.devices)
    return Amount(cpu, memory, disk, devices * 1000)
