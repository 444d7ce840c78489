"""What can go wrong for a client, each fit for one line.

ClientError          something to tell the user
├── Unreachable      nothing answers: not running, wrong address, broken connection
│   └── NobodyThere  … and nothing was said to anybody
├── Disconnected     we let go of the cluster before a job had ended
└── Refused          the server answered with a problem document
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.core.facts.errors import RotaError

if TYPE_CHECKING:
    from collections.abc import Mapping


class ClientError(RotaError):
    """Something to tell the user in one line."""


class Unreachable(ClientError):
    """Nothing answers where we looked."""


class NobodyThere(Unreachable):
    """Nobody took the connection, so nothing can have been done."""


class Disconnected(ClientError):
    """The connection was closed while somebody still waited for a job."""


class Refused(ClientError):
    """The server said no, and why: an RFC 9457 problem document."""

    def __init__(self, status: int, problem: Mapping[str, Any], retry_after_s: float = 0.0) -> None:
        detail = problem.get("detail") or problem.get("title") or f"the server answered {status}"
        super().__init__(" ".join(str(detail).split()))
        self.status = status
        self.code = str(problem.get("code", ""))
        self.field = str(problem.get("field") or "")
        self.problem = dict(problem)
        self.retry_after_s = retry_after_s
