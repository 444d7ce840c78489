"""What an agent is told when it is started."""

from __future__ import annotations

from pathlib import Path

import msgspec

from rota.agent.machine.discover import Overrides
from rota.agent.machine.gpus import Tolerance


class AgentConfig(msgspec.Struct, frozen=True):
    """What an agent needs to know to run."""

    state_dir: Path
    url: str
    token: str = ""
    overrides: Overrides = Overrides()
    cgroup_root: str = ""
    #: Days for which the logs of ended attempts are kept; 0: for ever.
    log_days: int = 0
    #: Which processes of others on the devices do not count.
    tolerance: Tolerance = Tolerance()
    #: About how much of what a running attempt prints is kept, the newest; 0: all of it.
    log_max_bytes: int = 0
    #: Whether jobs can open only the devices that they were given: ``auto``, ``required``, ``off``.
    enforce_devices: str = "auto"
    #: When the node ends, and how long it stays idle before it goes for good; 0: it stays.
    ends_s: float = 0.0
    idle_s: float = 0.0
    #: Jobs without a time limit may begin there although it ends.
    unlimited: bool = False

    @property
    def folder(self) -> Path:
        return self.state_dir / "agent"
