"""What sinfo shows: groups of nodes that look alike, and the fields of such a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota import hostlist
from rota.slurm.formats.layout import ShownField
from rota.slurm.records.records import NodeRecord, PartitionRecord
from rota.slurm.words.amounts import Moments, count_text, short_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.slurm.formats.layout import LinePart

#: Base state -> its long and its short form.
LONG = {"IDLE": "idle", "ALLOCATED": "allocated", "MIXED": "mixed", "DOWN": "down"}
COMPACT = {
    "allocated": "alloc",
    "mixed": "mix",
    "drained": "drain",
    "draining": "drng",
    "planned": "plnd",
    "reserved": "resv",
    "completing": "comp",
}


def state_long(node: NodeRecord) -> str:
    """``idle``, ``mixed``, ``draining``, ``planned``; a star for one that is silent."""
    if node.state == "DOWN":
        word = "down"
    elif node.drained:
        word = "drained" if node.state == "IDLE" else "draining"
    elif "PLANNED" in node.flags:
        word = "planned"
    else:
        word = LONG[node.state]
    return word + ("*" if node.silent and node.state != "DOWN" else "")


def state_compact(node: NodeRecord) -> str:
    long = state_long(node)
    plain = long.rstrip("*")
    return COMPACT.get(plain, plain) + long[len(plain) :]


def state_complete(node: NodeRecord) -> str:
    return "+".join([LONG[node.state], *(flag.lower() for flag in node.flags)])


class NodeGroup(msgspec.Struct):
    """A line: nodes of one partition that equal each other in all that is shown."""

    partition: PartitionRecord
    nodes: list[NodeRecord] = []

    @property
    def first(self) -> NodeRecord:
        return self.nodes[0]

    def aiot(self, count: Callable[[NodeRecord], int]) -> tuple[int, int, int, int]:
        """Allocated, idle, other, total."""
        used = idle = other = 0
        for node in self.nodes:
            amount = count(node)
            if node.state == "DOWN" or (node.drained and node.state == "IDLE"):
                other += amount
            elif node.state == "IDLE":
                idle += amount
            else:
                used += amount
        return used, idle, other, used + idle + other


def _nodes_aiot(group: NodeGroup) -> str:
    return "/".join(map(str, group.aiot(lambda _: 1)))


def _cpus_aiot(group: NodeGroup) -> str:
    used = idle = other = 0
    for node in group.nodes:
        used += node.cpus_used
        if node.state == "DOWN" or node.drained:
            other += node.cpus - node.cpus_used
        else:
            idle += node.cpus - node.cpus_used
    return f"{used}/{idle}/{other}/{used + idle + other}"


def _span(read: Callable[[NodeRecord], int]) -> Callable[[NodeGroup], str]:
    """One number where all nodes agree, else the least with a plus, as sinfo does for sizes."""

    def show(group: NodeGroup) -> str:
        values = [read(node) for node in group.nodes]
        if not values:
            return "0"
        least, most = min(values), max(values)
        return str(least) if least == most else f"{least}+"

    return show


def _range(read: Callable[[NodeRecord], int]) -> Callable[[NodeGroup], str]:
    def show(group: NodeGroup) -> str:
        values = [read(node) for node in group.nodes] or [0]
        least, most = min(values), max(values)
        return str(least) if least == most else f"{least}-{most}"

    return show


def _of_first(read: Callable[[NodeRecord], str], absent: str = "") -> Callable[[NodeGroup], str]:
    return lambda group: read(group.first) if group.nodes else absent


def _limit(seconds: int | None) -> str:
    return "infinite" if seconds is None else short_duration(seconds)


def _list_of(read: Callable[[NodeRecord], str]) -> Callable[[NodeGroup], str]:
    return lambda group: hostlist.compress(read(node) for node in group.nodes)


def names(moments: Moments, cluster: str, *, convert: bool = True) -> dict[str, ShownField]:
    """The fields of ``-O``."""
    return {**_of_nodes(moments, convert), **_of_partition(cluster)}


def _of_nodes(moments: Moments, convert: bool) -> dict[str, ShownField]:
    def reason_time(node: NodeRecord) -> str:
        return moments.text(node.reason_s, "Unknown")

    return {
        "allocmem": ShownField("ALLOCMEM", _range(lambda node: node.memory_used_mib)),
        "comment": ShownField("COMMENT", lambda _: "(null)"),
        "cores": ShownField("CORES", lambda _: "1"),
        "cpus": ShownField("CPUS", _span(lambda node: node.cpus)),
        "cpusload": ShownField("CPU_LOAD", lambda _: "N/A"),
        "cpusstate": ShownField("CPUS(A/I/O/T)", _cpus_aiot),
        "disk": ShownField("TMP_DISK", _span(lambda node: node.disk_mib)),
        "extra": ShownField("EXTRA", lambda _: "(null)"),
        "features": ShownField("AVAIL_FEATURES", _of_first(lambda n: n.features or "(null)")),
        "features_act": ShownField("ACTIVE_FEATURES", _of_first(lambda n: n.features or "(null)")),
        "freemem": ShownField("FREE_MEM", _range(lambda node: node.memory_free_mib)),
        "gres": ShownField("GRES", _of_first(lambda node: node.gres)),
        "gresused": ShownField("GRES_USED", _of_first(lambda node: node.gres_used)),
        "memory": ShownField("MEMORY", _span(lambda node: node.memory_mib)),
        "nodeaddr": ShownField("NODE_ADDR", _list_of(lambda node: node.address)),
        "nodeai": ShownField("NODES(A/I)", lambda g: "/".join(map(str, g.aiot(lambda _: 1)[:2]))),
        "nodeaiot": ShownField("NODES(A/I/O/T)", _nodes_aiot),
        "nodehost": ShownField("HOSTNAMES", _list_of(lambda node: node.host)),
        "nodelist": ShownField("NODELIST", _list_of(lambda node: node.name)),
        "nodes": ShownField("NODES", lambda g: count_text(len(g.nodes), convert=convert)),
        "port": ShownField("PORT", lambda _: "6818"),
        "reason": ShownField("REASON", _of_first(lambda node: node.reason or "none", "none")),
        "socketcorethread": ShownField("S:C:T", _of_first(lambda node: f"{node.sockets}:1:1")),
        "sockets": ShownField("SOCKETS", _span(lambda node: node.sockets)),
        "statecompact": ShownField("STATE", _of_first(state_compact, "n/a")),
        "statecomplete": ShownField("STATECOMPLETE", _of_first(state_complete, "n/a")),
        "statelong": ShownField("STATE", _of_first(state_long, "n/a")),
        "threads": ShownField("THREADS", lambda _: "1"),
        "timestamp": ShownField("TIMESTAMP", _of_first(reason_time, "Unknown")),
        "user": ShownField("USER", _of_first(lambda node: node.reason_by or "Unknown", "Unknown")),
        "userlong": ShownField("USER", _of_first(_user_long, "Unknown")),
        "version": ShownField("VERSION", lambda _: "22.05.8"),
        "weight": ShownField("WEIGHT", lambda _: "1"),
    }


def _user_long(node: NodeRecord) -> str:
    return f"{node.reason_by}(0)" if node.reason_by else "Unknown"


def _of_partition(cluster: str) -> dict[str, ShownField]:
    def starred(group: NodeGroup) -> str:
        return group.partition.name + ("*" if group.partition.default else "")

    return {
        "allocnodes": ShownField("ALLOCNODES", lambda _: "all"),
        "available": ShownField("AVAIL", lambda g: _available(g.partition)),
        "cluster": ShownField("CLUSTER", lambda _: cluster),
        "defaulttime": ShownField("DEFAULTTIME", lambda g: _default_time(g.partition)),
        "groups": ShownField("GROUPS", lambda _: "all"),
        "maxcpuspernode": ShownField("MAX_CPUS_PER_NODE", lambda _: "UNLIMITED"),
        "oversubscribe": ShownField("OVERSUBSCRIBE", lambda _: "NO"),
        "partition": ShownField("PARTITION", starred),
        "partitionname": ShownField("PARTITION", lambda g: g.partition.name),
        "preemptmode": ShownField("PREEMPT_MODE", lambda g: g.partition.preempts),
        "priorityjobfactor": ShownField("PRIO_JOB_FACTOR", lambda _: "1"),
        "prioritytier": ShownField("PRIO_TIER", lambda g: str(g.partition.priority)),
        "root": ShownField("ROOT", lambda _: "no"),
        "share": ShownField("OVERSUBSCRIBE", lambda _: "NO"),
        "size": ShownField("JOB_SIZE", lambda _: "1-infinite"),
        "time": ShownField("TIMELIMIT", lambda g: _limit(g.partition.max_time_s)),
    }


def _available(partition: PartitionRecord) -> str:
    return {"INACTIVE": "inact"}.get(partition.state, partition.state.lower())


def _default_time(partition: PartitionRecord) -> str:
    seconds = partition.default_time_s
    return "n/a" if seconds is None else short_duration(seconds)


LETTERS = {
    "a": "available",
    "A": "nodeai",
    "b": "features_act",
    "B": "maxcpuspernode",
    "c": "cpus",
    "C": "cpusstate",
    "d": "disk",
    "D": "nodes",
    "e": "freemem",
    "E": "reason",
    "f": "features",
    "F": "nodeaiot",
    "g": "groups",
    "G": "gres",
    "h": "oversubscribe",
    "H": "timestamp",
    "I": "priorityjobfactor",
    "l": "time",
    "L": "defaulttime",
    "m": "memory",
    "M": "preemptmode",
    "n": "nodehost",
    "N": "nodelist",
    "o": "nodeaddr",
    "O": "cpusload",
    "p": "prioritytier",
    "P": "partition",
    "r": "root",
    "R": "partitionname",
    "s": "size",
    "S": "allocnodes",
    "t": "statecompact",
    "T": "statelong",
    "u": "user",
    "U": "userlong",
    "v": "version",
    "V": "cluster",
    "w": "weight",
    "X": "sockets",
    "Y": "cores",
    "z": "socketcorethread",
    "Z": "threads",
}
#: Fields that are one value for a line: nodes that differ in them stand on different lines.
SPLITTING = frozenset(
    {
        "statecompact",
        "statelong",
        "statecomplete",
        "features",
        "features_act",
        "gres",
        "gresused",
        "reason",
        "timestamp",
        "user",
        "userlong",
        "nodehost",
        "nodeaddr",
        "allocmem",
        "socketcorethread",
    }
)


#: Fields that partitions may differ in.
OF_PARTITION = frozenset(_of_partition(""))


def chosen(
    parts: list[LinePart[NodeGroup]], named: dict[str, ShownField], names: frozenset[str]
) -> list[ShownField]:
    """Those of a layout's fields that are among the named ones."""
    wanted = {id(named[name]) for name in names}
    return [part.field for part in parts if part.field and id(part.field) in wanted]
