"""What both transports can do, what is asked of them, and how their errors reach the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from rota.backends.api import EngineAway, EngineError, EngineRefused, Full, Unsure
from rota.core.facts.states import Blame
from rota.slurmrest.verdicts import OF_NODE, SlurmAway, SlurmError, SlurmFull, SlurmUnsure

if TYPE_CHECKING:
    from rota.backends.slurm.records import SlurmRecord

#: Output of the script itself: what it has to say is in the attempt's folder.
NOWHERE = "/dev/null"


class SlurmRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A job as Slurm is asked for it."""

    comment: str
    script: str
    user: str
    name: str
    partition: str = ""
    account: str = ""
    qos: str = ""
    reservation: str = ""
    #: Minutes are the smallest step; 0: the partition's own. It need not have more than the least.
    minutes: int = 0
    least_minutes: int = 0
    nodes: int = 1
    tasks: int = 1
    tasks_per_node: int = 1
    cpus_per_task: int = 1
    #: 0: as much as the partition gives.
    memory_mib_per_node: int = 0
    #: ``gpu:h200:2`` on each node.
    gres: str = ""
    #: The nodes that it must have; empty: Slurm chooses.
    on: str = ""


class Transport(Protocol):
    """A way to one Slurm. Every call is bounded in time; errors are those of an engine."""

    #: As whom it submits, and whether it can for others, too.
    user: str
    acts_for_all: bool

    @property
    def places(self) -> bool:
        """Whether a job can be submitted for a node that is named; known once it is open."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def submit(self, wish: SlurmRequest) -> str: ...

    async def jobs(self) -> list[SlurmRecord]:
        """All jobs that slurmctld knows, those of others too."""

    async def past(self, since_s: float) -> list[SlurmRecord]:
        """All that the accounting knows since then; nothing, where the site has none.

        Of a job that runs it has no comment.
        """

    async def nodes(self) -> list[dict[str, Any]]: ...

    async def comment(self, number: str) -> str | None:
        """Of the job that has this number now; None: none has."""

    async def signal(self, number: str, signal: int) -> None: ...

    async def cancel(self, number: str) -> None: ...

    async def shorten(self, number: str, minutes: int, user: str) -> None:
        """Of one that waits: a smaller limit, as its own user. What an operator sets, Slurm lets
        in whatever its limits are.
        """


def engine_error(error: SlurmError) -> EngineError:
    """The same in the words of the contract."""
    made = _in_our_words(error)
    made.__cause__ = error
    return made


def _in_our_words(error: SlurmError) -> EngineError:
    if isinstance(error, SlurmFull):
        return Full(str(error))
    if isinstance(error, SlurmAway):
        return EngineAway(str(error))
    if isinstance(error, SlurmUnsure):
        return Unsure(str(error))
    return EngineRefused(str(error), Blame.NODE if error.code in OF_NODE else Blame.JOB)


def code_of(error: EngineError) -> int:
    """Slurm's own number of it; 0: it has none."""
    return getattr(error.__cause__, "code", 0)
