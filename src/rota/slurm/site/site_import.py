"""Reads what describes a Slurm site: ``slurm.conf``, ``gres.conf`` and ``sacctmgr dump``.

Pure: texts come in, a description comes out, and what could not be read is named with its line.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import msgspec

from rota import hostlist
from rota.digits import is_digits

if TYPE_CHECKING:
    from collections.abc import Iterator

_NODE = re.compile(r"\w[\w.-]*")
_PAIR = re.compile(r"^[A-Za-z][\w\[\]]*=")
_DUMP = re.compile(r"^(?:sacctmgr: )?(Cluster|Parent|Account|User) - '([^']*)'(.*)$")
_SETTING = re.compile(r":(\w+)=('(?:[^']*)'|[^:]*)")


class SiteNode(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    cpus: int = 1
    memory_mib: int = 0
    features: tuple[str, ...] = ()
    gpus: int = 0
    gpu_type: str = ""


class SitePartition(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    nodes: tuple[str, ...] = ()
    default: bool = False
    #: Higher tiers go first.
    tier: int = 1
    max_time: str = ""
    state: str = "UP"


class SiteAccount(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    parent: str = ""
    shares: int = 1
    limits: dict[str, str] = {}


class SiteUser(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    account: str
    limits: dict[str, str] = {}


class ImportedSite(msgspec.Struct, kw_only=True):
    """All that was read."""

    cluster: str = ""
    settings: dict[str, str] = {}
    nodes: list[SiteNode] = []
    partitions: list[SitePartition] = []
    accounts: list[SiteAccount] = []
    users: list[SiteUser] = []
    #: What was not understood, each with its place.
    strange: list[str] = []


def read_site(conf: str, gres: str = "", dump: str = "") -> ImportedSite:
    """The description of a site."""
    site = ImportedSite()
    nodes, parts = dict[str, str](), dict[str, str]()
    for number, words in _lines(conf):
        pairs = _pairs(site, words, f"slurm.conf:{number}")
        first = next(iter(pairs), "")
        if first == "nodename":
            nodes = _take_nodes(site, pairs, nodes, f"slurm.conf:{number}")
        elif first == "partitionname":
            parts = _take_partition(site, pairs, parts, f"slurm.conf:{number}")
        else:
            site.settings |= pairs
    site.cluster = site.settings.get("clustername", "")
    _take_gres(site, gres)
    _take_dump(site, dump)
    return site


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Lines with their numbers, comments taken out and continued ones joined."""
    held, begun = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        plain = re.sub(r"(?<!\\)#.*", "", line).strip()
        begun = begun or number
        if plain.endswith("\\"):
            held += plain[:-1] + " "
            continue
        whole, first = held + plain, begun
        held, begun = "", 0
        if whole.strip():
            yield first, _words(whole)


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def _pairs(site: ImportedSite, words: list[str], place: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        if not _PAIR.match(word):
            site.strange.append(f"{place}: '{word}' is no Key=Value")
            continue
        key, _, value = word.partition("=")
        found[key.lower()] = value
    return found


def _names(site: ImportedSite, text: str, place: str) -> tuple[str, ...]:
    try:
        return hostlist.expand(text)
    except ValueError as error:
        site.strange.append(f"{place}: {error}")
        return ()


def _take_nodes(
    site: ImportedSite, pairs: dict[str, str], defaults: dict[str, str], place: str
) -> dict[str, str]:
    """Add the nodes of a line; a line about ``DEFAULT`` gives what later ones begin with."""
    if pairs["nodename"].upper() == "DEFAULT":
        return defaults | {key: value for key, value in pairs.items() if key != "nodename"}
    held = defaults | pairs
    sizes = [_whole(held.get(key, "1")) for key in ("sockets", "corespersocket", "threadspercore")]
    cpus = _whole(held.get("cpus") or held.get("procs") or str(sizes[0] * sizes[1] * sizes[2]))
    gpus, model = _gpus(held.get("gres", ""))
    features = tuple(filter(None, (held.get("features") or held.get("feature", "")).split(",")))
    site.nodes += [
        SiteNode(
            name=name,
            cpus=max(1, cpus),
            memory_mib=_whole(held.get("realmemory", "0")),
            features=features,
            gpus=gpus,
            gpu_type=model,
        )
        for name in _node_names(site, pairs["nodename"], place)
    ]
    return defaults


def _node_names(site: ImportedSite, text: str, place: str) -> list[str]:
    """Names that can be names of files, too."""
    names = _names(site, text, place)
    odd = [name for name in names if not _NODE.fullmatch(name)]
    site.strange += [f"{place}: '{name[:60]}' is no name of a node" for name in odd]
    return [name for name in names if name not in odd]


def _gpus(text: str) -> tuple[int, str]:
    """``gpu:h200:4`` or ``gpu:4``."""
    for part in text.split(","):
        name, *rest = part.split("(")[0].split(":")
        if name == "gpu":
            count = _whole(rest[-1]) if rest and is_digits(rest[-1]) else 1
            return count, rest[0] if rest and not is_digits(rest[0]) else ""
    return 0, ""


def _whole(text: str) -> int:
    return int(text) if is_digits(text) and len(text) < 10 else 0


def _take_partition(
    site: ImportedSite, pairs: dict[str, str], defaults: dict[str, str], place: str
) -> dict[str, str]:
    if pairs["partitionname"].upper() == "DEFAULT":
        return defaults | {key: value for key, value in pairs.items() if key != "partitionname"}
    held = defaults | pairs
    nodes = held.get("nodes", "")
    every = tuple(node.name for node in site.nodes)
    site.partitions.append(
        SitePartition(
            name=pairs["partitionname"],
            nodes=every if nodes.upper() in ("ALL", "") else _names(site, nodes, place),
            default=held.get("default", "").upper() == "YES",
            tier=_whole(held.get("prioritytier") or held.get("priority", "1")) or 1,
            max_time=held.get("maxtime", ""),
            state=held.get("state", "UP").upper(),
        )
    )
    return defaults


def _take_gres(site: ImportedSite, text: str) -> None:
    """Devices that gres.conf counts, for nodes whose own line does not."""
    counts: dict[str, tuple[int, str]] = {}
    for number, words in _lines(text):
        place = f"gres.conf:{number}"
        pairs = _pairs(site, words, place)
        if pairs.get("name") != "gpu":
            continue
        files = _names(site, pairs["file"], place) if "file" in pairs else ()
        count = _whole(pairs.get("count", "")) or len(files) or 1
        every = ",".join(node.name for node in site.nodes)
        for name in _names(site, pairs.get("nodename", every), place):
            before, model = counts.get(name, (0, ""))
            counts[name] = (before + count, pairs.get("type", model))
    site.nodes = [
        msgspec.structs.replace(node, gpus=counts[node.name][0], gpu_type=counts[node.name][1])
        if node.name in counts and not node.gpus
        else node
        for node in site.nodes
    ]


def _take_dump(site: ImportedSite, text: str) -> None:
    parent = ""
    for number, line in enumerate(text.splitlines(), 1):
        plain = line.strip()
        if not plain or plain.startswith("#"):
            continue
        found = _DUMP.match(plain)
        if found is None:
            site.strange.append(f"dump:{number}: '{plain[:60]}' is no line of a dump")
            continue
        kind, name, rest = found.groups()
        values = {key.lower(): value.strip("'") for key, value in _SETTING.findall(rest)}
        if kind == "Parent":
            parent = name
        elif kind == "Account" and name != "root":
            above = "" if parent in ("", "root") else parent
            shares = _whole(values.get("fairshare", "1")) or 1
            limits = _limits(values)
            site.accounts.append(SiteAccount(name=name, parent=above, shares=shares, limits=limits))
        elif kind == "User":
            site.users.append(SiteUser(name=name, account=parent, limits=_limits(values)))


def _limits(values: dict[str, str]) -> dict[str, str]:
    wanted = ("grptres", "grpjobs", "grpsubmitjobs", "maxjobs", "maxsubmitjobs", "grptresmins")
    return {key: values[key] for key in wanted if values.get(key)}
