"""``sinfo``: partitions and the nodes in them, alike ones on one line."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from rota import hostlist
from rota.slurm.call.command import Answer, CommandFailed
from rota.slurm.call.getopt import OptionTable
from rota.slurm.call.opening import about_itself, fill_in, read_words, require_cluster
from rota.slurm.call.view import SlurmView
from rota.slurm.formats.documents import node_document, partition_document
from rota.slurm.formats.later import later_groups
from rota.slurm.formats.layout import Layout, Read, read_long, read_percent
from rota.slurm.formats.repeating import repeated
from rota.slurm.formats.shown_document import shape_asked
from rota.slurm.lists.sinfo_fields import (
    LETTERS,
    OF_PARTITION,
    SPLITTING,
    NodeGroup,
    chosen,
    names,
    state_long,
)
from rota.slurm.records.node_records import node_records, partition_records
from rota.slurm.words.amounts import Moments, full_duration, zone_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.slurm.call.command import Call
    from rota.slurm.formats.layout import ShownField
    from rota.slurm.formats.shown_document import DocumentShape
    from rota.slurm.records.records import NodeRecord, PartitionRecord

OPTIONS = OptionTable(
    "a all: hidden partitions, too; there are none",
    "d dead: nodes that do not answer",
    "e exact: nodes together only if they are alike",
    "federation: there is none: this cluster is shown",
    "h noheader: no line of headings",
    "hide: no hidden partitions",
    "i iterate=SECONDS: again and again, every SECONDS seconds",
    "json=?VERSION: a JSON document, with the keys of this version",
    "l long: more fields",
    "local: this cluster, which is how it always is",
    "M clusters|cluster=NAMES: this cluster; there is no other",
    "n nodes=HOSTS: these nodes",
    "noconvert: sizes in the unit that they are kept in",
    "N Node: a line for each node",
    "o format=FIELDS: which fields, in which order",
    "O Format=FIELDS: the same by their long names",
    "p partition=NAMES: these partitions",
    "r responding: nodes that answer",
    "R list-reasons: why nodes are down or drained",
    "s summarize: partitions with counts of nodes only",
    "S sort=FIELDS: in the order of these fields; - turns it round",
    "t states=STATES: nodes in these states",
    "T reservation: reservations",
    "v verbose: say more",
    "V version: the version of Slurm whose behaviour this is",
    "yaml=?VERSION: a YAML document",
    "help: this text",
    "usage: the names of all options",
    later=("F future: nodes to come; there are none",),
)
#: Option -> the variable that stands in for it.
VARIABLES = {
    "all": "SINFO_ALL",
    "clusters": "SLURM_CLUSTERS",
    "partition": "SINFO_PARTITION",
    "sort": "SINFO_SORT",
}
FORMAT = "%9P %.5a %.10l %.6D %.6t %N"
FORMAT_LONG = "%9P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N"
FORMAT_NODES = "%N %.6D %.9P %6t"
FORMAT_NODES_LONG = "%N %.6D %.9P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E"
FORMAT_REASONS = "%20E %9u %19H %N"
FORMAT_REASONS_LONG = "%20E %12U %19H %6t %N"
FORMAT_SUMMARY = "%9P %.5a %.10l %.16F %N"
#: States that ``-t`` may name, with what they mean here.
STATES: dict[str, Callable[[NodeRecord], bool]] = {
    "ALLOCATED": lambda node: node.state in ("ALLOCATED", "MIXED") and not node.drained,
    "ALLOC": lambda node: node.state == "ALLOCATED" and not node.drained,
    "MIXED": lambda node: node.state == "MIXED",
    "IDLE": lambda node: node.state == "IDLE" and not node.drained,
    "PLANNED": lambda node: "PLANNED" in node.flags,
    "DOWN": lambda node: node.state == "DOWN",
    "DRAIN": lambda node: node.drained,
    "DRAINED": lambda node: node.drained and node.state == "IDLE",
    "DRAINING": lambda node: node.drained and node.state != "IDLE",
    "NO_RESPOND": lambda node: node.silent,
    "RESPONDING": lambda node: not node.silent,
}
_SHORT = {"MIX": "MIXED", "PLND": "PLANNED", "DRNG": "DRAINING", "UNK": "UNKNOWN"}
_NEVER = frozenset(
    [
        "COMP",
        "COMPLETING",
        "FAIL",
        "FUTURE",
        "FUTR",
        "MAINT",
        "REBOOT",
        "RESV",
        "RESERVED",
        "UNKNOWN",
        "POWER_DOWN",
        "POWERING_DOWN",
        "POWERED_DOWN",
        "POWERING_UP",
        "POWER_UP",
        "BLOCKED",
        "PERFCTRS",
        "NPC",
        "INVAL",
    ]
)


async def sinfo(call: Call) -> Answer:
    """Answer one call."""
    # Words that are no options mean nothing, as in Slurm.
    options, _rest = read_words("sinfo", OPTIONS, call.request.argv)
    asked = dict(options)
    if told := about_itself("sinfo", OPTIONS, asked):
        return told
    fill_in(OPTIONS, asked, call.env, VARIABLES)

    async def once() -> Answer:
        return await NodeListing(call, asked).answer()

    return await repeated(call, asked, once) if "iterate" in asked else await once()


class NodeListing:
    """One listing."""

    def __init__(self, call: Call, asked: dict[str, str]) -> None:
        self.asked = asked
        self.view = SlurmView(call.context)
        require_cluster("sinfo", asked, self.view.cluster_name)
        env = call.env
        pattern = env.get("SLURM_TIME_FORMAT", "")
        self.moments = Moments(self.view.now_s, zone_of(env.get("TZ", "")), pattern)
        self._usual = env.get("SINFO_FORMAT", "")
        host = call.context.host
        self.nodes = node_records(host.cluster, host.scheduler.promises.kept)
        self.partitions = partition_records(host.cluster)
        self.errors: list[str] = []
        self.shape = shape_asked("sinfo", asked, env)

    async def answer(self) -> Answer:
        asked = self.asked
        if "reservation" in asked:
            return self._reservations()
        shown = [node for node in self.nodes if self._takes(node)]
        if self.shape is not None:
            return await self._document(shown, self.shape)
        layout = self._layout()
        groups = self._sorted(self._groups(shown, layout))
        lines = [] if "noheader" in asked else self._heading(layout)
        lines += [layout.line(group) for group in groups]
        return Answer("".join(f"{line}\n" for line in lines), "".join(self.errors))

    async def _document(self, shown: list[NodeRecord], shape: DocumentShape) -> Answer:
        nodes = [node_document(node) for node in shown]
        if not shape.is_later:
            return await shape.answer("nodes", nodes)
        wanted = set(filter(None, self.asked.get("partition", "").split(",")))
        parts = [
            partition_document(part)
            for part in self.partitions
            if not wanted or part.name in wanted
        ]
        groups = later_groups(parts, nodes, self.view.cluster_name)
        return await shape.answer("sinfo", groups, command="sinfo")

    def _heading(self, layout: Layout[NodeGroup]) -> list[str]:
        named = [f"CLUSTER: {self.view.cluster_name}"] if "clusters" in self.asked else []
        dated = [self.moments.date_line()] if "long" in self.asked else []
        return [*named, *dated, layout.header()]

    def _layout(self) -> Layout[NodeGroup]:
        asked = self.asked
        named = self._fields = names(self.moments, "N/A", convert="noconvert" not in asked)
        read: Read[NodeGroup]
        letters = {letter: named[name] for letter, name in LETTERS.items()}
        if asked.get("Format", "").lower() == "all":
            read = read_percent("%all", letters)
        elif "Format" in asked:
            read = read_long(asked["Format"], named)
        else:
            read = read_percent(asked.get("format") or self._usual_format(), letters)
        self.errors += [
            f"sinfo: error: Invalid job format specification: {word}\n"
            if "Format" in asked
            else f"Invalid node format specification: {word}\n"
            for word in read.unknown
        ]
        return read.layout

    def _usual_format(self) -> str:
        asked, long = self.asked, "long" in self.asked
        if "summarize" in asked:
            return FORMAT_SUMMARY
        if "list-reasons" in asked:
            return FORMAT_REASONS_LONG if long else FORMAT_REASONS
        if "Node" in asked:
            width = max([9, *(len(node.name) for node in self.nodes)])
            return (FORMAT_NODES_LONG if long else FORMAT_NODES).replace("%N", f"%{width}N", 1)
        return self._usual or (FORMAT_LONG if long else FORMAT)

    def _takes(self, node: NodeRecord) -> bool:
        asked = self.asked
        if asked.get("nodes") and node.name not in self._named:
            return False
        if "list-reasons" in asked and not node.reason:
            return False
        if "responding" in asked and node.silent:
            return False
        if "dead" in asked and not node.silent:
            return False
        tests = self._states
        return not tests or any(test(node) for test in tests)

    @cached_property
    def _named(self) -> frozenset[str]:
        try:
            return frozenset(hostlist.expand(self.asked["nodes"]))
        except ValueError:
            raise CommandFailed(
                f"sinfo: error: Invalid node name {self.asked['nodes']}\n"
            ) from None

    @cached_property
    def _states(self) -> list[Callable[[NodeRecord], bool]]:
        text = self.asked.get("states", "")
        if not text or text.lower() == "all":
            return []
        found: list[Callable[[NodeRecord], bool]] = []
        for word in filter(None, text.replace("&", ",").split(",")):
            upper = word.upper().rstrip("*~#!%$@^-")
            name = _SHORT.get(upper, upper)
            test = STATES.get(name)
            if test is None and name not in _NEVER:
                raise CommandFailed(
                    f'sinfo: error: Bad state string: "{word}"\n'
                    f"sinfo: error: valid states: {','.join(STATES).lower()}\n"
                )
            found.append(test or (lambda _: False))
        return found

    def _groups(self, nodes: list[NodeRecord], layout: Layout[NodeGroup]) -> list[NodeGroup]:
        splitting = chosen(layout.parts, self._fields, SPLITTING)
        if "summarize" in self.asked:
            return [NodeGroup(part, nodes) for part in self._partitions(layout)]
        groups: list[NodeGroup] = []
        for part in self._partitions(layout):
            groups += _alike(part, nodes, splitting, "Node" in self.asked)
        # A partition without nodes has its line, but no reason to give.
        return [group for group in groups if group.nodes or "list-reasons" not in self.asked]

    def _partitions(self, layout: Layout[NodeGroup]) -> list[PartitionRecord]:
        """Those asked for; of such that print the same only the first, unless by node."""
        wanted = set(filter(None, self.asked.get("partition", "").split(",")))
        parts = [part for part in self.partitions if not wanted or part.name in wanted]
        if "Node" in self.asked:
            return parts
        fields = chosen(layout.parts, self._fields, OF_PARTITION)
        found = {
            tuple(field.show(NodeGroup(part)) for field in fields): part for part in parts[::-1]
        }
        return [part for part in parts if part in found.values()]

    def _sorted(self, groups: list[NodeGroup]) -> list[NodeGroup]:
        if "Node" in self.asked:
            order = {node.name: place for place, node in enumerate(self.nodes)}
            groups.sort(key=lambda group: order[group.first.name] if group.nodes else -1)
        return groups

    def _reservations(self) -> Answer:
        head = (
            "RESV_NAME     STATE           START_TIME             END_TIME     DURATION  NODELIST"
        )
        cluster, now_s = self.view.cluster, self.view.now_s
        if not cluster.reservations:
            return Answer("No reservations in the system\n")
        lines = [] if "noheader" in self.asked else [head]
        for item in cluster.reservations.values():
            state = "ACTIVE" if item.start_s <= now_s < item.end_s else "INACTIVE"
            nodes = hostlist.compress(item.nodes or ((item.node,) if item.node else ()))
            begin, end = self.moments.text(item.start_s), self.moments.text(item.end_s)
            length = full_duration(int(item.end_s - item.start_s))
            name = item.note or f"r{item.id}"
            lines.append(f"{name:<10}{state:>8}  {begin:>19}  {end:>19}  {length:>11}  {nodes}")
        return Answer("".join(f"{line}\n" for line in lines))


def _alike(
    part: PartitionRecord, nodes: list[NodeRecord], splitting: list[ShownField], single: bool
) -> list[NodeGroup]:
    """The nodes of a partition in groups that print the same."""
    found: dict[Any, NodeGroup] = {}
    for node in nodes:
        alone = NodeGroup(part, [node])
        key = (node.name if single else "", *(field.show(alone) for field in splitting))
        found.setdefault(key, NodeGroup(part, [])).nodes.append(node)
    if not found and not single:
        return [NodeGroup(part, [])]
    return sorted(found.values(), key=lambda group: _ORDER.get(state_long(group.first), 9))


#: Lines come by state: what is out of order first.
_ORDER = {
    "down": 0,
    "drained": 1,
    "draining": 2,
    "planned": 3,
    "mixed": 4,
    "allocated": 5,
    "idle": 6,
}
