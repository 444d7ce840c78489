"""``sreport``: how much accounts have used, by what was charged to them day by day."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rota.digits import is_digits
from rota.slurm.accounting import sreport_tables as tables
from rota.slurm.accounting.sreport_tables import Counting
from rota.slurm.call.command import Answer, CommandFailed
from rota.slurm.call.getopt import OptionTable
from rota.slurm.call.opening import about_itself, help_of, read_words, require_cluster
from rota.slurm.call.view import SlurmView
from rota.slurm.formats.layout import RuledTable, find_column
from rota.slurm.words.amounts import Moments, zone_of
from rota.slurm.words.values import moment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rota.slurm.call.command import Call
    from rota.slurm.formats.layout import TableColumn

OPTIONS = OptionTable(
    "a all_clusters: this cluster; there is no other",
    "federation: there is none: this cluster is shown",
    "h help: this text",
    "local: this cluster, which is how it always is",
    "M cluster|clusters=NAMES: this cluster; there is no other",
    "n noheader: no line of headings",
    "p parsable: fields between bars, with one at the end",
    "P parsable2: fields between bars",
    "Q quiet: no messages but errors",
    "t=UNIT: Seconds, Minutes, Hours, Percent, or SecPer, MinPer, HourPer for both",
    "T tres=NAMES: what is counted: cpu, mem, gres/gpu",
    "v verbose: say more",
    "V version: the version of Slurm whose behaviour this is",
    "usage: the names of all options",
)
RULE = "-" * 80
HOUR_S = 3600
_ENDS = "REPORT NAME [NAME=VALUE...]\nReports: cluster, job, reservation, user"


class ReportKind(NamedTuple):
    """One report: its title, whether that tells the length of the window, and its table."""

    title: str
    timed: bool
    table: Callable[[UseReport], Awaitable[tables.UseTable]]


async def sreport(call: Call) -> Answer:
    """Answer one call."""
    options, words = read_words("sreport", OPTIONS, call.request.argv)
    asked = dict(options)
    if told := about_itself("sreport", OPTIONS, asked, _ENDS):
        return told
    if not words:
        return Answer(help_of("sreport", OPTIONS, _ENDS))
    family = next((name for name in _REPORTS if name.startswith(words[0].lower())), "")
    if not family:
        raise CommandFailed(f"invalid keyword: {words[0]}\n")
    if len(words) < 2:
        raise CommandFailed(f"too few arguments for keyword:{words[0]}\n")
    lower = words[1].lower()
    name = next((name for name in _REPORTS[family] if name.startswith(lower)), "")
    if not name:
        raise CommandFailed(f"Not valid report {words[1]}\n{_VALID[family]}\n")
    return await UseReport(call, asked, words[2:]).answer(_REPORTS[family][name])


class UseReport:
    """One report over whole hours."""

    def __init__(self, call: Call, asked: dict[str, str], words: list[str]) -> None:
        self.call = call
        self.asked = asked
        self.view = SlurmView(call.context)
        require_cluster("sreport", asked, self.view.cluster_name)
        self.zone = zone_of(call.env.get("TZ", ""))
        self.moments = Moments(self.view.now_s, self.zone)
        pairs = [word.lower().partition("=") for word in words]
        self.given = {key: value for key, mark, value in pairs if mark}
        self.flags = {key for key, mark, _ in pairs if not mark}
        now_s = self.view.now_s
        self.begin_s = self._hour(self.given.get("start", ""), now_s - now_s % 86400 - 86400)
        self.end_s = self._hour(self.given.get("end", ""), now_s - now_s % 86400)
        self.counting = Counting.asked(asked.get("t", ""), asked.get("tres", ""))

    def _hour(self, text: str, otherwise_s: float) -> float:
        try:
            moment_s = moment(text, self.view.now_s, self.zone, past=True) if text else otherwise_s
        except (ValueError, OverflowError):
            raise CommandFailed(f"sreport: error: Invalid time specification: {text}\n") from None
        return min(moment_s, self.view.now_s + HOUR_S) // HOUR_S * HOUR_S

    async def answer(self, kind: ReportKind) -> Answer:
        sheet = await kind.table(self)
        columns = self._columns(sheet)
        begin, end = self.moments.text(self.begin_s), self.moments.text(self.end_s - 1)
        length = f" ({int(self.end_s - self.begin_s)} secs)" if kind.timed else ""
        title = kind.title.format(top=self.given.get("topcount", "10"))
        head = [RULE, f"{title} {begin} - {end}{length}", sheet.says, RULE]
        table: RuledTable[object] = RuledTable.asked(columns, self.asked)
        lines = [*table.heading(), *map(table.line, sheet.rows)]
        shown = lines if "noheader" in self.asked else [*head, *lines]
        said = "" if self.counting.known else f"unknown time format {self.asked['t']}\n"
        return Answer("".join(f"{line}\n" for line in shown), said)

    def _columns(self, sheet: tables.UseTable) -> list[TableColumn]:
        """The usual ones, or those that ``format=`` names, cut like everything else."""
        found = [sheet.columns[name] for name in sheet.usual]
        if text := self.given.get("format", ""):
            found = []
            for token in filter(None, text.split(",")):
                name, mark, width = token.partition("%")
                column = find_column(tables.OTHER_NAMES.get(name, name), sheet.columns)
                if column is None:
                    raise CommandFailed(f" Unknown field '{name}'\n", 1)
                size = int(width) if mark and is_digits(width) and len(width) < 4 else 0
                found.append(column._replace(width=size or column.width))
            found += [sheet.columns[name] for name in sheet.always]
        plain = not {"parsable", "parsable2"} & self.asked.keys()
        return [
            column._replace(name=column.name[: abs(column.width)]) if plain else column
            for column in found
        ]


async def _utilization(report: UseReport) -> tables.UseTable:
    return tables.cluster_use(report.view, report.counting, report.begin_s, report.end_s)


async def _by_account(report: UseReport) -> tables.UseTable:
    rows = tables.uses(report.view, report.counting, report.begin_s, report.end_s)
    return tables.account_use(rows, report.counting, tree="tree" in report.flags)


async def _by_user(report: UseReport) -> tables.UseTable:
    rows = tables.uses(report.view, report.counting, report.begin_s, report.end_s)
    return tables.user_use(sorted(rows, key=lambda row: row.user), report.counting)


async def _top(report: UseReport) -> tables.UseTable:
    rows = tables.uses(report.view, report.counting, report.begin_s, report.end_s)
    rows.sort(key=lambda row: (-row.used, row.user))
    text = report.given.get("topcount", "10")
    most = int(text) if is_digits(text) and len(text) < 7 else 10
    return tables.user_use(rows[:most], report.counting)


async def _sizes(report: UseReport) -> tables.UseTable:
    bounds = [
        int(text)
        for text in report.given.get("grouping", "50,250,500,1000").split(",")
        if is_digits(text) and len(text) < 10
    ]
    window = (report.begin_s, report.end_s)
    counted = "printjobcount" in report.flags
    return await tables.job_sizes(report.call, report.counting, window, bounds, counted=counted)


async def _reserved(report: UseReport) -> tables.UseTable:
    return tables.reservation_use(report.counting)


async def _none_by_key(report: UseReport) -> tables.UseTable:
    """Keys of workloads are kept with jobs; nothing is charged to them."""
    return tables.user_use([], report.counting)


_BY_ACCOUNT = ReportKind("Cluster/Account/User Utilization", True, _by_account)
_JOB_SIZES = ReportKind("Job Sizes", True, _sizes)
_REPORTS: dict[str, dict[str, ReportKind]] = {
    "cluster": {
        "accountutilizationbyuser": _BY_ACCOUNT,
        "accountutilizationbyqos": _BY_ACCOUNT,
        "userutilizationbyaccount": ReportKind("Cluster/User/Account Utilization", True, _by_user),
        "userutilizationbywckey": ReportKind("Cluster/User/WCKey Utilization", True, _none_by_key),
        "utilization": ReportKind("Cluster Utilization", False, _utilization),
        "wckeyutilizationbyuser": ReportKind("Cluster/WCKey/User Utilization", True, _none_by_key),
    },
    "job": {
        "sizesbyaccount": _JOB_SIZES,
        "sizesbyaccountandwckey": _JOB_SIZES,
        "sizesbywckey": ReportKind("Job Sizes by Wckey", True, _sizes),
    },
    "reservation": {"utilization": ReportKind("Reservation Utilization", False, _reserved)},
    "user": {"topusage": ReportKind("Top {top} Users", True, _top)},
}
_VALID = {
    "cluster": 'Valid cluster reports are, "AccountUtilizationByUser", "UserUtilizationByAccount", '
    '"UserUtilizationByWckey", "Utilization", and "WCKeyUtilizationByUser"',
    "job": 'Valid job reports are, "SizesByAccount, SizesByAccountAndWcKey, and  SizesByWckey"',
    "reservation": 'Valid reservation reports are, "Utilization"',
    "user": 'Valid user reports are, "Top"',
}
