"""``sshare``: shares and use in the tree of accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.scheduling.order.fairshare import shares_of
from rota.slurm.call.command import Answer, Failed
from rota.slurm.call.getopt import Table as Options
from rota.slurm.call.opening import about_itself, read_words, require_cluster
from rota.slurm.call.view import View
from rota.slurm.formats.layout import Column, Table, read_columns
from rota.slurm.records.accounts import ROOT, Association, association_tree

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.scheduling.order.fairshare import ShareRow
    from rota.slurm.call.command import Call

OPTIONS = Options(
    "a all: all users",
    "A accounts=NAMES: these accounts",
    "e helpformat: the names of all fields",
    "l long: more fields",
    "m partition: partitions of associations; there are none",
    "M clusters|cluster=NAMES: this cluster; there is no other",
    "n noheader: no line of headings",
    "o format=FIELDS: which fields, in which order",
    "p parsable: fields between bars, with one at the end",
    "P parsable2: fields between bars",
    "u users|user|uid=NAMES: these users",
    "U Users: users without accounts",
    "v verbose: say more",
    "V version: the version of Slurm whose behaviour this is",
    "h help: this text",
    "usage: the names of all options",
)
FORMAT = "account,user,rawshares,normshares,rawusage,effectvusage,fairshare"
FORMAT_LONG = (
    "account,user,rawshares,normshares,rawusage,normusage,effectvusage,fairshare,levelfs,"
    "grptresmins,tresrunmins"
)


class Row(msgspec.Struct, frozen=True):
    """An association and how it stands."""

    place: Association
    target: float
    used: float
    ratio: float
    cpu_s: float
    flat: bool

    @property
    def name(self) -> str:
        return self.place.account if self.flat else " " * self.place.depth + self.place.account

    @property
    def leaf(self) -> bool:
        return bool(self.place.user)

    @property
    def above_all(self) -> bool:
        return not self.place.depth


async def sshare(call: Call) -> Answer:
    """Answer one call."""
    options, rest = read_words("sshare", OPTIONS, call.request.argv)
    asked = dict(options)
    if rest:
        raise Failed(f"sshare: error: Unrecognized option: {rest[0]}\n")
    if told := about_itself("sshare", OPTIONS, asked):
        return told
    view = View(call.context)
    require_cluster("sshare", asked, view.cluster_name)
    columns, bad_name = read_columns(asked.get("format") or _usual(asked), _COLUMNS)
    if bad_name:
        raise Failed(f'sshare: error: Invalid field requested: "{bad_name}"\n')
    table: Table[Row] = Table.asked(columns, asked)
    rows = _rows(view, asked, call.actor.user)
    lines = [*table.heading(), *map(table.line, rows)]
    return Answer("".join(f"{line}\n" for line in lines))


def _usual(asked: dict[str, str]) -> str:
    return FORMAT_LONG if "long" in asked else FORMAT


def _rows(view: View, asked: dict[str, str], user: str) -> list[Row]:
    cluster = view.cluster
    stand = {(row.project, row.user): row for row in shares_of(cluster, view.now_s)}
    wanted = set(filter(None, asked.get("users", "").split(","))) or {user}
    places = [*association_tree(cluster), *_without_project(stand)]
    places.sort(key=lambda place: place.account != ROOT)
    rows = [_row(cluster, place, stand, "Users" in asked) for place in places]
    if asked.get("accounts"):
        named = asked["accounts"].split(",")
        rows = [row for row in rows if row.place.account in named]
    if "Users" in asked:
        # Clients take an account from here and submit with it: only such as can be named.
        return [row for row in rows if row.place.user in wanted and row.place.account != ROOT]
    if "all" in asked:
        return rows
    return [row for row in rows if not row.leaf or row.place.user in wanted]


def _without_project(stand: dict[tuple[str, str], ShareRow]) -> list[Association]:
    """Who names no project stands right below the account above all others."""
    return [
        Association(account=ROOT, user=user, depth=1, shares=row.shares)
        for (project, user), row in stand.items()
        if not project and user not in ("", "root")
    ]


def _row(
    cluster: Cluster, place: Association, stand: dict[tuple[str, str], ShareRow], flat: bool
) -> Row:
    project = "" if place.account == ROOT else place.account
    own = stand.get((project, place.user))
    spent = sum(
        usage.recent.cpu_s
        for usage in cluster.accounts.usage.values()
        if (not place.depth or usage.project == place.account) and place.user in ("", usage.user)
    )
    if own is None:
        return Row(place, 0.0, 0.0 if place.depth else 1.0, 0.0, spent, flat)
    return Row(place, own.target, own.used, own.ratio, spent, flat)


def _shares(row: Row) -> str:
    return "" if row.above_all else str(row.place.shares)


def _fair(row: Row) -> str:
    return f"{2.0 ** -min(row.ratio, 1000.0):.6f}" if row.leaf else ""


def _level(row: Row) -> str:
    if row.above_all:
        return ""
    return f"{1 / row.ratio:.6f}" if row.ratio else "inf"


_COLUMNS = {
    column.name.lower(): column
    for column in (
        Column("Account", -20, lambda row: row.name),
        Column("User", 10, lambda row: row.place.user),
        Column("RawShares", 10, _shares),
        Column("NormShares", 11, lambda row: f"{row.target:.6f}"),
        Column("RawUsage", 11, lambda row: str(int(row.cpu_s))),
        Column("NormUsage", 11, lambda row: f"{row.used:.6f}"),
        Column("EffectvUsage", 13, lambda row: f"{row.used:.6f}"),
        Column("FairShare", 10, _fair),
        Column("LevelFS", 10, _level),
        Column("GrpTRESMins", 30, lambda _: ""),
        Column("TRESRunMins", 30, lambda _: ""),
        Column("Cluster", 10, lambda _: "rota"),
    )
}
