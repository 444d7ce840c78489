"""What a site has, as slurmrestd writes it: reservations, licences, the controller."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from rota import hostlist
from rota.scheduling.limits.licenses import held_of, limits_of
from rota.slurm.records.node_records import reservation_name

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.facts.tenant import Reservation


def ping_documents() -> list[dict[str, Any]]:
    """The controller that answers is up."""
    return [{"hostname": socket.gethostname(), "ping": "UP", "status": 0, "mode": "primary"}]


def reservation_document(item: Reservation, cluster: Cluster) -> dict[str, Any]:
    """A reservation of nodes, or of devices on one of them."""
    nodes = item.nodes or ((item.node,) if item.node else ())
    known = [cluster.nodes[name] for name in nodes if name in cluster.nodes]
    cpus = sum(max(1, node.spec.cpu_milli // 1000) for node in known)
    nothing = ("burst_buffer", "features", "groups", "licenses", "partition")
    return {
        "flags": ["SPEC_NODES"],
        "accounts": item.project,
        **dict.fromkeys(nothing, ""),
        "core_count": cpus,
        "core_spec_cnt": 0,
        "end_time": int(item.end_s),
        "max_start_delay": 0,
        "name": reservation_name(item),
        "node_count": len(nodes),
        "node_list": hostlist.compress(nodes),
        "start_time": int(item.start_s),
        # Slurm's word for none.
        "watts": 4294967294,
        "tres": f"cpu={cpus}",
        "users": item.owner,
    }


def license_documents(cluster: Cluster) -> list[dict[str, Any]]:
    found = []
    for name, total in sorted(limits_of(cluster.policy.licenses).items()):
        used = held_of(cluster, name)
        counts = {"Total": total, "Used": used, "Free": max(0, total - used), "Reserved": 0}
        found.append({"LicenseName": name, **counts, "Remote": False})
    return found
