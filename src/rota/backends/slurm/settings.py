"""What a site says of its Slurm, in a table of its settings."""

from __future__ import annotations

from typing import Literal

import msgspec

_URLS = ("http://", "https://", "unix:/")


class SlurmSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``kind = "slurm"``. Every key has a default but where the output goes."""

    #: A folder that this machine and all nodes of Slurm share: output and ends of attempts.
    folder: str
    #: ``http://HOST:PORT`` or ``unix:/PATH`` of slurmrestd; empty: Slurm's commands are called.
    rest_url: str = ""
    #: The user of the token, and the file that it is in; without a file: SLURM_JWT.
    rest_user: str = "root"
    token_file: str = ""
    #: ``ours``: Rota names the node. ``theirs``: Slurm chooses among equal ones.
    placement: Literal["ours", "theirs"] = "ours"
    #: A feature that each node has for itself, with ``{node}`` in it: how a node is named by REST.
    node_feature: str = ""
    #: Rota's queues that are called otherwise in Slurm; the rest are partitions of that name.
    queues: dict[str, str] = msgspec.field(default_factory=lambda: {"default": ""})
    partition: str = ""
    account: str = ""
    qos: str = ""
    #: Jobs go into this reservation of Slurm.
    reservation: str = ""
    #: Before the name of a project, where an order names no account; empty: none is named.
    account_prefix: str = ""
    #: Slurm's own limit is this much longer than Rota's, so that Rota's rings first.
    backstop_s: int = 600
    #: No call to Slurm takes longer.
    limit_s: float = 30.0
    poll_s: float = 1.0
    #: How far back the accounting is searched for an attempt.
    lookback_days: int = 7

    def __post_init__(self) -> None:
        for key, good, expected in (
            ("folder", self.folder.startswith("/"), "an absolute path"),
            ("rest_url", not self.rest_url or self.rest_url.startswith(_URLS), ", ".join(_URLS)),
            (
                "node_feature",
                not self.node_feature or self.node_feature.count("{node}") == 1,
                "a feature with {node} in it",
            ),
            ("limit_s", self.limit_s > 0, "more than 0"),
            ("poll_s", self.poll_s > 0, "more than 0"),
        ):
            if not good:
                raise ValueError(f"{key} {getattr(self, key)!r} is not valid; expected {expected}")
