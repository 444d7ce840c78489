"""What a quota provider answers: limits and use per project, in CPUs, gigabytes and GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rota.core.facts.resources import Amount
    from rota.core.facts.tenant import Limits


class ProjectResources(msgspec.Struct, frozen=True):
    """Amounts. Memory is in GB (of 1024 MiB)."""

    cpu: float = 0.0
    memory_gb: float = 0.0
    gpu: float = 0.0

    def __add__(self, other: ProjectResources) -> ProjectResources:
        return ProjectResources(
            self.cpu + other.cpu, self.memory_gb + other.memory_gb, self.gpu + other.gpu
        )

    def __sub__(self, other: ProjectResources) -> ProjectResources:
        """What is left; never less than nothing."""
        return ProjectResources(
            max(0.0, self.cpu - other.cpu),
            max(0.0, self.memory_gb - other.memory_gb),
            max(0.0, self.gpu - other.gpu),
        )

    def __le__(self, other: ProjectResources) -> bool:
        """Whether it is at most the other in every dimension."""
        return self.cpu <= other.cpu and self.memory_gb <= other.memory_gb and self.gpu <= other.gpu


UNLIMITED = ProjectResources(float("inf"), float("inf"), float("inf"))


class QuotaInfo(NamedTuple):
    """The limits of a project and what of them is used."""

    project: str
    limits: ProjectResources
    used: ProjectResources

    @property
    def available(self) -> ProjectResources:
        return self.limits - self.used

    @property
    def percent(self) -> ProjectResources:
        """Used parts of the limits; 0 where there is none."""
        limits, used = self.limits, self.used
        return ProjectResources(
            _percent(used.cpu, limits.cpu),
            _percent(used.memory_gb, limits.memory_gb),
            _percent(used.gpu, limits.gpu),
        )


def _percent(used: float, limit: float) -> float:
    """A limit of nothing is used up as soon as there is any use."""
    if limit == 0:
        return 100.0 if used else 0.0
    return 100.0 * used / limit


class QuotaProvider(Protocol):
    """Asked per project, with what a job of a type asks for."""

    def get_quota(self, project: str, job_type: str = "") -> QuotaInfo:
        """Limits and use."""

    def check_quota(self, project: str, resources: ProjectResources, job_type: str = "") -> bool:
        """Whether this much more is allowed now."""

    def allocate_quota(self, project: str, resources: ProjectResources, job_type: str = "") -> bool:
        """Take this much, if it is allowed; a provider that sees starts itself only checks."""

    def release_quota(self, project: str, resources: ProjectResources, job_type: str = "") -> None:
        """Give this much back; nothing for a provider that sees ends itself."""


@runtime_checkable
class SyncsQuotas(Protocol):
    """A provider whose truth is elsewhere may be asked to read it again."""

    def sync_quota_state(self, project: str) -> QuotaInfo:
        """Limits and use as they are there now."""


class QuotaAway(Exception):
    """The source does not answer, or does not know who asks."""


class QuotaRefused(Exception):
    """The source does not do what it was asked for, and says why."""


class SeenProject(NamedTuple):
    """One project at the source: CPUs, memory and devices."""

    limits: Limits
    used: Amount
    #: Who may use it; None: everybody.
    users: frozenset[str] | None = None
    #: Which part of all use it has had by the source's own accounting; None: it does not say.
    load: float | None = None


class SourceAnswer(NamedTuple):
    """What a source says of projects; of those with a problem it says nothing."""

    seen: dict[str, SeenProject]
    problems: dict[str, str]


class QuotaSource(Protocol):
    """Where another program keeps quotas. Called from a thread; every call is bounded in time."""

    #: As in ``QUOTA_PROVIDER``.
    name: str
    #: Whether what a project uses counts for those above it, too.
    nested: bool

    @property
    def writes(self) -> str:
        """Empty: Rota may set limits there; otherwise why it does not."""

    def read(self, projects: Collection[str]) -> SourceAnswer:
        """Limits and use as they are now. A project that the source does not know has no limits."""

    def as_kept(self, limits: Limits) -> Limits:
        """The limits as the source would show them: it may know whole CPUs only."""

    def make(self, projects: Mapping[str, str]) -> Collection[str]:
        """See that there is a place for these, each with the project above it; what was made."""

    def write(self, project: str, parent: str, limits: Limits) -> None:
        """Set them; what is None is taken away."""

    def admit(self, users: Mapping[str, Collection[str]]) -> None:
        """These users, by project, have jobs to run there."""

    def is_held(self, detail: str) -> bool:
        """Whether an attempt that waits inside for this reason is not counted as use there."""
