"""What ``[engines.NAME]`` says of a Ray, checked."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec


class RaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``kind = "ray"``. Only the address has no default."""

    #: ``http://HEAD:8265``: the dashboard, which is the job server too.
    address: str
    #: The file of the token, read at each call; without one: RAY_AUTH_TOKEN.
    token_file: str = ""
    #: For a proxy before it.
    headers: dict[str, str] = {}
    #: Of the authority that signed the address's certificate; empty: those of the system.
    ca_file: str = ""
    #: ``ours``: Rota names the node; ``theirs``: all nodes are one pool, Ray chooses.
    placement: Literal["ours", "theirs"] = "ours"
    #: A Python on the nodes; on the head it needs Ray, for gangs and to end what waits.
    python: str = "python3"
    #: The most jobs that start on each node at a time. Each is a process of Ray's own, which
    #: takes a processor for a second or two before the program begins.
    starts_per_node: int = 2
    #: No call takes longer.
    limit_s: float = 30.0
    poll_s: float = 1.0

    def __post_init__(self) -> None:
        schemes = ("http://", "https://")
        for key, good, expected in (
            ("address", self.address.startswith(schemes), "http://HOST:PORT or https://HOST:PORT"),
            ("ca_file", not self.ca_file or Path(self.ca_file).is_file(), "a file"),
            ("python", bool(self.python.strip()), "a command"),
            ("starts_per_node", self.starts_per_node > 0, "more than 0"),
            ("limit_s", self.limit_s > 0, "more than 0"),
            ("poll_s", self.poll_s > 0, "more than 0"),
        ):
            if not good:
                raise ValueError(f"{key} {getattr(self, key)!r} is not valid; expected {expected}")
