"""``sstat``: what the steps of running jobs use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.digits import is_digits
from rota.slurm.call.command import Answer, CommandFailed
from rota.slurm.call.getopt import OptionTable
from rota.slurm.call.opening import about_itself, read_words, require_cluster
from rota.slurm.call.view import SlurmView
from rota.slurm.formats.layout import RuledTable, TableColumn, field_list, read_columns
from rota.slurm.lists.sacct_fields import AccountingRow, Units, columns
from rota.slurm.records.gather import JobSieve, unfinished
from rota.slurm.records.job_records import Recorder
from rota.slurm.records.job_refs import JobRef, RefIndex, parse_ref, split_refs
from rota.slurm.words.amounts import Moments

if TYPE_CHECKING:
    from rota.slurm.call.command import Call
    from rota.slurm.records.records import JobRecord, StepRecord

OPTIONS = OptionTable(
    "a allsteps: all steps of the jobs",
    "e helpformat: the names of all fields",
    "h help: this text",
    "i pidformat: the processes of steps",
    "j jobs|job=IDS: these jobs and steps",
    "M clusters|cluster=NAMES: this cluster; there is no other",
    "n noheader: no line of headings",
    "noconvert: sizes in the unit that they are kept in",
    "o format|fields=FIELDS: which fields, in which order",
    "p parsable: fields between bars, with one at the end",
    "P parsable2: fields between bars",
    "usage: the names of all options",
    "v verbose: say more",
    "V version: the version of Slurm whose behaviour this is",
)
#: Fields that sstat shares with sacct, in its own order; the widths are those of sacct.
_NAMES = """
JobID MaxVMSize MaxVMSizeNode MaxVMSizeTask AveVMSize MaxRSS MaxRSSNode MaxRSSTask AveRSS
MaxPages MaxPagesNode MaxPagesTask AvePages MinCPU MinCPUNode MinCPUTask AveCPU NTasks
AveCPUFreq ReqCPUFreqMin ReqCPUFreqMax ReqCPUFreqGov ConsumedEnergy MaxDiskRead
MaxDiskReadNode MaxDiskReadTask AveDiskRead MaxDiskWrite MaxDiskWriteNode MaxDiskWriteTask
AveDiskWrite TRESUsageInAve TRESUsageInMax TRESUsageInMaxNode TRESUsageInMaxTask
TRESUsageInMin TRESUsageInMinNode TRESUsageInMinTask TRESUsageInTot TRESUsageOutAve
TRESUsageOutMax TRESUsageOutMaxNode TRESUsageOutMaxTask TRESUsageOutMin TRESUsageOutMinNode
TRESUsageOutMinTask TRESUsageOutTot
"""
FIELDS = tuple(_NAMES.split())


async def sstat(call: Call) -> Answer:
    """Answer one call."""
    options, rest = read_words("sstat", OPTIONS, call.request.argv, hint=False)
    asked = dict(options)
    if told := about_itself("sstat", OPTIONS, asked):
        return told
    view = SlurmView(call.context)
    require_cluster("sstat", asked, view.cluster_name)
    known = _known(view, asked)
    if "helpformat" in asked:
        names = sorted(column.name for column in known.values())
        return Answer(field_list(names, 19))
    chosen, bad_name = read_columns(asked.get("format") or _usual(asked), known)
    if bad_name:
        raise CommandFailed(f'sstat: error: Invalid field requested: "{bad_name}"\n')
    table: RuledTable[AccountingRow] = RuledTable.asked(chosen, asked)
    rows, errors = await _rows(call, view, ",".join([asked.get("jobs", ""), *rest]), asked)
    lines = [*table.heading(), *map(table.line, rows)]
    return Answer("".join(f"{line}\n" for line in lines), errors)


def _usual(asked: dict[str, str]) -> str:
    return "jobid,nodelist,pids" if "pidformat" in asked else ",".join(FIELDS)


def _known(view: SlurmView, asked: dict[str, str]) -> dict[str, TableColumn]:
    of_jobs = columns(Moments(view.now_s), view.cluster_name, Units("noconvert" not in asked))
    nodes = of_jobs["nodelist"]._replace(name="Nodelist", width=20)
    pids = TableColumn("Pids", 20, _pids)
    found = {name.lower(): of_jobs[name.lower()] for name in FIELDS}
    return found | {"nodelist": nodes, "pids": pids}


def _pids(row: AccountingRow) -> str:
    return ",".join(map(str, row.step.pids)) if row.step is not None else ""


async def _rows(
    call: Call, view: SlurmView, text: str, asked: dict[str, str]
) -> tuple[list[AccountingRow], str]:
    refs = []
    for word in split_refs(text):
        ref = parse_ref(word)
        if ref is None:
            raise CommandFailed(f"sstat: fatal: Bad job/step specified: {word}\n")
        refs.append(ref)
    if not refs:
        raise CommandFailed("sstat: error: You didn't give me any jobs to stat.\n")
    recorder = Recorder(call.context, view.now_s, actor=call.actor, steps=True)
    wanted = JobSieve(refs=RefIndex(refs), steps=True)
    jobs = await unfinished(call.context.host, wanted, recorder)
    rows: list[AccountingRow] = []
    errors = ""
    for ref in refs:
        mine = [job for job in jobs if ref.names(job)]
        found = [AccountingRow(job, step) for job in mine for step in _steps(job, ref, asked)]
        if not mine or not (found or ref.step):
            errors += f"sstat: error: No steps running for job {ref.id}\n"
        elif not found:
            errors += f"sstat: error: StepId={ref.id}.{ref.step} not found running.\n"
        rows += found
    return rows, errors


def _steps(job: JobRecord, ref: JobRef, asked: dict[str, str]) -> list[StepRecord]:
    """All that run with ``-a``; the one that was named; else the first numbered one."""
    running = [step for step in job.steps if step.state == "RUNNING"]
    if ref.step:
        return [step for step in running if step.id == ref.step]
    if "allsteps" in asked:
        order = {"extern": 0, "batch": 1}
        return sorted(running, key=lambda step: order.get(step.id, 2))
    return [step for step in running if is_digits(step.id)][:1]
