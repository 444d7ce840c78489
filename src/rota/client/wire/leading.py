"""Whether another head leads by now: for a caller that its own head leaves without an answer."""

from __future__ import annotations

import select
import time
from http.client import HTTPException
from typing import TYPE_CHECKING

from rota.client.wire.ways import KNOCK_S, connection_to
from rota.heads import LEADER_HEADER

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

#: How often it is looked for another one, and how long each of them may take to say so.
LOOK_S, SAY_S = 1.0, 2.0


def await_answer(
    sock: socket.socket, others: Sequence[str], fingerprint: str, timeout_s: float
) -> None:
    """Until there is something to read, or time is up. Raises ``ConnectionError`` when another
    head leads: a machine that hangs, or was cut off, will not answer."""
    end_s = time.monotonic() + timeout_s
    while others and (left_s := end_s - time.monotonic()) > 0:
        if select.select([sock], [], [], min(left_s, LOOK_S))[0]:
            return
        if any(leads(address, fingerprint) for address in others):
            raise ConnectionError("another head leads by now")


def leads(address: str, fingerprint: str) -> bool:
    """Whether a head says that it leads."""
    connection, prefix = connection_to(address, SAY_S, fingerprint, KNOCK_S)
    try:
        connection.request("GET", f"{prefix}/healthz")
        answer = connection.getresponse()
        return answer.status == 200 and answer.headers.get(LEADER_HEADER) is None
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
