"""Whose program listens on a port of this machine: what /proc says about sockets.

A job's owner may reach what the job, or another program of its user, listens on. Anything else on
this machine trusts users that can log in here, and a visitor from outside cannot.
"""

from __future__ import annotations

import os
import pwd
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rota.keeper.processes import group_by_owner, read, snapshot

_LISTENS = b"0A"
_ANY4, _ANY6 = "0.0.0.0", "::"
#: Where a connection to an address ends up: the most exact address that somebody listens on.
_TIERS = {
    "127.0.0.1": (("127.0.0.1", "::ffff:127.0.0.1"), (_ANY4, "::ffff:0.0.0.0"), (_ANY6,)),
    "::1": (("::1",), (_ANY6,)),
}


class ListeningSocket(NamedTuple):
    """A socket that takes connections: at which address, of which user."""

    address: str
    port: int
    owner: int
    inode: int


def listeners_of(table: bytes) -> list[ListeningSocket]:
    """The listening sockets in the text of /proc/net/tcp or tcp6."""
    found = []
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 9 and fields[3] == _LISTENS:
            address, _, port = fields[1].decode().partition(":")
            found.append(
                ListeningSocket(_address(address), int(port, 16), int(fields[7]), int(fields[9]))
            )
    return found


def _address(text: str) -> str:
    """The kernel writes each four bytes as one number of this machine."""
    words = [int(text[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(text), 8)]
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    return socket.inet_ntop(family, b"".join(words))


def reached_by(host: str, port: int, known: list[ListeningSocket]) -> list[ListeningSocket]:
    """Who answers a connection to this address; several share a port only if all want to."""
    here = [listener for listener in known if listener.port == port]
    for tier in _TIERS[host]:
        if exact := [listener for listener in here if listener.address in tier]:
            return exact
    return []


def strangers_at(host: str, port: int, pid: int) -> str:
    """The user whose program listens there, if it is none of those of the job; else empty.

    ``pid`` is the first process of the job.
    """
    known = listeners_of(_table("tcp")) + listeners_of(_table("tcp6"))
    owner = _owner_of(pid)
    others = [each for each in reached_by(host, port, known) if each.owner != owner]
    if others:
        own = _sockets_of(pid)
        others = [each for each in others if each.inode not in own]
    return _user_name(others[0].owner) if others else ""


def leads_to(host: str, port: int, inodes: frozenset[int]) -> bool:
    """Whether a connection to this address ends at one of these sockets."""
    known = listeners_of(_table("tcp")) + listeners_of(_table("tcp6"))
    return any(each.inode in inodes for each in reached_by(host, port, known))


def _table(name: str) -> bytes:
    """To its end, piece by piece: the kernel gives a page at a time, and not a whole one."""
    with suppress(OSError):
        return Path("/proc/net", name).read_bytes()
    return b""


def _owner_of(pid: int) -> int:
    for line in read(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"Uid:"):
            return int(line.split()[1])
    return -1


def _sockets_of(pid: int) -> set[int]:
    """The inodes of all sockets that processes of the job have open."""
    inodes = set()
    for member in group_by_owner(snapshot(), {pid: "job"}, {}).get("job", ()):
        with suppress(OSError):
            for name in os.listdir(f"/proc/{member}/fd"):
                inodes.add(_inode(f"/proc/{member}/fd/{name}"))
    return inodes


def _inode(link: str) -> int:
    with suppress(OSError):
        kind, _, number = os.readlink(link).partition(":")
        if kind == "socket":
            return int(number.strip("[]"))
    return 0


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
