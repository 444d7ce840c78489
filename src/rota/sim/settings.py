"""What is agreed before a log is played. The literature differs, and each point changes results."""

from __future__ import annotations

from enum import StrEnum

import msgspec

#: When the clock of the core begins: 0 means "never" there. Sums with it are exact.
BEGIN_S = 2.0**-20


class Events(StrEnum):
    """What happens when several things happen at the same instant."""

    #: All of them, then one pass.
    BATCH = "batch"
    #: Each by itself with a pass of its own, arrivals first, then ends in the order of starts.
    #: A job that is to end at that very second leaves its room to arrivals already.
    SINGLE = "single"


class SimEstimates(StrEnum):
    """How long a job is taken to run."""

    #: As its user said; where that is nothing, as long as it really runs.
    USER = "user"
    EXACT = "exact"
    PREDICTED = "predicted"


class SimOverrun(StrEnum):
    """What becomes of a job that runs longer than its user said."""

    KILL = "kill"
    EXTEND = "extend"


class SimSettings(msgspec.Struct, frozen=True, kw_only=True):
    events: Events = Events.BATCH
    #: None: as the policy says.
    estimates: SimEstimates | None = None
    overrun: SimOverrun = SimOverrun.KILL
    #: With EASY: a job that stays longer than until the first starts may use what that leaves over.
    spare: bool = True
    #: Processors have numbers, and a promise binds the very ones that it names, lowest first.
    pinned: bool = False
