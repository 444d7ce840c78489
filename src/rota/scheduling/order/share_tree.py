"""The tree of shares: what its nodes are entitled to, and how several levels become one number."""

from __future__ import annotations

from math import floor, frexp, inf, isinf, ldexp
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.core.facts.tenant import Project, User

#: A project on record (or "") and a user.
Account = tuple[str, str]

#: Ratios of upper levels are compared to this many binary digits before the next level counts.
DIGITS = 8
#: Less than this is nothing.
TINY = 2.0**-40


class ShareNode:
    """A project or an account: its target, and its weighted use of each resource."""

    __slots__ = ("bumps", "kept", "load", "parent", "shares", "stamp", "target")

    def __init__(self, parent: ShareNode | None, shares: int, target: float) -> None:
        self.parent = parent
        self.shares = shares
        self.target = target
        #: Of each resource, once it is filled in.
        self.load: list[float] = []
        #: How often its use changed in this pass.
        self.bumps = 0
        self.stamp = -1
        self.kept = 0.0

    @property
    def used(self) -> float:
        return max(0.0, *self.load)

    def own_ratio(self) -> float:
        used = self.used
        if self.target > 0.0:
            return used / self.target
        return inf if self.shares <= 0 or used else 0.0

    def version(self) -> int:
        total, node = self.bumps, self.parent
        while node is not None:
            total += node.bumps
            node = node.parent
        return total


class ShareTree:
    """Projects with the accounts in them, and whose shares count."""

    def __init__(
        self,
        projects: Mapping[str, Project],
        users: Mapping[str, User],
        active: dict[Account, None],
        known: dict[Account, None],
    ) -> None:
        """``active`` accounts divide what there is; all that are ``known`` have a place."""
        self.projects = projects
        self._users = users
        self.active = active
        #: Downwards and upwards; the root is called "".
        self.parents = {name: self._parent(name) for name in projects}
        self._children: dict[str, list[str]] = {}
        for name, parent in self.parents.items():
            self._children.setdefault(parent, []).append(name)
        self._members: dict[str, list[Account]] = {}
        for account in known:
            self._members.setdefault(account[0], []).append(account)
        self.active_projects: dict[str, None] = {}
        #: The sum of the shares of active children, by project.
        self._sums: dict[str, int] = {}
        self._count_shares()

    def _parent(self, project: str) -> str:
        """The parent if it is on record, else the root: also where parents run in a circle."""
        first, seen = self.projects[project].parent, {project}
        parent = first
        while parent in self.projects and parent not in seen:
            seen.add(parent)
            parent = self.projects[parent].parent
        return first if first in self.projects and parent not in self.projects else ""

    def _count_shares(self) -> None:
        sums, seen = self._sums, self.active_projects
        for project, user in self.active:
            sums[project] = sums.get(project, 0) + self.shares_of(user)
            while project and project not in seen:
                seen[project] = None
                parent = self.parents[project]
                sums[parent] = sums.get(parent, 0) + self.shares_of_project(project)
                project = parent

    def shares_of(self, user: str) -> int:
        record = self._users.get(user)
        if record is None or not record.own_shares:
            record = self._users.get("")
        return max(record.shares, 0) if record is not None else 1

    def shares_of_project(self, project: str) -> int:
        return max(self.projects[project].shares, 0)

    def part_of(self, account: Account) -> float:
        """Which part of its project's target an account is entitled to."""
        project, user = account
        return self._part(project, self.shares_of(user), account in self.active)

    def part_of_project(self, project: str) -> float:
        shares = self.shares_of_project(project)
        return self._part(self.parents[project], shares, project in self.active_projects)

    def _part(self, above: str, shares: int, active: bool) -> float:
        """One that is not active stands where it will stand once it is."""
        total = self._sums.get(above, 0) + (0 if active else shares)
        return shares / total if total else 0.0

    def accounts_below(self, project: str) -> list[Account]:
        """The accounts of a project and of all projects under it."""
        found = list(self._members.get(project, ()))
        for child in self._children.get(project, ()):
            found += self.accounts_below(child)
        return found


def nested(upper: float, lower: float) -> float:
    """One number for two levels: grows with both, and the upper one decides beyond a step."""
    within = 1.0 - 1.0 / (1.0 + lower)
    if upper < TINY:
        return TINY * within
    if isinf(upper):
        return upper
    part, exponent = frexp(upper)
    step = ldexp(1.0, exponent - DIGITS)
    return floor(ldexp(part, DIGITS)) * step + step * within
