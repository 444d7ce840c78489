"""What a limit of another program means in numbers, where its own words have none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rota.scheduling.limits.quota import UNITS
from rota.scheduling.limits.quota_rules import Dimension

if TYPE_CHECKING:
    from rota.core.cluster import Cluster

#: Reasons of Slurm such as AssocGrpCpuLimit, AssocGrpMemLimit, QOSGrpGRES, AssocGrpGRES.
_LIMIT = re.compile(r"(?:Assoc|QOS)(?:Grp|Max)(Cpu|CPU|Mem|GRES|Billing)?")
_OF = {
    "cpu": (Dimension.CPU_MILLI, "cpu_milli"),
    "mem": (Dimension.MEMORY_MIB, "memory_mib"),
    "gres": (Dimension.DEVICE_MILLI, "device_milli"),
}


def outer_numbers(cluster: Cluster, project: str, detail: str) -> str:
    """Behind a reason of Slurm: the limit that it is about, and what is used of it."""
    found, outer = _LIMIT.match(detail), cluster.accounts.outer.get(project)
    if found is None or outer is None or not project:
        return ""
    dimension, field = _OF.get((found[1] or "").lower(), (None, ""))
    limit = getattr(outer.limits, field, None)
    if dimension is None or limit is None:
        return ""
    unit, size = UNITS[dimension]
    used, foreign = getattr(outer.used, field), getattr(outer.foreign, field)
    outside = f" ({foreign / size:g} outside Rota)" if foreign else ""
    return (
        f": by the quota in {outer.provider} project {project} has at most {limit / size:g} "
        f"{unit}, of which {used / size:g} were used{outside}"
    )
