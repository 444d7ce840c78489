"""Fair share: who has had how much of what is his, in a tree of projects and users.

**Target.** A node of the tree is entitled to its shares over the shares of its *active* siblings,
times its parent's target. Active is who waits or holds something now. Whether somebody is active
changes all of his siblings' targets by the same factor, so nobody moves ahead of a sibling by
pretending demand. Projects on record form the tree; users are the leaves of their projects. A
project that is not on record is nobody's: its users stand at the root, with the sum of what they
use in all such projects, so that a new name for a project buys nothing.

**Use.** For each resource, what is held now over the cluster's capacity plus what was used (and
is being used) over what the cluster gives in the time that is remembered; then the largest of the
weighted resources: the dominant share. Charged by what was declared and for how long it really
ran, so two halves weigh what the whole does, and the declared time limit weighs nothing.

**Ratio.** Use over target, compared from the top of the tree down: a member of a project that
has had less comes first, and members of one project are compared by their own use. One number
says both: the ratio of the topmost project, in steps of about half a percent, and within a step
the same for the next level.
"""

from __future__ import annotations

from math import fsum, inf, log
from typing import TYPE_CHECKING, NamedTuple

from rota.core.derived.usage import Spent
from rota.core.facts.resources import NOTHING, Amount
from rota.scheduling.order.share_tree import ShareNode, nested

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.derived.usage import Usage


class ShareRow(NamedTuple):
    """How one account, or (without a user) a whole project, stands."""

    project: str
    user: str
    shares: int
    #: The part of the cluster that it is entitled to, and that it has had; both from 0 to 1.
    target: float
    used: float
    ratio: float


class FairShare:
    """Fulfils ``Shares``. Cheap to make; accounts are worked out when they are asked for."""

    def __init__(self, cluster: Cluster, now_s: float, total: Amount | None = None) -> None:
        """``total`` is everything that the nodes have, for who knows it already."""
        self._cluster = cluster
        self._now_s = now_s
        self._rules = cluster.policy.share
        self._simple = self._rules.form == "simple"
        #: The simple form knows users only.
        self._projects = {} if self._simple else cluster.accounts.projects
        self._total = total
        self._leaves: dict[tuple[str, str], ShareNode] = {}
        self._nodes: dict[tuple[str, str], ShareNode] = {}
        self._ready = False
        self._waiting: list[tuple[str, str]] | None = None

    def ratio(self, user: str, project: str) -> float:
        """Use over target, respecting the tree: 0 for nothing used, 1 for exactly the share.

        In the simple form (usage + 1) / weight, the inverse of its priority.
        """
        leaf = self._leaves.get((user, project)) or self._leaf(user, project)
        stamp = leaf.version()
        if leaf.stamp != stamp:
            leaf.stamp, leaf.kept = stamp, self._ratio(leaf)
        return leaf.kept

    def _ratio(self, leaf: ShareNode) -> float:
        if self._simple:
            return (leaf.used + 1.0) / leaf.shares if leaf.shares > 0 else inf
        combined, node = leaf.own_ratio(), leaf.parent
        while node is not None:
            combined = nested(node.own_ratio(), combined)
            node = node.parent
        return combined

    def priority(self, user: str) -> float:
        """weight / (usage + 1) of the simple form; 0 in the other one's tree."""
        return 1.0 / self.ratio(user, "") if self._simple else 0.0

    def version(self, user: str, project: str) -> int:
        return (self._leaves.get((user, project)) or self._leaf(user, project)).version()

    def worst(self, user: str, project: str) -> float:
        """The largest use over target on the way up: of the account, its project, and so on."""
        node: ShareNode | None = self._leaves.get((user, project)) or self._leaf(user, project)
        if self._simple:
            return self.ratio(user, project)
        found = 0.0
        while node is not None:
            found = max(found, node.own_ratio())
            node = node.parent
        return found

    def barred(self, user: str, project: str) -> bool:
        """Whether it is beyond the hard limit while somebody within it has jobs ready to start."""
        hard = self._rules.hard_ratio
        if hard <= 0.0 or self.worst(user, project) <= hard:
            return False
        own = self._leaf(user, project)
        if self._waiting is None:
            accounts = {(key.user, key.project): None for key in self._cluster.lanes.lanes}
            self._waiting = list(accounts)
        return any(
            self._leaf(*other) is not own and self.worst(*other) <= hard for other in self._waiting
        )

    def started(self, user: str, project: str, amount: Amount, sign: int = 1) -> None:
        """A job of this account took room in the current pass."""
        node: ShareNode | None = self._leaf(user, project)
        cpu, memory, device = self._of_live
        while node is not None:
            load = node.load
            load[0] += sign * cpu * amount.cpu_milli
            load[1] += sign * memory * amount.memory_mib
            load[2] += sign * device * amount.device_milli
            node.bumps += 1
            node = node.parent

    def undo(self, user: str, project: str, amount: Amount) -> None:
        """What ``started`` said did not come to pass, or a victim gives it back."""
        self.started(user, project, amount, -1)

    def _leaf(self, user: str, project: str) -> ShareNode:
        leaf = self._leaves.get((user, project))
        if leaf is None:
            if not self._ready:
                self._prepare()
            known = project if project in self._projects else ""
            leaf = self._leaves[user, project] = self._account(known, user)
        return leaf

    def _prepare(self) -> None:
        """Once per pass: who is active, and whose records make up which account."""
        self._ready = True
        self._weigh()
        #: (project on record or "", user) -> its holdings and records.
        self._held: dict[tuple[str, str], list[str]] = {}
        self._records: dict[tuple[str, str], list[Usage]] = {}
        cluster, projects = self._cluster, self._projects
        held, waiting = cluster.accounts.holdings.of, cluster.accounts.waiting.of
        active = dict.fromkeys(name for kind, name in held if kind == "account")
        active |= dict.fromkeys(name for kind, name in waiting if kind == "account")
        for name in active:
            user, _, project = str(name).partition("\n")
            leaf = (project if project in projects else "", user)
            self._held.setdefault(leaf, []).append(str(name))
        for usage in cluster.accounts.usage.values():
            leaf = (usage.project if usage.project in projects else "", usage.user)
            self._records.setdefault(leaf, []).append(usage)
        self._plant()
        self._count_shares()

    def _plant(self) -> None:
        """The tree downwards: projects under a project, and accounts that stand in it."""
        self._children: dict[str, list[str]] = {}
        self._parents = {name: self._parent(name) for name in self._projects}
        for name, parent in self._parents.items():
            self._children.setdefault(parent, []).append(name)
        self._members: dict[str, list[tuple[str, str]]] = {}
        for leaf in {**self._held, **self._records}:
            self._members.setdefault(leaf[0], []).append(leaf)
        self._sums_of: dict[tuple[str, str], tuple[Amount, Spent]] = {}

    def _weigh(self) -> None:
        """What a unit held, and a unit-second used, adds to the load: per resource."""
        rules = self._rules
        total = self._total or capacity(self._cluster)
        if self._simple:
            gpu = float(total.device_milli > 0)
            live, past = rules.live_weight / 1000, rules.past_weight / 3600
            self._of_live = (live * (1 - gpu), 0.0, live * gpu)
            self._of_past = (past * (1 - gpu), 0.0, past * gpu)
            return
        both = rules.live_weight + rules.past_weight
        memory_s = remembered_s(self._cluster)
        have = (total.cpu_milli / 1000, total.memory_mib / 1024, total.device_milli / 1000)
        weights = (rules.weight_cpu, rules.weight_memory, rules.weight_device)
        each = [w / (h * both) if h and both else 0.0 for w, h in zip(weights, have, strict=True)]
        cpu, memory, device = (rules.live_weight * unit for unit in each)
        self._of_live = (cpu / 1000, memory / 1024, device / 1000)
        cpu, memory, device = (rules.past_weight * unit / memory_s for unit in each)
        self._of_past = (cpu, memory, device)

    def _count_shares(self) -> None:
        """The sum of the shares of active children, by project; the root is called ""."""
        self._sums: dict[str, int] = {}
        self._active: dict[str, None] = {}
        for project, user in self._held:
            self._sums[project] = self._sums.get(project, 0) + self._shares_of(user)
            while project and project not in self._active:
                self._active[project] = None
                parent = self._parents[project]
                shares = max(self._projects[project].shares, 0)
                self._sums[parent] = self._sums.get(parent, 0) + shares
                project = parent

    def _shares_of(self, user: str) -> int:
        users = self._cluster.accounts.users
        record = users.get(user) or users.get("")
        return max(record.shares, 0) if record is not None else 1

    def _parent(self, project: str) -> str:
        """The parent if it is on record, else the root: also where parents run in a circle."""
        first, seen = self._projects[project].parent, {project}
        parent = first
        while parent in self._projects and parent not in seen:
            seen.add(parent)
            parent = self._projects[parent].parent
        return first if first in self._projects and parent not in self._projects else ""

    def _account(self, project: str, user: str) -> ShareNode:
        key = (project, user)
        node = self._nodes.get(key)
        if node is None:
            parent = self._project(project) if project else None
            node = self._make(parent, project, self._shares_of(user), key in self._held)
            self._nodes[key] = node
            self._fill(node, [key])
        return node

    def _project(self, project: str) -> ShareNode:
        key = (project, "")
        node = self._nodes.get(key)
        if node is None:
            above = self._parents[project]
            parent = self._project(above) if above else None
            shares = max(self._projects[project].shares, 0)
            node = self._make(parent, above, shares, project in self._active)
            self._nodes[key] = node
            self._fill(node, self._accounts_below(project))
        return node

    def _make(self, parent: ShareNode | None, above: str, shares: int, active: bool) -> ShareNode:
        """Who is not active and asked for counts as if he were."""
        sum_of_shares = self._sums.get(above, 0) + (0 if active else shares)
        whole = parent.target if parent is not None else 1.0
        return ShareNode(parent, shares, whole * shares / sum_of_shares if sum_of_shares else 0.0)

    def _accounts_below(self, project: str) -> list[tuple[str, str]]:
        """The accounts of a project and of all projects under it."""
        found = list(self._members.get(project, ()))
        for child in self._children.get(project, ()):
            found += self._accounts_below(child)
        return found

    def _fill(self, node: ShareNode, leaves: list[tuple[str, str]]) -> None:
        """Add up what these accounts hold and have used."""
        sums = [self._sums_of.get(leaf) or self._sum_up(leaf) for leaf in leaves]
        live = NOTHING
        for held, _ in sums:
            if held is not NOTHING:
                live = live.plus(held)
        past = _sum_of([used for _, used in sums])
        node.load = [
            self._of_live[0] * live.cpu_milli + self._of_past[0] * past.cpu_s,
            self._of_live[1] * live.memory_mib + self._of_past[1] * past.memory_gib_s,
            self._of_live[2] * live.device_milli + self._of_past[2] * past.device_s,
        ]

    def _sum_up(self, leaf: tuple[str, str]) -> tuple[Amount, Spent]:
        live, spent = NOTHING, []
        held, running = self._cluster.accounts.holdings.of, self._cluster.accounts.running.of
        for name in self._held.get(leaf, ()):
            account = ("account", name)
            if account in held:
                live = live.plus(held[account])
            if account in running:
                spent.append(self._running(name))
        spent += [self._remembered(usage) for usage in self._records.get(leaf, ())]
        found = self._sums_of[leaf] = (live, _sum_of(spent))
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

    def rows(self) -> list[ShareRow]:
        """Every project on record and every account that is active or has a record of use."""
        if not self._ready:
            self._prepare()
        leaves = sorted({**self._held, **self._records})
        found = [
            self._row(name, "", self._project(name), self._project(name).own_ratio())
            for name in self._projects
        ]
        for project, user in leaves:
            node = self._account(project, user)
            ratio = self.ratio(user, project) if self._simple else node.own_ratio()
            found.append(self._row(project, user, node, ratio))
        return sorted(found, key=lambda row: (row.project, row.user))

    @staticmethod
    def _row(project: str, user: str, node: ShareNode, ratio: float) -> ShareRow:
        return ShareRow(project, user, node.shares, node.target, node.used, ratio)


def _sum_of(spent: list[Spent]) -> Spent:
    """Exactly rounded, so that the order of records does not matter."""
    if len(spent) == 1:
        return spent[0]
    return Spent(
        fsum(each.cpu_s for each in spent),
        fsum(each.memory_gib_s for each in spent),
        fsum(each.device_s for each in spent),
    )


def remembered_s(cluster: Cluster) -> float:
    """How many seconds of use are remembered of somebody who has always used all of it."""
    rules = cluster.policy.share
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


def shares_of(cluster: Cluster, now_s: float) -> list[ShareRow]:
    """How every project and account stands, by name: for reports."""
    return FairShare(cluster, now_s).rows()
