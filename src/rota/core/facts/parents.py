"""What a job waits for in other jobs, in words; ``dependencies`` says whether it has come true."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from rota.core.facts.indices import IndexRun


class DependencyKind(StrEnum):
    """What a child waits for in its parent."""

    AFTER = "after"  # the parent has started
    AFTER_OK = "after-ok"  # the parent completed
    AFTER_ANY = "after-any"  # the parent ended, however
    AFTER_NOT_OK = "after-not-ok"  # the parent ended, and not well
    AFTER_CHECKPOINT = "after-checkpoint"  # the parent has saved its work, or completed
    AFTER_DATA = "after-data"  # the parent has made some data, or completed


class Dependency(msgspec.Struct, frozen=True, omit_defaults=True):
    """One parent of a job. ``element`` ties equal indices of two arrays together."""

    kind: DependencyKind
    parent: int
    element: bool = False
    #: The name of the data that is waited for.
    data: str = ""
    #: With ``element``: the indices of the parent. It leaves the memory when it has ended.
    runs: tuple[IndexRun, ...] = ()
