"""``sacctmgr show``: the tables of accounting."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rota import hostlist
from rota.core.facts.job import ServiceClass
from rota.core.words.units import BANDS
from rota.slurm.accounting.sacctmgr_fields import by_key, key_of
from rota.slurm.call.command import Answer, CommandFailed
from rota.slurm.formats.layout import RuledTable, TableColumn, read_columns
from rota.slurm.records.accounts import (
    ROOT,
    Association,
    association_tree,
    default_account,
    grp_tres,
    known_users,
    tres_kinds,
)
from rota.slurm.records.node_records import default_partition
from rota.slurm.records.wishes import NOBODY, person

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.cluster import Cluster
    from rota.core.facts.tenant import Limits
    from rota.slurm.accounting.sacctmgr_order import AccountOrder
    from rota.slurm.call.view import SlurmView


class Qos(msgspec.Struct, frozen=True, kw_only=True):
    """A QOS: a band of priorities, a service class, or a queue with caps of its own."""

    name: str
    priority: int
    max_jobs: int = 0
    max_jobs_user: int = 0
    max_jobs_account: int = 0
    preempts: bool = False


def qos_list(cluster: Cluster) -> list[Qos]:
    """``normal`` first, then what else a job may name."""
    bands = [Qos(name=name, priority=number) for name, number in BANDS.items()]
    bands.sort(key=lambda one: one.name != "normal")
    classes = [Qos(name=one.value, priority=BANDS["normal"]) for one in ServiceClass]
    known = {one.name for one in (*bands, *classes)} | {default_partition(cluster)}
    queues = [
        Qos(
            name=queue.name,
            priority=queue.priority,
            max_jobs=queue.max_running,
            max_jobs_user=queue.max_per_user,
            max_jobs_account=queue.max_per_project,
            preempts=queue.preempts,
        )
        for queue in cluster.queues.values()
        if queue.name not in known
    ]
    return [*bands, *classes, *queues]


class UserRow(NamedTuple):
    """A user, with one of its associations where they are shown."""

    name: str
    default: str
    admin: bool
    place: Association


class AccountRow(NamedTuple):
    account: str
    place: Association


def show(view: SlurmView, order: AccountOrder) -> Answer:
    """The table of one entity."""
    ways: dict[
        str, Callable[[SlurmView, AccountOrder], tuple[list[NamedTuple] | list[object], _Kind]]
    ] = {
        "account": _accounts,
        "association": _associations,
        "cluster": _clusters,
        "qos": _qos,
        "tres": _tres,
        "user": _users,
    }
    if order.entity == "runawayjobs":
        return Answer(f"Runaway Jobs: No runaway jobs found on cluster {view.cluster_name}\n")
    way = ways.get(order.entity)
    if way is None and order.entity not in EMPTY:
        return Answer()
    rows, kind = way(view, order) if way is not None else ([], _empty(order.entity))
    columns, bad = read_columns(order.format or kind.usual, kind.columns)
    if bad:
        raise CommandFailed(f"Unknown field '{bad}'\n")
    table: RuledTable[object] = RuledTable.asked(columns, order.options)
    lines = [*table.heading(), *map(table.line, rows)]
    return Answer("".join(f"{line}\n" for line in lines))


def _empty(entity: str) -> _Kind:
    columns = [TableColumn(name, width, lambda _: "") for name, width in EMPTY[entity]]
    return _Kind(by_key(columns), ",".join(map(key_of, columns)))


#: Tables that have no row here: their columns, with the width.
EMPTY = {
    "event": (
        *(("Cluster", 10), ("NodeName", -15), ("TimeStart", 19), ("TimeEnd", 19)),
        *(("State", 6), ("Reason", 30), ("User", 10)),
    ),
    "federation": (
        *(("Federation", 10), ("Cluster", 10), ("ID", 2), ("Features", 20), ("FedState", 12)),
    ),
    "problem": (("Cluster", 10), ("Account", 10), ("User", 10), ("Problem", 40)),
    "resource": (
        *(("Name", 10), ("Server", 10), ("Type", 8), ("Count", 6), ("% Allocated", 11)),
        ("ServerType", 10),
    ),
    "transaction": (*(("Time", 19), ("Action", 20), ("Actor", 10), ("Where", 20), ("Info", 20)),),
    "wckey": (("WCKey", 10), ("Cluster", 10), ("User", 10)),
}


class _Kind(NamedTuple):
    """The columns of an entity by name, and those that are shown when nobody names any."""

    columns: dict[str, TableColumn]
    usual: str


def _count(number: int | None) -> str:
    return "" if not number else str(number)


def _limits(place: Association) -> Limits:
    return place.quota.hard


def _place_columns(cluster: str) -> list[TableColumn]:
    """What an association has, whatever table it stands in."""
    return [
        TableColumn("Cluster", 10, lambda row: cluster),
        TableColumn("Account", 10, lambda row: _of(row).account),
        TableColumn("User", 10, lambda row: _of(row).user),
        TableColumn("Partition", 10, lambda _: ""),
        TableColumn("Share", 9, lambda row: str(_of(row).shares)),
        TableColumn("Priority", 10, lambda _: ""),
        TableColumn("GrpJobs", 7, lambda row: "" if _of(row).user else _jobs(row)),
        TableColumn("GrpTRES", 13, lambda row: grp_tres(_limits(_of(row)))),
        TableColumn("GrpSubmit", 9, lambda row: "" if _of(row).user else _queued(row)),
        TableColumn("GrpWall", 11, lambda _: ""),
        TableColumn("GrpTRESMins", 13, _budget),
        TableColumn("MaxJobs", 7, lambda row: _jobs(row) if _of(row).user else ""),
        TableColumn("MaxTRES", 13, lambda _: ""),
        TableColumn("MaxTRESPerNode", 14, lambda _: ""),
        TableColumn("MaxSubmit", 9, lambda row: _queued(row) if _of(row).user else ""),
        TableColumn("MaxWall", 11, lambda _: ""),
        TableColumn("MaxTRESMins", 13, lambda _: ""),
        TableColumn("QOS", 20, lambda _: "normal"),
        TableColumn("Def QOS", 9, lambda row: "normal" if _of(row).account != ROOT else ""),
        TableColumn("GrpTRESRunMin", 13, lambda _: ""),
        TableColumn("ParentName", 10, lambda row: "" if _of(row).user else _of(row).parent),
        TableColumn("ID", 6, lambda _: "0"),
        *[TableColumn(name, width, lambda _: "") for name, width in _OLDER_LIMITS],
    ]


#: Names from before limits were on any resource; the tables of accounts and users still have them.
_OLDER_LIMITS = (
    ("GrpNodes", 8),
    ("GrpCPUs", 8),
    ("GrpMem", 7),
    ("GrpCPUMins", 11),
    ("MaxNodes", 8),
    ("MaxCPUs", 8),
    ("MaxCPUMins", 11),
)
_OLDER_USUAL = "maxjobs,maxnodes,maxcpus,maxsubmit,maxwall,maxcpumins,qos,defqos"


def _of(row: object) -> Association:
    place = row if isinstance(row, Association) else getattr(row, "place", None)
    assert isinstance(place, Association)
    return place


def _jobs(row: object) -> str:
    return _count(_limits(_of(row)).jobs)


def _queued(row: object) -> str:
    return _count(_limits(_of(row)).queued)


def _budget(row: object) -> str:
    hours = _limits(_of(row)).device_hours
    return "" if hours is None else f"gres/gpu={int(hours * 60)}"


def _associations(view: SlurmView, order: AccountOrder) -> tuple[list[object], _Kind]:
    rows: list[object] = []
    tree = "tree" in order.flags
    for place in association_tree(view.cluster):
        if not _wanted(place, order):
            continue
        shown = " " * place.depth + place.account if tree else place.account
        rows.append(msgspec.structs.replace(place, account=shown))
    usual = (
        "cluster,account,user,partition,share,priority,grpjobs,grptres,grpsubmit,grpwall,"
        "grptresmins,maxjobs,maxtres,maxtrespernode,maxsubmit,maxwall,maxtresmins,qos,defqos,"
        "grptresrunmin"
    )
    known = by_key(_place_columns(view.cluster_name))
    if tree:
        known["account"] = known["account"]._replace(width=-20)
    return rows, _Kind(known, usual)


def _wanted(place: Association, order: AccountOrder) -> bool:
    for key, value in (
        (("account", "accounts", "acct"), place.account),
        (("user", "users"), place.user),
    ):
        for name in key:
            if name in order.where and value not in order.where[name].split(","):
                return False
    return True


def _accounts(view: SlurmView, order: AccountOrder) -> tuple[list[object], _Kind]:
    places = [place for place in association_tree(view.cluster) if _wanted(place, order)]
    usual = "account,descr,org"
    if order.flags & {"withassoc", "withass"} or "associations" in order.options:
        usual += (
            ",cluster,parentname,user,share,priority,grpjobs,grpnodes,grpcpus,grpmem,grpsubmit,"
            f"grpwall,grpcpumins,{_OLDER_USUAL}"
        )
    else:
        places = [place for place in places if not place.user]
    places.sort(key=lambda place: place.account)
    rows: list[object] = [
        AccountRow(place.account, place)
        for place in places
        if not order.names or place.account in order.names
    ]
    columns = [
        TableColumn("Account", 10, lambda row: row.account),
        TableColumn("Descr", 20, lambda row: row.account),
        TableColumn("Org", 20, lambda row: row.place.parent or row.account),
        *_place_columns(view.cluster_name)[2:],
        _place_columns(view.cluster_name)[0],
    ]
    return rows, _Kind(by_key(columns), usual)


def _people(cluster: Cluster, names: list[str]) -> list[str]:
    """All users that Rota has heard of, or those of the named ones that may use it."""
    known = known_users(cluster)
    if not names:
        return known
    return [name for name in names if name in known or person(name).uid != NOBODY]


def _users(view: SlurmView, order: AccountOrder) -> tuple[list[object], _Kind]:
    cluster = view.cluster
    tree = association_tree(cluster, order.names)
    detailed = bool(order.flags & {"withassoc", "withass"}) or "associations" in order.options
    rows: list[object] = []
    for name in _people(cluster, order.names):
        mine = [place for place in tree if place.user == name and _wanted(place, order)]
        default = default_account(cluster, name)
        mine.sort(key=lambda place: place.account != default)
        blank = Association(account="", user=name)
        shown = (mine or [blank]) if detailed else [blank]
        rows += [UserRow(name, default, name == "root", place) for place in shown]
    columns = [
        TableColumn("User", 10, lambda row: row.name),
        TableColumn("Def Acct", 10, lambda row: row.default),
        TableColumn("Admin", 9, lambda row: "Administrator" if row.admin else "None"),
        TableColumn("Coord Accounts", 20, lambda _: ""),
        *[one for one in _place_columns(view.cluster_name) if one.name != "User"],
    ]
    usual = "user,defacct,admin"
    if detailed:
        usual += f",cluster,account,partition,share,priority,{_OLDER_USUAL}"
    if any(flag.startswith("withc") for flag in order.flags):
        usual += ",coordaccounts"
    return rows, _Kind(by_key(columns), usual)


def _clusters(view: SlurmView, order: AccountOrder) -> tuple[list[object], _Kind]:
    columns = [
        TableColumn("Cluster", 10, lambda _: view.cluster_name),
        TableColumn("ControlHost", 15, lambda _: "127.0.0.1"),
        TableColumn("ControlPort", 12, lambda _: "6817"),
        TableColumn("RPC", 5, lambda _: "9728"),
        TableColumn("Share", 9, lambda _: "1"),
        *[TableColumn(name, width, lambda _: "") for name, width in _CLUSTER_LIMITS],
        TableColumn("QOS", 20, lambda _: "normal"),
        TableColumn("Def QOS", 9, lambda _: ""),
    ]
    usual = ",".join(map(key_of, columns))
    nodes = view.cluster.nodes
    columns += [
        TableColumn("NodeCount", 9, lambda _: str(len(nodes))),
        TableColumn("Cluster Nodes", 20, lambda _: hostlist.compress(list(nodes))),
        TableColumn("Flags", 20, lambda _: "None"),
    ]
    return [view], _Kind(by_key(columns), usual)


_CLUSTER_LIMITS = (
    ("GrpJobs", 7),
    ("GrpTRES", 13),
    ("GrpSubmit", 9),
    ("MaxJobs", 7),
    ("MaxTRES", 13),
    ("MaxSubmit", 9),
    ("MaxWall", 11),
)


def _qos(view: SlurmView, order: AccountOrder) -> tuple[list[object], _Kind]:
    rows: list[object] = [
        one for one in qos_list(view.cluster) if not order.names or one.name in order.names
    ]
    own = {
        "Name": lambda one: one.name,
        "Descr": lambda one: one.name,
        "Priority": lambda one: str(one.priority),
        "GraceTime": lambda _: "00:00:00",
        "PreemptMode": lambda _: "cluster",
        "UsageFactor": lambda _: "1.000000",
        "GrpJobs": lambda one: _count(one.max_jobs),
        "MaxJobsPU": lambda one: _count(one.max_jobs_user),
        "MaxJobsPA": lambda one: _count(one.max_jobs_account),
    }
    widths = (*_QOS_WIDTHS, ("Descr", 20))
    columns = [TableColumn(name, width, own.get(name, lambda _: "")) for name, width in widths]
    return rows, _Kind(by_key(columns), ",".join(name for name, _ in _QOS_WIDTHS))


_QOS_WIDTHS = (
    ("Name", 10),
    ("Priority", 10),
    ("GraceTime", 10),
    ("Preempt", 10),
    ("PreemptExemptTime", 19),
    ("PreemptMode", 11),
    ("Flags", 40),
    ("UsageThres", 10),
    ("UsageFactor", 11),
    ("GrpTRES", 13),
    ("GrpTRESMins", 13),
    ("GrpTRESRunMin", 13),
    ("GrpJobs", 7),
    ("GrpSubmit", 9),
    ("GrpWall", 11),
    ("MaxTRES", 13),
    ("MaxTRESPerNode", 14),
    ("MaxTRESMins", 13),
    ("MaxWall", 11),
    ("MaxTRESPU", 13),
    ("MaxJobsPU", 9),
    ("MaxSubmitPU", 11),
    ("MaxTRESPA", 13),
    ("MaxJobsPA", 9),
    ("MaxSubmitPA", 11),
    ("MinTRES", 13),
)


def _tres(view: SlurmView, order: AccountOrder) -> tuple[list[object], _Kind]:
    columns = [
        TableColumn("Type", 8, lambda row: row[0]),
        TableColumn("Name", 10, lambda row: row[1]),
        TableColumn("ID", 6, lambda row: str(row[2])),
    ]
    rows: list[object] = [*tres_kinds(view.cluster)]
    return rows, _Kind(by_key(columns), "type,name%15,id")
