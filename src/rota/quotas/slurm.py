"""Quotas as accounts of Slurm: ``SLURM_ACCOUNT_PREFIX`` and the project, with GrpTRES of theirs.

Projects below others are accounts below theirs, so that Slurm counts them together as Rota does.
A project without an account has no limits there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.resources import NOTHING
from rota.core.facts.tenant import UNLIMITED
from rota.quotas.api import SeenProject, SourceAnswer
from rota.quotas.slurm_ways import QuotasByCommands, QuotasByRest
from rota.quotas.tres import whole

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rota.core.facts.tenant import Limits
    from rota.quotas.slurm_ways import SlurmWay
    from rota.settings.quotas import QuotaSettings


class SlurmQuotas:
    """Speaks to one Slurm."""

    name = "slurm"
    nested = True
    writes = ""

    def __init__(self, settings: QuotaSettings) -> None:
        self._prefix = settings.slurm_account_prefix
        self._way: SlurmWay = (
            QuotasByRest(settings) if settings.slurm_rest_url else QuotasByCommands()
        )

    def account_of(self, project: str) -> str:
        """Slurm knows small letters only."""
        return f"{self._prefix}{project}".lower()

    def read(self, projects: Collection[str]) -> SourceAnswer:
        known = self._way.accounts()
        none = SeenProject(UNLIMITED, NOTHING)
        found = {name: known.get(self.account_of(name)) for name in projects}
        seen = {name: account.seen if account else none for name, account in found.items()}
        return SourceAnswer(seen, {})

    def as_kept(self, limits: Limits) -> Limits:
        return whole(limits)

    def make(self, projects: Mapping[str, str]) -> Collection[str]:
        """Slurm refuses a job of an account that there is not."""
        known = self._way.accounts()
        made = [name for name in projects if self.account_of(name) not in known]
        for name in sorted(made, key=lambda name: projects[name] in made):
            self.write(name, projects[name], UNLIMITED)
        return made

    def write(self, project: str, parent: str, limits: Limits) -> None:
        known = self._way.accounts()
        account, above = self.account_of(project), self.account_of(parent) if parent else ""
        if above and above not in known:
            self._way.set_limits(above, "", UNLIMITED, None)
        self._way.set_limits(account, above, limits, known.get(account))

    def admit(self, users: Mapping[str, Collection[str]]) -> None:
        """Slurm starts a job of an account for its users only."""
        known = self._way.accounts()
        for project, names in users.items():
            account = known.get(self.account_of(project))
            if account is not None:
                for user in sorted(set(names) - (account.seen.users or frozenset())):
                    self._way.add_user(self.account_of(project), user)

    def is_held(self, detail: str) -> bool:
        """What is pending is not counted."""
        return bool(detail)
