"""Who may be a node: one name, one installation, one machine at a time.

An agent names its installation (a random word in its folder), the boot of its machine, and the
machine and folder that it runs in. The same installation after a reboot or a restart is the same
node. A copy of its disk or folder, or another machine under its name, is somebody else: it is
refused while the first one is alive, or may still have work that the controller counts on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.controller.agents.liveness import MISSED_MIN, beat_s_of, longest_s
from rota.core.facts.errors import Rejected
from rota.core.words.units import format_duration
from rota.rpc.messages import PROTOCOL

if TYPE_CHECKING:
    from rota.controller.agents.liveness import Liveness
    from rota.controller.agents.sessions import Session
    from rota.core.cluster import Cluster
    from rota.core.facts.node import Node
    from rota.rpc.messages import Hello


def check_hello(
    hello: Hello, cluster: Cluster, connected: Session | None, liveness: Liveness
) -> None:
    """Raises ``Rejected`` when this agent must not be the node that it says it is."""
    node = cluster.nodes.get(hello.node.name)
    if node is None or node.lost:
        return
    if connected is not None:
        _check_beside(hello, node, connected, liveness)
    elif _is_other(hello, node) and node.live:
        _check_after(hello, cluster, node, liveness)


def versions_differ(theirs: int) -> str:
    """What an agent that speaks another protocol is told."""
    return (
        f"this controller speaks protocol {PROTOCOL}, the agent {theirs}: "
        "install the same version of rota on both"
    )


def _is_other(hello: Hello, node: Node) -> bool:
    """Whether it is another installation, or a copy of this one somewhere else."""
    moved = bool(node.home and hello.home) and node.home != hello.home
    return hello.incarnation != node.incarnation or moved


def _check_beside(hello: Hello, node: Node, connected: Session, liveness: Liveness) -> None:
    """An agent is connected under this name: only the same agent takes its place."""
    if _is_other(hello, node):
        copied = hello.incarnation == node.incarnation
        what = "a copy of it" if copied else "another agent"
        raise Rejected(
            f"node name {node.name} is in use: {_title(node, connected.pid)} is connected, and "
            f"{_hello_title(hello)} is {what}; give this one another name (--name) and a state "
            "folder of its own, or stop the other"
        )
    rebooted = hello.boot_id != node.boot_id
    alive_s = MISSED_MIN * beat_s_of(node.lease_s)
    if rebooted and node.lease_s and liveness.silent_s(node.name) < alive_s:
        raise Rejected(
            f"node name {node.name} is in use: {_title(node, connected.pid)} was heard "
            f"{liveness.silent_s(node.name):.0f} s ago, and {_hello_title(hello)} has another "
            "boot: a copy of its disk? After a reboot this passes by itself"
        )


def _check_after(hello: Hello, cluster: Cluster, node: Node, liveness: Liveness) -> None:
    """The first one is gone and may still run jobs: its lease has to run out before."""
    left_s = longest_s(cluster, node) - liveness.silent_s(node.name)
    if node.lease_s and left_s > 0:
        raise Rejected(
            f"node name {node.name} belongs to {_title(node)}, which may still run "
            f"{len(node.live)} of our jobs; {_hello_title(hello)} may take it over in "
            f"{format_duration(int(left_s) + 1)}"
        )


def _title(node: Node, pid: int = 0) -> str:
    return _words(node.incarnation, node.home, pid)


def _hello_title(hello: Hello) -> str:
    return _words(hello.incarnation, hello.home, hello.pid)


def _words(incarnation: str, home: str, pid: int) -> str:
    details = [home] if home else []
    if pid:
        details.append(f"pid {pid}")
    more = f" ({', '.join(details)})" if details else ""
    return f"agent {incarnation}{more}"
