"""What ``rota up``, ``down`` and ``agent`` hand to what starts and ends the processes."""

from __future__ import annotations

from typing import NamedTuple


class UpOptions(NamedTuple):
    """Empty text: what the settings say (``rota.config``)."""

    listen: str = ""
    database: str = ""
    state_dir: str = ""
    detach: bool = False
    with_agent: bool = True
    grpc_port: str = ""
    accept_database: bool = False
    standby: bool = False
    #: Number of pretended nodes in place of this machine, and the seed of their jobs' fates.
    pretend: int = 0
    seed: int = 0


class DownOptions(NamedTuple):
    """``timeout_s``: how long to wait for the processes to end."""

    state_dir: str = ""
    stop_jobs: bool = False
    timeout_s: float = 30.0
    yes: bool = False
    dry_run: bool = False


class AgentOptions(NamedTuple):
    """Empty ``join``: the controller on this machine."""

    join: str = ""
    token: str = ""
    state_dir: str = ""
    name: str = ""
    accept_database: bool = False
    #: How long the node is there, and how long it stays idle; 0: it stays.
    lifetime_s: float = 0.0
    idle_s: float = 0.0
    unlimited: bool = False
