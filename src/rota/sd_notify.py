"""What systemd hears of a process that it started: that it is ready, and how it is.

Imported by the agent and by commands, so it knows the standard library only.
"""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import MutableMapping

VARIABLE = "NOTIFY_SOCKET"
#: Where to send; empty: systemd did not ask for it.
_address = ""


def take_over(environment: MutableMapping[str, str]) -> None:
    """This process is the one that systemd asked; what it starts, jobs too, is not."""
    global _address
    _address = environment.pop(VARIABLE, "")


def ready(status: str) -> None:
    """It works now; ``status`` is a line for ``systemctl status``."""
    _send(f"READY=1\nSTATUS={status}")


def tell(status: str) -> None:
    _send(f"STATUS={status}")


def stopping() -> None:
    _send("STOPPING=1")


def _send(text: str) -> None:
    """Lost without harm where nobody listens any more. ``@`` begins an abstract address."""
    if not _address:
        return
    address = "\0" + _address[1:] if _address.startswith("@") else _address
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock,
    ):
        sock.sendto(text.encode(), address)
