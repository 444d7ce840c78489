"""``sshare``: shares and use in the tree of accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.scheduling.order.fairshare import shares_of
from rota.slurm.call.command import Answer, CommandFailed
from rota.slurm.call.getopt import OptionTable
from rota.slurm.call.opening import about_itself, read_words, require_cluster
from rota.slurm.call.view import SlurmView
from rota.slurm.formats.layout import RuledTable, TableColumn, field_list, read_columns
from rota.slurm.records.accounts import ROOT, Association, association_tree

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.scheduling.order.fairshare import ShareRow
    from rota.slurm.call.command import Call

OPTIONS = OptionTable(
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
    "h: the same as --noheader",
    "help: this text",
    "usage: the names of all options",
)
FORMAT = "account,user,rawshares,normshares,rawusage,effectvusage,fairshare"
FORMAT_LONG = (
    "account,user,rawshares,normshares,rawusage,normusage,effectvusage,fairshare,levelfs,"
    "grptresmins,tresrunmins"
)


class AccountShareRow(msgspec.Struct, frozen=True):
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
    if "h" in asked:
        asked["noheader"] = ""
    if rest:
        raise CommandFailed(f"sshare: error: Unrecognized option: {rest[0]}\n")
    if told := about_itself("sshare", OPTIONS, asked):
        return told
    if "helpformat" in asked:
        return Answer(field_list(sorted(column.name for column in _COLUMNS.values()), 17))
    view = SlurmView(call.context)
    require_cluster("sshare", asked, view.cluster_name)
    columns, bad_name = read_columns(asked.get("format") or _usual(asked), _COLUMNS)
    if bad_name:
        raise CommandFailed(f'sshare: error: Invalid field requested: "{bad_name}"\n')
    table: RuledTable[AccountShareRow] = RuledTable.asked(columns, asked)
    rows = _rows(view, asked, call.actor.user)
    lines = [*table.heading(), *map(table.line, rows)]
    return Answer("".join(f"{line}\n" for line in lines))


def _usual(asked: dict[str, str]) -> str:
    usual = FORMAT_LONG if "long" in asked else FORMAT
    return usual.replace("user,", "user,partition,") if "partition" in asked else usual


def _rows(view: SlurmView, asked: dict[str, str], user: str) -> list[AccountShareRow]:
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
) -> AccountShareRow:
    project = "" if place.account == ROOT else place.account
    own = stand.get((project, place.user))
    spent = sum(
        usage.recent.cpu_s
        for usage in cluster.accounts.usage.values()
        if (not place.depth or usage.project == place.account) and place.user in ("", usage.user)
    )
    if own is None:
        return AccountShareRow(place, 0.0, 0.0 if place.depth else 1.0, 0.0, spent, flat)
    return AccountShareRow(place, own.target, own.used, own.ratio, spent, flat)


def _shares(row: AccountShareRow) -> str:
    return "" if row.above_all else str(row.place.shares)


def _fair(row: AccountShareRow) -> str:
    return f"{2.0 ** -min(row.ratio, 1000.0):.6f}" if row.leaf else ""


def _level(row: AccountShareRow) -> str:
    if row.above_all:
        return ""
    return f"{1 / row.ratio:.6f}" if row.ratio else "inf"


_COLUMNS = {
    column.name.lower(): column
    for column in (
        TableColumn("Account", -20, lambda row: row.name),
        TableColumn("User", 10, lambda row: row.place.user),
        TableColumn("Partition", 12, lambda _: ""),
        TableColumn("RawShares", 10, _shares),
        TableColumn("NormShares", 11, lambda row: f"{row.target:.6f}"),
        TableColumn("RawUsage", 11, lambda row: str(int(row.cpu_s))),
        TableColumn("NormUsage", 11, lambda row: f"{row.used:.6f}"),
        TableColumn("EffectvUsage", 13, lambda row: f"{row.used:.6f}"),
        TableColumn("FairShare", 10, _fair),
        TableColumn("LevelFS", 10, _level),
        TableColumn("GrpTRESMins", 30, lambda _: ""),
        TableColumn("GrpTRESRaw", 30, lambda _: ""),
        TableColumn("TRESRunMins", 30, lambda _: ""),
        TableColumn("Cluster", 10, lambda _: "rota"),
    )
}
