"""The tables of ``sreport``: what was charged within a window, counted in the unit asked for."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.scheduling.order.share_use import capacity
from rota.slurm.call.view import SlurmView
from rota.slurm.formats.layout import TableColumn
from rota.slurm.records.accounts import ROOT
from rota.slurm.records.gather import JobSieve, ended, unfinished
from rota.slurm.records.job_records import Recorder
from rota.slurm.records.job_refs import RefIndex

if TYPE_CHECKING:
    from rota.core.derived.usage import Spent
    from rota.slurm.call.command import Call

#: Unit of ``-t`` -> seconds and its name; whether a part of the whole is told as well.
_UNITS = {"seconds": (1, "Seconds"), "minutes": (60, "Minutes"), "hours": (3600, "Hours")}
_PART = "Percentage of Total"
#: Names that are no beginning of a heading.
OTHER_NAMES = {"accounts": "account", "res": "planned", "reserved": "planned"}
_WIDTH, _WIDE = 8, 17


class Counting(NamedTuple):
    """What is counted, and how amounts are written."""

    unit_s: int
    unit: str
    whole: bool
    part: bool
    #: Kinds of resources that were named; none: CPUs.
    tres: tuple[str, ...]
    #: Whether the unit is one; minutes stand for what is none.
    known: bool = True

    @classmethod
    def asked(cls, unit: str, tres: str) -> Counting:
        """``Hours``, ``percent``, ``HourPer``; a word that is no unit means minutes."""
        lower = unit.lower() or "minutes"
        both = next((name for name in _UNITS if lower == f"{name[:-1][:4]}per"), "")
        both = both or {"secper": "seconds", "minper": "minutes"}.get(lower, "")
        part = bool(both) or "percent".startswith(lower)
        found = next((name for name in _UNITS if name.startswith(lower)), "")
        seconds, name = _UNITS[both or found or "minutes"]
        kinds = tuple(filter(None, tres.lower().split(",")))
        known = bool(found or part)
        kinds = _ALL if "all" in kinds else kinds
        return cls(seconds, name, bool(both) or not part, part, kinds, known)

    @property
    def kinds(self) -> tuple[str, ...]:
        return self.tres or ("cpu",)

    @property
    def says(self) -> str:
        if not self.whole:
            return f"Usage reported in {_PART}"
        kind = "TRES" if self.tres else "CPU"
        return f"Usage reported in {kind} {self.unit}" + (f"/{_PART}" if self.part else "")

    @property
    def width(self) -> int:
        return _WIDE if self.whole and self.part else _WIDTH

    def text(self, seconds: float, whole_s: float) -> str:
        amount = str(int(seconds / self.unit_s))
        part = f"{100 * seconds / whole_s if whole_s else 0:.2f}%"
        if self.whole and self.part:
            return f"{amount}({part})"
        return amount if self.whole else part


_ALL = ("cpu", "mem", "gres/gpu", "billing")


class UseTable(NamedTuple):
    """A table before it is laid out: which columns there are, and which are usual."""

    says: str
    columns: dict[str, TableColumn]
    usual: list[str]
    rows: list[Any]
    #: Columns that come whichever are asked for.
    always: tuple[str, ...] = ()


class Use(NamedTuple):
    """What one user has used of one kind, for one account."""

    cluster: str
    account: str
    user: str
    tres: str
    used: float
    whole: float


def _spent(spent: Spent, kind: str) -> float:
    """Seconds of CPUs or devices, MiB-seconds of memory."""
    if kind == "cpu":
        return spent.cpu_s
    if kind == "mem":
        return spent.memory_gib_s * 1024
    if kind == "billing":
        return spent.cost
    return spent.device_s if kind.startswith("gres/gpu") else 0.0


def _whole(view: SlurmView, kind: str, length_s: float) -> float:
    """All that there was of a kind within the window."""
    amount = capacity(view.cluster)
    counts = {"cpu": amount.cpu_milli / 1000, "mem": float(amount.memory_mib)}
    gpus = sum(len(node.spec.devices) for node in view.cluster.nodes.values())
    return (counts | {"gres/gpu": float(gpus)}).get(kind, 0.0) * max(0.0, length_s)


def uses(view: SlurmView, counting: Counting, begin_s: float, end_s: float) -> list[Use]:
    """What came since the begin of the window, less what came since its end."""
    found = []
    for usage in view.cluster.accounts.usage.values():
        first, last = usage.since(begin_s), usage.since(end_s)
        for kind in counting.kinds:
            used = _spent(first, kind) - _spent(last, kind)
            if int(used / counting.unit_s) or (used > 0 and not counting.whole):
                whole = _whole(view, kind, end_s - begin_s)
                account = usage.project or ROOT
                found.append(Use(view.cluster_name, account, usage.user, kind, used, whole))
    return sorted(found, key=lambda use: (use.account, use.user))


def _columns(counting: Counting, *, tree: bool = False) -> dict[str, TableColumn]:
    return {
        "cluster": TableColumn("Cluster", 9, lambda use: use.cluster),
        "account": TableColumn("Account", -20 if tree else 15, lambda use: use.account),
        "login": TableColumn("Login", 9, lambda use: use.user),
        "propername": TableColumn("Proper Name", 15, lambda use: use.user),
        "tresname": TableColumn("TRES Name", 14, lambda use: use.tres),
        "used": TableColumn("Used", counting.width, lambda use: counting.text(use.used, use.whole)),
        "energy": TableColumn("Energy", _WIDTH, lambda _: "0"),
    }


def _ends(counting: Counting) -> list[str]:
    return ["tresname", "used"] if counting.tres else ["used", "energy"]


def account_use(rows: list[Use], counting: Counting, *, tree: bool) -> UseTable:
    """Each account with the sum of its users, who follow it."""
    sums: dict[tuple[str, str], float] = defaultdict(float)
    for use in rows:
        sums[use.account, use.tres] += use.used
    shown: list[Use] = []
    told: set[str] = set()
    for use in rows:
        if use.account not in told:
            told.add(use.account)
            shown += [
                use._replace(user="", tres=kind, used=sums[use.account, kind])
                for kind in counting.kinds
                if (use.account, kind) in sums
            ]
        shown.append(use._replace(account=f" {use.account}") if tree else use)
    usual = ["cluster", "account", "login", "propername", *_ends(counting)]
    return UseTable(counting.says, _columns(counting, tree=tree), usual, shown)


def user_use(rows: list[Use], counting: Counting) -> UseTable:
    usual = ["cluster", "login", "propername", "account", *_ends(counting)]
    return UseTable(counting.says, _columns(counting), usual, rows)


class Whole(NamedTuple):
    """The use of the whole cluster, of one kind."""

    cluster: str
    tres: str
    used: float
    whole: float


def cluster_use(view: SlurmView, counting: Counting, begin_s: float, end_s: float) -> UseTable:
    rows = []
    spent = list(view.cluster.accounts.usage.values())
    for kind in counting.kinds if end_s > begin_s else ():
        used = sum(
            _spent(one.since(begin_s), kind) - _spent(one.since(end_s), kind) for one in spent
        )
        whole = max(used, _whole(view, kind, end_s - begin_s))
        rows.append(Whole(view.cluster_name, kind, used, whole))
    width = counting.width

    def share(name: str, used: int = 0, whole: int = 0) -> TableColumn:
        """A part of what was used, and of all that there was."""

        def show(row: Whole) -> str:
            return counting.text(used * row.used + whole * row.whole, row.whole)

        return TableColumn(name, width, show)

    columns = {
        "cluster": TableColumn("Cluster", 9, lambda row: row.cluster),
        "tresname": TableColumn("TRES Name", 14, lambda row: row.tres),
        "allocated": share("Allocated", 1),
        "down": share("Down"),
        "plnddown": share("PLND Down"),
        "idle": share("Idle", -1, 1),
        "planned": share("Planned"),
        "reported": share("Reported", 0, 1),
        "overcommitted": share("Over Comm"),
    }
    counted = ["allocated", "down", "plnddown", "idle", "planned", "reported"]
    named = ["tresname"] if counting.tres else []
    return UseTable(counting.says, columns, ["cluster", *named, *counted], rows)


def reservation_use(counting: Counting) -> UseTable:
    """Nothing is charged to reservations, which hold room and do not use it."""
    widths = (
        *(("Cluster", 9), ("Name", 9), ("Start", 19), ("End", 19)),
        *(("TRES Name", 14), ("Allocated", 20), ("Idle", 20)),
    )
    columns = {
        name.lower().replace(" ", ""): TableColumn(name, width, lambda _: "")
        for name, width in widths
    }
    return UseTable(f"Usage reported in TRES {counting.unit}", columns, list(columns), [])


async def job_sizes(
    call: Call,
    counting: Counting,
    window: tuple[float, float],
    bounds: list[int],
    *,
    counted: bool,
) -> UseTable:
    """How much jobs of which size have used, by account; or how many they were."""
    sums: dict[str, list[float]] = {}
    total = 0.0
    begin_s, end_s = window
    view = SlurmView(call.context)
    recorder = Recorder(call.context, view.now_s, actor=call.actor)
    wanted = JobSieve(refs=RefIndex())
    await call.context.host.on_disk()
    for job in (
        *await unfinished(call.context.host, wanted, recorder),
        *await ended(call.context.host, wanted, recorder, begin_s),
    ):
        length_s = min(job.start_s + job.run_s, end_s) - max(job.start_s, begin_s)
        if not job.start_s or length_s < 0:
            continue
        amount = 1.0 if counted else job.cpus * length_s
        place = sum(job.cpus >= bound for bound in bounds)
        sums.setdefault(job.account or ROOT, [0.0] * (len(bounds) + 1))[place] += amount
        total += amount
    return _sizes(sums, total, bounds, view.cluster_name, counting, counted)


def _sizes(
    sums: dict[str, list[float]],
    total: float,
    bounds: list[int],
    cluster: str,
    counting: Counting,
    counted: bool,
) -> UseTable:
    unit_s = 1 if counted else counting.unit_s

    def size(name: str, place: int) -> TableColumn:
        return TableColumn(name, 13, lambda row: str(int(row[1][place] / unit_s)))

    lows = [0, *bounds]
    names = [f"{low}-{high - 1} CPUs" for low, high in zip(lows, bounds, strict=False)]
    groups = {
        f"#{place}": size(name, place) for place, name in enumerate([*names, f">= {lows[-1]} CPUs"])
    }
    columns = {
        "cluster": TableColumn("Cluster", 9, lambda _: cluster),
        "account": TableColumn("Account", 9, lambda row: row[0]),
        **groups,
        "%": TableColumn(
            "% of cluster", 12, lambda row: f"{100 * sum(row[1]) / total if total else 0:.2f}%"
        ),
    }
    says = "Units are in number of jobs ran" if counted else f"Time reported in {counting.unit}"
    always = (*groups, "%")
    return UseTable(says, columns, list(columns), sorted(sums.items()), always)
