"""``sreport``: how much accounts have used, by what was charged to them day by day."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rota.scheduling.order.share_use import capacity
from rota.slurm.call.command import Answer, CommandFailed
from rota.slurm.call.getopt import OptionTable
from rota.slurm.call.opening import about_itself, read_words
from rota.slurm.call.view import SlurmView
from rota.slurm.formats.layout import RuledTable, TableColumn
from rota.slurm.words.amounts import Moments, zone_of
from rota.slurm.words.values import moment

if TYPE_CHECKING:
    from rota.core.derived.usage import Usage
    from rota.slurm.call.command import Call

OPTIONS = OptionTable(
    "a all_clusters: this cluster; there is no other",
    "h help: this text",
    "M cluster|clusters=NAMES: this cluster; there is no other",
    "n noheader: no line of headings",
    "p parsable: fields between bars, with one at the end",
    "P parsable2: fields between bars",
    "Q quiet: no messages but errors",
    "t=UNIT: Seconds, Minutes or Hours",
    "T tres=NAMES: what is counted: cpu, mem, gres/gpu",
    "v verbose: say more",
    "V version: the version of Slurm whose behaviour this is",
    "usage: the names of all options",
)
RULE = "-" * 80
HOUR_S = 3600
#: Unit of ``-t`` -> seconds, and its name in the title.
_UNITS = {"seconds": (1, "Seconds"), "minutes": (60, "Minutes"), "hours": (3600, "Hours")}


class ReportLine(NamedTuple):
    cluster: str
    account: str
    user: str
    used: int


class Whole(NamedTuple):
    """The use of the whole cluster."""

    cluster: str
    used: int
    idle: int


async def sreport(call: Call) -> Answer:
    """Answer one call."""
    options, words = read_words("sreport", OPTIONS, call.request.argv)
    asked = dict(options)
    if told := about_itself("sreport", OPTIONS, asked, "REPORT [NAME=VALUE...]"):
        return told
    if len(words) < 2:
        raise CommandFailed(f"too few arguments for keyword:{words[0] if words else ''}\n")
    return UseReport(call, asked, words).answer()


class UseReport:
    """One report over whole hours."""

    def __init__(self, call: Call, asked: dict[str, str], words: list[str]) -> None:
        self.asked = asked
        self.view = SlurmView(call.context)
        self.zone = zone_of(call.env.get("TZ", ""))
        self.moments = Moments(self.view.now_s, self.zone)
        self.name = words[1].lower()
        given = dict(word.lower().split("=", 1) for word in words[2:] if "=" in word)
        now_s = self.view.now_s
        self.begin_s = self._hour(given.get("start", ""), now_s - now_s % 86400 - 86400)
        self.end_s = self._hour(given.get("end", ""), now_s - now_s % 86400)
        unit = asked.get("t", "minutes").lower()
        found = next((name for name in _UNITS if name.startswith(unit)), "minutes")
        self.unit_s, self.unit = _UNITS[found]

    def _hour(self, text: str, otherwise_s: float) -> float:
        try:
            moment_s = moment(text, self.view.now_s, self.zone, past=True) if text else otherwise_s
        except (ValueError, OverflowError):
            raise CommandFailed(f"sreport: error: Invalid time specification: {text}\n") from None
        return min(moment_s, self.view.now_s + HOUR_S) // HOUR_S * HOUR_S

    def answer(self) -> Answer:
        if self.name.startswith("util"):
            return self._text("Cluster Utilization", "", self._cluster())
        if self.name.startswith(("accountutil", "userutil", "top")):
            seconds = f" ({int(self.end_s - self.begin_s)} secs)"
            return self._text("Cluster/Account/User Utilization", seconds, self._accounts())
        raise CommandFailed(f"sreport: error: Not valid report {self.name}\n")

    def _text(self, title: str, seconds: str, lines: list[str]) -> Answer:
        begin, end = self.moments.text(self.begin_s), self.moments.text(self.end_s - 1)
        head = [
            RULE,
            f"{title} {begin} - {end}{seconds}",
            f"Usage reported in CPU {self.unit}",
            RULE,
        ]
        shown = lines if "noheader" in self.asked else [*head, *lines]
        return Answer("".join(f"{line}\n" for line in shown))

    def _table(self, columns: list[TableColumn], rows: list[NamedTuple]) -> list[str]:
        table: RuledTable[NamedTuple] = RuledTable.asked(columns, self.asked)
        return [*table.heading(), *map(table.line, rows)]

    def _spent(self, usage: Usage) -> int:
        """Within the window: what came since its begin, less what came since its end."""
        seconds = usage.since(self.begin_s).cpu_s - usage.since(self.end_s).cpu_s
        return int(seconds / self.unit_s)

    def _cluster(self) -> list[str]:
        used = sum(self._spent(usage) for usage in self.view.cluster.accounts.usage.values())
        cpus = capacity(self.view.cluster).cpu_milli / 1000
        whole = int(cpus * max(0.0, self.end_s - self.begin_s) / self.unit_s)
        rows: list[NamedTuple] = [Whole(self.view.cluster_name, used, max(0, whole - used))]
        columns = [
            TableColumn("Cluster", 9, lambda row: row.cluster),
            TableColumn("Allocated", 12, lambda row: str(row.used)),
            TableColumn("Down", 10, lambda _: "0"),
            TableColumn("PLND Down", 10, lambda _: "0"),
            TableColumn("Idle", 12, lambda row: str(row.idle)),
            TableColumn("Planned", 10, lambda _: "0"),
            TableColumn("Reported", 12, lambda row: str(row.used + row.idle)),
        ]
        return self._table(columns, rows)

    def _accounts(self) -> list[str]:
        name = self.view.cluster_name
        rows: list[NamedTuple] = [
            ReportLine(name, usage.project, usage.user, self._spent(usage))
            for usage in self.view.cluster.accounts.usage.values()
            if self._spent(usage)
        ]
        columns = [
            TableColumn("Cluster", 9, lambda row: row.cluster),
            TableColumn("Account", 15, lambda row: row.account),
            TableColumn("Login", 9, lambda row: row.user),
            TableColumn("Proper Name", 15, lambda row: row.user),
            TableColumn("Used", 10, lambda row: str(row.used)),
            TableColumn("Energy", 8, lambda _: "0"),
        ]
        return self._table(columns, rows)
