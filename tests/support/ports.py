"""Ports that stay free until a test takes them.

A port that the kernel gave us and that was closed again may be given to anybody the next moment:
to the other test process, or to a connection of our own. So these come from below the range out of
which the kernel gives.
"""

import itertools
import os
import socket
from pathlib import Path

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
#: So many ports below the kernel's range are ours.
SPAN = 8000

#: Each process begins elsewhere.
_offsets = itertools.count(os.getpid() * 16)


def quiet_port() -> int:
    """A port of the loopback address on which nobody listens, and that nobody gets by chance."""
    first = int(RANGE.read_text().split()[0]) - SPAN
    for offset in itertools.islice(_offsets, SPAN):
        port = first + offset % SPAN
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")
