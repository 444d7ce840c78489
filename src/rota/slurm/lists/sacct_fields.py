"""The fields of accounting: what sacct shows of a job, and of each of its steps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from rota import hostlist
from rota.digits import is_digits
from rota.slurm.formats.layout import TableColumn
from rota.slurm.records.tres import by_name
from rota.slurm.words.amounts import Moments, cpu_time, full_duration, size_text
from rota.slurm.words.states import UNFINISHED

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.slurm.records.records import JobRecord, StepRecord

#: Which fields there are unless others are named, with ``-b`` and with ``-l``.
FORMAT = "jobid,jobname,partition,account,alloccpus,state,exitcode"
BRIEF = "jobid,state,exitcode"
LONG = (
    "jobid,jobidraw,jobname,partition,maxvmsize,maxvmsizenode,maxvmsizetask,avevmsize,maxrss,"
    "maxrssnode,maxrsstask,averss,maxpages,maxpagesnode,maxpagestask,avepages,mincpu,mincpunode,"
    "mincputask,avecpu,ntasks,alloccpus,elapsed,state,exitcode,avecpufreq,reqcpufreqmin,"
    "reqcpufreqmax,reqcpufreqgov,reqmem,consumedenergy,maxdiskread,maxdiskreadnode,"
    "maxdiskreadtask,avediskread,maxdiskwrite,maxdiskwritenode,maxdiskwritetask,avediskwrite,"
    "reqtres,alloctres,tresusageinave,tresusageinmax,tresusageinmaxnode,tresusageinmaxtask,"
    "tresusageinmin,tresusageinminnode,tresusageinmintask,tresusageintot,tresusageoutmax,"
    "tresusageoutmaxnode,tresusageoutmaxtask,tresusageoutave,tresusageouttot"
)
#: Every field with its width, in the order in which ``--helpformat`` lists them.
FIELDS = """
Account:10 AdminComment:15 AllocCPUS:10 AllocNodes:10 AllocTRES:10 AssocID:7 AveCPU:10
AveCPUFreq:10 AveDiskRead:14 AveDiskWrite:14 AvePages:10 AveRSS:10 AveVMSize:10 BlockID:16
Cluster:10 Comment:14 Constraints:19 ConsumedEnergy:14 ConsumedEnergyRaw:17 Container:19
CPUTime:10 CPUTimeRAW:10 DBIndex:10 DerivedExitCode:15 Elapsed:10 ElapsedRaw:10 Eligible:19
End:19 ExitCode:8 Flags:19 GID:6 Group:9 JobID:-12 JobIDRaw:-12 JobName:10 Layout:9
MaxDiskRead:12 MaxDiskReadNode:15 MaxDiskReadTask:15 MaxDiskWrite:12 MaxDiskWriteNode:16
MaxDiskWriteTask:16 MaxPages:8 MaxPagesNode:12 MaxPagesTask:14 MaxRSS:10 MaxRSSNode:10
MaxRSSTask:10 MaxVMSize:10 MaxVMSizeNode:14 MaxVMSizeTask:14 McsLabel:12 MinCPU:10 MinCPUNode:10
MinCPUTask:10 NCPUS:10 NNodes:8 NodeList:15 NTasks:8 Partition:10 Priority:10 QOS:10 QOSRAW:6
Reason:22 ReqCPUFreq:10 ReqCPUFreqGov:13 ReqCPUFreqMax:13 ReqCPUFreqMin:13 ReqCPUS:8 ReqMem:10
ReqNodes:8 ReqTRES:10 Reservation:20 ReservationId:8 Reserved:10 ResvCPU:10 ResvCPURAW:10
Start:19 State:10 Submit:19 SubmitLine:20 Suspended:10 SystemComment:15 SystemCPU:10
Timelimit:10 TimelimitRaw:10 TotalCPU:10 TRESUsageInAve:14 TRESUsageInMax:14
TRESUsageInMaxNode:18 TRESUsageInMaxTask:18 TRESUsageInMin:14 TRESUsageInMinNode:18
TRESUsageInMinTask:18 TRESUsageInTot:14 TRESUsageOutAve:15 TRESUsageOutMax:15
TRESUsageOutMaxNode:19 TRESUsageOutMaxTask:19 TRESUsageOutMin:15 TRESUsageOutMinNode:19
TRESUsageOutMinTask:19 TRESUsageOutTot:15 UID:6 User:9 UserCPU:10 WCKey:10 WCKeyID:10 WorkDir:20
"""
WIDTHS = {name: int(width) for name, width in (entry.split(":") for entry in FIELDS.split())}
#: Fields of later versions: taken, and not listed, as 22.05 has none of them.
LATER = """
Extra:10 FailedNode:20 Licenses:10 Planned:10 PlannedCPU:10 PlannedCPURAW:13 QOSREQ:10 Restarts:8
StdErr:20 StdIn:20 StdOut:20
"""
_LATER_WIDTHS = {name: int(width) for name, width in (entry.split(":") for entry in LATER.split())}
_MEM = re.compile(r"(?<=mem=)(\d+)([KMGTP]?)")


class AccountingRow(NamedTuple):
    """A line: a job, or one of its steps."""

    job: JobRecord
    step: StepRecord | None = None


class Units(NamedTuple):
    """How sizes are to be written."""

    convert: bool = True
    unit: str = ""

    def size(self, mib: int) -> str:
        if not self.convert and not self.unit:
            return str(mib << 20)
        return size_text(mib, unit=self.unit)

    def tres(self, text: str) -> str:
        """Trackable resources by name, their memory in the unit that was asked for."""
        ordered = by_name(text) if text else ""
        if not self.unit:
            return ordered
        return _MEM.sub(lambda found: size_text(_mib(found), unit=self.unit), ordered)


def _mib(found: re.Match[str]) -> int:
    scale = {"G": 1024, "T": 1024**2, "P": 1024**3}.get(found[2], 1)
    return int(found[1]) * scale


def columns(moments: Moments, cluster: str, units: Units) -> dict[str, TableColumn]:
    """The columns by their names in small letters."""
    shows = {
        **_identity(cluster),
        **_times(moments),
        **_amounts(units),
        **_peaks(units),
        **_ends(),
    }
    shows |= _later(shows)
    return {
        name.lower(): TableColumn(name, width, shows.get(name, _nothing))
        for name, width in (*WIDTHS.items(), *_LATER_WIDTHS.items())
    }


def _nothing(_: AccountingRow) -> str:
    return ""


def _of_job(read: Callable[[JobRecord], object]) -> Callable[[AccountingRow], str]:
    """A field that steps do not have."""
    return lambda row: str(read(row.job)) if row.step is None else ""


def _of_both(
    job: Callable[[JobRecord], object], step: Callable[[StepRecord], object]
) -> Callable[[AccountingRow], str]:
    return lambda row: str(job(row.job) if row.step is None else step(row.step))


def job_id(row: AccountingRow) -> str:
    tail = f".{row.step.id}" if row.step is not None else ""
    return row.job.shown_id + tail


def _raw_id(row: AccountingRow) -> str:
    tail = f".{row.step.id}" if row.step is not None else ""
    return f"{row.job.raw_id}{tail}"


def state(row: AccountingRow) -> str:
    """``CANCELLED by 0`` for a job that somebody cancelled."""
    if row.step is not None:
        return row.step.state
    word = row.job.state
    if word == "CANCELLED" and row.job.cancelled_by >= 0:
        return f"CANCELLED by {row.job.cancelled_by}"
    return "RUNNING" if word in ("COMPLETING", "CONFIGURING", "STOPPED") else word


def _worst_step(job: JobRecord) -> str:
    """The highest exit code among what srun started."""
    ended = [(step.exit_code or 0, step.signal) for step in job.steps if is_digits(step.id)]
    code, signal = max(ended, default=(0, 0))
    return f"{code}:{signal}"


def _exit_code(row: AccountingRow) -> str:
    if row.step is not None:
        return "" if row.step.exit_code is None else f"{row.step.exit_code}:{row.step.signal}"
    job = row.job
    if job.state in ("CANCELLED", "TIMEOUT"):
        return "0:0"
    return f"{job.exit_code}:{job.signal}"


def _node_list(row: AccountingRow) -> str:
    nodes = row.job.nodes if row.step is None else row.step.nodes
    return hostlist.compress(nodes) if nodes else "None assigned"


def _identity(cluster: str) -> dict[str, Callable[[AccountingRow], str]]:
    return {
        "Account": lambda row: row.job.account,
        "AdminComment": _of_job(lambda job: job.admin_comment),
        "AssocID": lambda _: "0",
        "Cluster": lambda _: cluster,
        "Comment": _of_job(lambda job: job.comment),
        "Constraints": _of_job(lambda job: job.features),
        "Container": _of_job(lambda job: job.container),
        "DBIndex": lambda row: str(row.job.job_id),
        "Flags": _of_job(lambda job: "SchedMain" if job.nodes else ""),
        "GID": _of_job(lambda job: job.gid),
        "Group": _of_job(lambda job: job.group),
        "JobID": job_id,
        "JobIDRaw": _raw_id,
        "JobName": _of_both(lambda job: job.name, lambda step: step.name),
        "Layout": _of_both(lambda _: "", lambda _: "Unknown"),
        "NodeList": _node_list,
        "Partition": _of_job(lambda job: job.partition),
        "Priority": _of_job(lambda job: job.priority),
        "QOS": _of_job(lambda job: job.qos),
        "QOSRAW": _of_job(lambda _: 1),
        "Reason": _of_job(waiting_reason),
        "Reservation": _of_job(lambda job: job.reservation),
        "SubmitLine": _of_job(lambda job: job.submit_line),
        "UID": _of_job(lambda job: job.uid),
        "User": _of_job(lambda job: job.user),
        "WCKey": _of_job(lambda job: job.wckey),
        "WCKeyID": _of_job(lambda _: 0),
        "WorkDir": _of_job(lambda job: job.workdir),
    }


def _later(
    shows: dict[str, Callable[[AccountingRow], str]],
) -> dict[str, Callable[[AccountingRow], str]]:
    """What later versions have, or call by another name."""
    return {
        "Licenses": _of_job(lambda job: job.licenses),
        "Planned": shows["Reserved"],
        "PlannedCPU": shows["ResvCPU"],
        "PlannedCPURAW": shows["ResvCPURAW"],
        "QOSREQ": shows["QOS"],
        "Restarts": _of_job(lambda job: job.restarts),
        "StdErr": _of_job(lambda job: job.stderr),
        "StdIn": _of_job(lambda job: job.stdin),
        "StdOut": _of_job(lambda job: job.stdout),
    }


def waiting_reason(job: JobRecord) -> str:
    """Accounting keeps why a job waited, not why it ended."""
    return job.reason if job.state == "PENDING" else "None"


def _start(row: AccountingRow, moments: Moments) -> str:
    if row.step is not None:
        return moments.text(row.step.start_s)
    if row.job.state == "PENDING":
        return "Unknown"
    return moments.text(row.job.start_s if row.job.nodes else 0.0, "None")


def _end(row: AccountingRow, moments: Moments) -> str:
    if row.step is not None:
        return moments.text(row.step.end_s)
    over = row.job.state not in UNFINISHED
    return moments.text(row.job.end_s if over else 0.0)


def elapsed_s(row: AccountingRow, now_s: float) -> int:
    if row.step is None:
        return row.job.run_s
    if not row.step.start_s:
        return 0
    return max(0, int(row.step.end_s or now_s) - int(row.step.start_s))


def _cpus(row: AccountingRow) -> int:
    return row.job.cpus if row.step is None else row.step.cpus


def _reserved_s(job: JobRecord, now_s: float) -> int:
    until_s = job.start_s if job.nodes else now_s
    return max(0, int(until_s) - int(job.eligible_s)) if job.eligible_s else 0


def _times(moments: Moments) -> dict[str, Callable[[AccountingRow], str]]:
    now_s = moments.now_s

    def reserved(job: JobRecord) -> int:
        return _reserved_s(job, now_s)

    return {
        "CPUTime": lambda row: full_duration(_cpus(row) * elapsed_s(row, now_s)),
        "CPUTimeRAW": lambda row: str(_cpus(row) * elapsed_s(row, now_s)),
        "Elapsed": lambda row: full_duration(elapsed_s(row, now_s)),
        "ElapsedRaw": lambda row: str(elapsed_s(row, now_s)),
        "Eligible": _of_both(
            lambda job: moments.text(job.eligible_s), lambda step: moments.text(step.start_s)
        ),
        "End": lambda row: _end(row, moments),
        "Reserved": _of_job(lambda job: full_duration(reserved(job))),
        "ResvCPU": _of_job(lambda job: full_duration(job.cpus * reserved(job))),
        "ResvCPURAW": _of_job(lambda job: job.cpus * reserved(job)),
        "Start": lambda row: _start(row, moments),
        "Submit": _of_both(
            lambda job: moments.text(job.submit_s), lambda step: moments.text(step.start_s)
        ),
        "Suspended": lambda row: full_duration(row.job.paused_s if row.step is None else 0),
        "Timelimit": _of_job(lambda job: full_duration(job.limit_s)),
        "TimelimitRaw": _of_job(
            lambda job: "UNLIMITED" if job.limit_s is None else -(-job.limit_s // 60)
        ),
    }


def _amounts(units: Units) -> dict[str, Callable[[AccountingRow], str]]:
    def asked_memory(job: JobRecord) -> str:
        total = job.memory_mib * (job.cpus if job.memory_per_cpu else max(1, job.node_count))
        return size_text(total, unit=units.unit) if total else "0"

    return {
        "AllocCPUS": lambda row: str(_cpus(row)),
        "AllocNodes": _of_both(lambda job: job.node_count if job.nodes else 0, _node_count),
        "AllocTRES": lambda row: units.tres(
            row.job.tres_alloc if row.step is None else row.step.tres
        ),
        "NCPUS": lambda row: str(_cpus(row)),
        "NNodes": _of_both(lambda job: job.node_count, _node_count),
        "NTasks": _of_both(lambda _: "", lambda step: step.tasks),
        "ReqCPUS": lambda row: str(_cpus(row)),
        "ReqMem": _of_job(asked_memory),
        "ReqNodes": _of_both(lambda job: job.node_count, _node_count),
        "ReqTRES": _of_job(lambda job: units.tres(job.tres_req)),
    }


def _node_count(step: StepRecord) -> int:
    return len(step.nodes)


def _of_step(read: Callable[[StepRecord], object]) -> Callable[[AccountingRow], str]:
    """A field that only steps have."""
    return lambda row: "" if row.step is None else str(read(row.step))


def _first_node(step: StepRecord) -> str:
    return step.nodes[0] if step.nodes else ""


def _peaks(units: Units) -> dict[str, Callable[[AccountingRow], str]]:
    def memory(step: StepRecord) -> str:
        return units.size(step.memory_mib) if step.memory_mib else "0"

    def use(step: StepRecord) -> str:
        return f"cpu={full_duration(int(step.cpu_s))},mem={memory(step)}"

    found = {
        "AveCPU": _of_step(lambda step: full_duration(int(step.cpu_s / max(1, step.tasks)))),
        "MinCPU": _of_step(lambda step: full_duration(int(step.cpu_s / max(1, step.tasks)))),
        "AveRSS": _of_step(memory),
        "MaxRSS": _of_step(memory),
        "ConsumedEnergy": lambda _: "0",
        "ConsumedEnergyRaw": lambda _: "0",
    }
    found |= {f"{name}Node": _of_step(_first_node) for name in ("MaxRSS", "MinCPU")}
    found |= {f"{name}Task": _of_step(lambda _: 0) for name in ("MaxRSS", "MinCPU")}
    names = ("TRESUsageInAve", "TRESUsageInMax", "TRESUsageInMin", "TRESUsageInTot")
    return found | {name: _of_step(use) for name in names}


def _ends() -> dict[str, Callable[[AccountingRow], str]]:
    def total(row: AccountingRow) -> str:
        return cpu_time(row.job.cpu_s if row.step is None else row.step.cpu_s)

    frequency = _of_both(lambda _: "Unknown", lambda _: 0)
    names = ("ReqCPUFreq", "ReqCPUFreqGov", "ReqCPUFreqMax", "ReqCPUFreqMin")
    return {
        "DerivedExitCode": _of_job(_worst_step),
        "ExitCode": _exit_code,
        "State": state,
        "SystemCPU": lambda _: cpu_time(0.0),
        "TotalCPU": total,
        "UserCPU": total,
        **dict.fromkeys(names, frequency),
    }
