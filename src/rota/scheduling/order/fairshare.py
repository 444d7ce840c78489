"""Fair share: how much each account has had of its own, in a tree of projects and users.

**Target.** A node of the tree is entitled to its shares over the shares of its *active* siblings,
times its parent's target. An account is active while it has jobs that are ready to start or holds
something; jobs that are held or wait for others do not make it so. Whether an account is active
changes all of its siblings' targets by the same factor, so no account moves ahead of a sibling by
pretending demand. Projects on record form the tree; users are the leaves of their projects. A
project that is not on record is nobody's: its users stand at the root, with the sum of what they
use in all such projects, so that a new name for a project buys nothing.

**Use.** For each resource, what is held now over the cluster's capacity plus what was used (and
is being used) over what the cluster gives in the time that is remembered; then the largest of the
weighted resources: the dominant share. Charged by what was kept from others and for how long it
really ran, so two halves weigh what the whole does, and the declared time limit weighs nothing.

**Ratio.** Use over target, compared from the top of the tree down: a member of a project that
has had less comes first, and members of one project are compared by their own use. One number
says both: the ratio of the topmost project, in steps of about half a percent, and within a step
the same for the next level.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from rota.scheduling.order.share_tree import Account, ShareNode, ShareTree, nested
from rota.scheduling.order.share_use import ShareUse

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Lane
    from rota.core.facts.resources import Amount


class ShareRow(NamedTuple):
    """How one account, or (without a user) a whole project, stands."""

    project: str
    user: str
    shares: int
    #: The part of the cluster that it is entitled to now (none, while it is not active), and
    #: that it has had; both from 0 to 1.
    target: float
    used: float
    #: Use over target, for one that is not active as if it were.
    ratio: float


class FairShare:
    """Fulfils ``Shares``. Cheap to make; accounts are worked out when they are asked for."""

    def __init__(self, cluster: Cluster, now_s: float, total: Amount | None = None) -> None:
        """``total`` is everything that the nodes have, for who knows it already."""
        self._cluster = cluster
        self._now_s = now_s
        self._total = total
        self._rules = cluster.policy.share
        self._simple = self._rules.form == "simple"
        #: Accounts that have had too much of their share may have to wait for others.
        self.is_barring = self._rules.hard_ratio > 0.0
        self._leaves: dict[Account, ShareNode] = {}
        self._nodes: dict[Account, ShareNode] = {}
        self._use: ShareUse | None = None
        self._tree: ShareTree | None = None
        #: How often something started in this pass.
        self._moves = 0
        #: A lane of an account within the hard limit that may start, as of a number of moves.
        self._contender: tuple[int, Lane | None] = (-1, None)

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

    def stands(self, user: str, project: str) -> ShareRow:
        """How one account stands that is active."""
        leaf = self._leaves.get((user, project)) or self._leaf(user, project)
        return self._row(project, user, leaf, self.ratio(user, project), active=True)

    def kept_back_by(
        self, user: str, project: str, may_start: Callable[[Lane], bool]
    ) -> Lane | None:
        """A lane for which an account beyond the hard limit has to wait; None: it need not.

        That is a lane of an account within the limit that nothing but room keeps from starting.
        Every account beyond the limit gets the same answer until something starts.
        """
        hard = self._rules.hard_ratio
        if hard <= 0.0 or self.worst(user, project) <= hard:
            return None
        if self._contender[0] != self._moves:
            lanes = self._cluster.lanes.lanes.values()
            ready = (lane for lane in lanes if self.worst(*lane.account) <= hard)
            self._contender = (self._moves, next(filter(may_start, ready), None))
        return self._contender[1]

    def started(self, user: str, project: str, amount: Amount) -> None:
        """A job of this account took room in the current pass."""
        node: ShareNode | None = self._leaf(user, project)
        assert self._use is not None
        cpu, memory, device = self._use.load_of(amount)
        self._moves += 1
        while node is not None:
            load = node.load
            load[0] += cpu
            load[1] += memory
            load[2] += device
            node.bumps += 1
            node = node.parent

    def _leaf(self, user: str, project: str) -> ShareNode:
        leaf = self._leaves.get((user, project))
        if leaf is None:
            tree = self._prepare()
            known = project if project in tree.projects else ""
            leaf = self._leaves[user, project] = self._account(known, user)
        return leaf

    def _prepare(self, *, everybody: bool = False) -> ShareTree:
        """Once per pass: who is active, and whose records make up which account."""
        if self._tree is None:
            # The simple form knows users only.
            projects = {} if self._simple else self._cluster.accounts.projects
            use = self._use = ShareUse(self._cluster, self._now_s, self._total, projects)
            active = use.known if everybody and not use.active else use.active
            self._tree = ShareTree(projects, self._cluster.accounts.users, active, use.known)
        return self._tree

    def _account(self, project: str, user: str) -> ShareNode:
        key = (project, user)
        node = self._nodes.get(key)
        if node is None:
            tree = self._prepare()
            parent = self._project(project) if project else None
            whole = parent.target if parent is not None else 1.0
            node = ShareNode(parent, tree.shares_of(user), whole * tree.part_of(key))
            self._fill(key, node, [key])
        return node

    def _project(self, project: str) -> ShareNode:
        key = (project, "")
        node = self._nodes.get(key)
        if node is None:
            tree = self._prepare()
            above = tree.parents[project]
            parent = self._project(above) if above else None
            whole = parent.target if parent is not None else 1.0
            target = whole * tree.part_of_project(project)
            node = ShareNode(parent, tree.shares_of_project(project), target)
            leaves = tree.accounts_below(project)
            self._fill(key, node, leaves)
            assert self._use is not None
            node.load = self._use.with_provider(node.load, project, leaves)
        return node

    def _fill(self, key: Account, node: ShareNode, leaves: list[Account]) -> None:
        assert self._use is not None
        node.load = self._use.load_of_all(leaves)
        self._nodes[key] = node

    def rows(self) -> list[ShareRow]:
        """Every project on record and every account that is active or has a record of use.

        The targets of accounts add up to one: where none is active, all of them count.
        """
        tree = self._prepare(everybody=True)
        assert self._use is not None
        found = []
        for name in tree.projects:
            node = self._project(name)
            found.append(self._row(name, "", node, node.own_ratio(), name in tree.active_projects))
        for project, user in sorted(self._use.known):
            node = self._account(project, user)
            ratio = self.ratio(user, project) if self._simple else node.own_ratio()
            found.append(self._row(project, user, node, ratio, (project, user) in tree.active))
        return sorted(found, key=lambda row: (row.project, row.user))

    @staticmethod
    def _row(project: str, user: str, node: ShareNode, ratio: float, active: bool) -> ShareRow:
        target = node.target if active else 0.0
        return ShareRow(project, user, node.shares, target, node.used, ratio)


def shares_of(cluster: Cluster, now_s: float) -> list[ShareRow]:
    """How every project and account stands, by name: for reports."""
    return FairShare(cluster, now_s).rows()
