"""Where other nodes reach this machine: gangs meet there."""

from __future__ import annotations

import fcntl
import socket
import struct
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from rota.heads import addresses_of

if TYPE_CHECKING:
    from rota.agent.agent_config import AgentConfig
    from rota.core.facts.node import NodeSpec

#: Nobody has this address (RFC 5737): the way to it is the way to everywhere.
_ELSEWHERE = "203.0.113.1"
_ANY_PORT = 9
#: The kernel's word for: which address does this interface have?
SIOCGIFADDR = 0x8915


def addressed(spec: NodeSpec, config: AgentConfig) -> NodeSpec:
    """The node with the address that it was given, or else the one that it finds now."""
    address = config.overrides.address or own_address(config.url)
    return msgspec.structs.replace(spec, address=address)


def own_address(url: str) -> str:
    """From where this machine speaks to its controller, or else to the world; empty: to nobody.

    The controller's own machine reaches it over loopback, which says nothing to others.
    """
    heads = [urlsplit(head) for head in addresses_of(url)]
    places = [(head.hostname or "", head.port or _ANY_PORT) for head in heads if head.hostname]
    for host, port in [*places, (_ELSEWHERE, _ANY_PORT)]:
        found = _source(host, port)
        if found and not found.startswith("127.") and found != "::1":
            return found
    return _first_interface()


def _source(host: str, port: int) -> str:
    """The address that packets to a place would carry. None is sent."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(place)
            return str(probe.getsockname()[0])
    except OSError:
        return ""


def _first_interface() -> str:
    """Without a way to anywhere: the address of the first interface that has one."""
    return next((found for found in interfaces() if not found.startswith("127.")), "")


def interfaces() -> dict[str, str]:
    """The addresses (IPv4) of this machine, and the interface that each of them belongs to."""
    found: dict[str, str] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, request)
            except OSError:
                continue  # It has none.
            # Behind the name stand the family, the port and then the address.
            found.setdefault(socket.inet_ntoa(answer[20:24]), name)
    return found
