"""What an engine is told of an attempt."""

from __future__ import annotations

import msgspec


class EngineOrder(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an engine wants to know of an attempt beside its launch."""

    name: str = ""
    project: str = ""
    queue: str = ""
    #: 0: none.
    time_limit_s: int = 0
    labels: dict[str, str] = {}
    #: Devices are counted: which ones, the engine says.
    gpus: int = 0
    gpu_type: str = ""
    #: The members of its gang in the order of their ranks; empty: it is alone.
    gang: tuple[str, ...] = ()
    #: How many nodes they are spread over; 0: as it comes.
    nodes: int = 0
