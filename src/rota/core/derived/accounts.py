"""Accounts: users and projects, what each of them holds and waits for, and has used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rota.core.derived.holdings import Holdings
from rota.core.derived.running import Running
from rota.core.derived.waiting import WaitingCounts
from rota.core.facts.tenant import NO_QUOTA, UNLIMITED, User

if TYPE_CHECKING:
    from rota.core.derived.usage import Usage
    from rota.core.facts.site.outer import Outer
    from rota.core.facts.tenant import Project, Quota, Token


class Accounts:
    """Users, projects and tokens on record; beside them what follows from their jobs."""

    def __init__(self) -> None:
        self.users: dict[str, User] = {}
        self.projects: dict[str, Project] = {}
        self.tokens: dict[str, Token] = {}
        #: What a provider of quotas outside says, by project; empty: there is none.
        self.outer: dict[str, Outer] = {}
        #: Of each node that has a key of its own: the id of that token.
        self.keys: dict[str, str] = {}
        #: By ``usage_key``.
        self.usage: dict[str, Usage] = {}
        self.holdings = Holdings()
        self.running = Running()
        self.waiting = WaitingCounts()

    def put_token(self, token: Token) -> None:
        self.tokens[token.id] = token
        if token.node:
            self.keys[token.node] = token.id

    def drop_token(self, name: str) -> None:
        node = self.tokens.pop(name).node
        if self.keys.get(node) == name:
            del self.keys[node]

    def key_of(self, node: str) -> Token | None:
        """The key with which a node says who it is; None: it has none."""
        return self.tokens.get(self.keys.get(node, ""))

    def user(self, name: str) -> User:
        """What holds for a user: what its own record says, else the defaults."""
        own, usual = self.users.get(name), self.users.get("") or User("")
        if own is None or own is usual:
            return replace(usual, name=name)
        return replace(
            own,
            shares=own.shares if own.own_shares else usual.shares,
            quota=own.quota if own.own_quota else usual.quota,
            role=own.role or usual.role,
        )

    def quota_of(self, user: str) -> Quota:
        """A user's quota: that of its own record, else the default one."""
        record = self.users.get(user)
        if record is None or not record.own_quota:
            record = self.users.get("")
        return record.quota if record is not None else NO_QUOTA

    def members_of(self, project: str) -> tuple[str, ...]:
        """The users whose jobs may count for a project; empty: everybody."""
        above = (self.projects[name].members for name in self.chain(project))
        return next((members for members in above if members), ())

    @property
    def provider(self) -> str:
        """Who has quotas outside of Rota; empty: nobody."""
        return self.outer[""].provider if self.outer else ""

    def may_borrow(self) -> bool:
        """Whether any account has a soft limit that it may pass."""
        tables = (self.users, self.projects)
        quotas = [record.quota for table in tables for record in table.values()]
        return any(quota.borrow and quota.soft != UNLIMITED for quota in quotas)

    def chain(self, project: str) -> list[str]:
        """A project on record and those above it; a circle ends where it closes."""
        chain: list[str] = []
        while project in self.projects and project not in chain:
            chain.append(project)
            project = self.projects[project].parent
        return chain

    def below(self, project: str) -> list[str]:
        """A project and all that hang under it, in order of their names."""
        below = {name for name in self.projects if project in self.chain(name)}
        return sorted(below | {project})
