"""``scontrol show job``: one job as a block of ``Key=Value``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rota import hostlist
from rota.slurm.formats.layout import harmless
from rota.slurm.orders.options import kept_in
from rota.slurm.records.tres import held_gres, job_gres, ranges
from rota.slurm.words.amounts import Moments, full_duration, size_text

if TYPE_CHECKING:
    from rota.slurm.records.records import JobRecord

NULL = "(null)"
_KEPT = kept_in("scontrol")
_KEYS = re.compile(rf"(?<!\S)({'|'.join(_KEPT)})=(\S*)")


def job_lines(job: JobRecord, moments: Moments, detail: int) -> list[str]:
    """The lines of one job; ``detail`` counts the ``-d``."""
    lines = [
        *_identity(job),
        *_states(job, detail),
        *_times(job, moments),
        *_places(job),
        *_amounts(job, detail),
        *_files(job),
    ]
    return [_with_kept(line, job) for line in lines] if job.kept and _KEPT else lines


def _with_kept(line: str, job: JobRecord) -> str:
    """What was asked for in the place of what says that there is nothing of the kind."""
    return _KEYS.sub(lambda found: f"{found[1]}={job.kept.get(_KEPT[found[1]], found[2])}", line)


def _identity(job: JobRecord) -> list[str]:
    parts = [f"JobId={job.raw_id}"]
    if job.array_id:
        task = job.array_rest or job.array_index
        parts += [f"ArrayJobId={job.array_id}", f"ArrayTaskId={task}"]
        if job.array_cap:
            parts.append(f"ArrayTaskThrottle={job.array_cap}")
    if job.het_id:
        parts += [f"HetJobId={job.het_id}", f"HetJobOffset={job.het_offset}"]
    parts.append(f"JobName={job.name}")
    groups = [f"HetJobIdSet={job.het_ids}"] if job.het_id else []
    return [
        " ".join(parts),
        *groups,
        f"UserId={job.user}({job.uid}) GroupId={job.group}({job.gid}) MCS_label=N/A",
        f"Priority={job.priority} Nice={job.nice} Account={job.account or NULL} QOS={job.qos}",
    ]


def _states(job: JobRecord, detail: int) -> list[str]:
    lines = [
        f"JobState={job.state} Reason={job.reason} Dependency={job.dependency or NULL}",
        f"Requeue={int(job.requeue)} Restarts={job.restarts} BatchFlag={int(job.batch)} "
        f"Reboot=0 ExitCode={job.exit_code}:{job.signal}",
    ]
    return [*lines, "DerivedExitCode=0:0"] if detail else lines


def _times(job: JobRecord, moments: Moments) -> list[str]:
    text = moments.text
    began = job.state != "PENDING" and bool(job.nodes)
    least = full_duration(60 * job.time_min) if job.time_min else "N/A"
    lines = [
        f"RunTime={full_duration(job.run_s)} TimeLimit={full_duration(job.limit_s)} "
        f"TimeMin={least}",
        f"SubmitTime={text(job.submit_s)} EligibleTime={text(job.eligible_s)}",
        f"AccrueTime={text(job.eligible_s)}",
        f"StartTime={text(job.start_s)} EndTime={text(job.end_s)} "
        f"Deadline={text(job.deadline_s, 'N/A')}",
    ]
    if began:
        lines.append(f"PreemptEligibleTime={text(job.start_s)} PreemptTime=None")
    seen_s = job.eligible_s or job.submit_s
    lines.append(
        f"SuspendTime={text(job.suspend_s, 'None')} SecsPreSuspend={job.paused_s} "
        f"LastSchedEval={text(seen_s)} Scheduler=Main"
    )
    return lines


def _places(job: JobRecord) -> list[str]:
    compress = hostlist.compress
    nodes = f"NodeList={compress(job.nodes)}"
    if job.sched_nodes and not job.nodes:
        nodes += f" SchedNodeList={compress(job.sched_nodes)}"
    lines = [
        f"Partition={job.partition} AllocNode:Sid=localhost:0",
        f"ReqNodeList={compress(job.req_nodes) or NULL} "
        f"ExcNodeList={compress(job.exc_nodes) or NULL}",
        nodes,
    ]
    if job.nodes and job.batch:
        lines.append(f"BatchHost={job.nodes[0]}")
    return lines


def _amounts(job: JobRecord, detail: int) -> list[str]:
    per = "CPU" if job.memory_per_cpu else "Node"
    memory = size_text(job.memory_mib) if job.memory_mib else "0"
    shared = "NO" if job.exclusive else "OK"
    lines = [
        f"NumNodes={job.node_range or job.node_count} NumCPUs={job.cpus} NumTasks={job.tasks} "
        f"CPUs/Task={job.cpus_per_task} ReqB:S:C:T=0:0:*:*",
        f"TRES={job.tres_alloc or job.tres_req}",
        f"Socks/Node=* NtasksPerN:B:S:C={job.tasks_per_node}:0:*:* CoreSpec=*",
    ]
    if detail and job.held:
        lines += _holdings(job)
    return [
        *lines,
        f"MinCPUsNode={job.min_cpus_node} MinMemory{per}={memory} MinTmpDiskNode={job.disk_mib}",
        f"Features={job.features or NULL} DelayBoot=00:00:00",
        *([f"Reservation={job.reservation}"] if job.reservation else []),
        f"OverSubscribe={shared} Contiguous=0 Licenses={job.licenses or NULL} Network={NULL}",
    ]


def _holdings(job: JobRecord) -> list[str]:
    lines = [f"JOB_GRES={job_gres(job.held) or NULL}"]
    for held in job.held:
        cores = ranges(held.cpu_ids or range(held.cpus))
        lines.append(
            f"  Nodes={held.node} CPU_IDs={cores} Mem={held.memory_mib} GRES={held_gres(held)}"
        )
    return lines


def _files(job: JobRecord) -> list[str]:
    lines = [
        f"Command={job.command or NULL}",
        f"WorkDir={job.workdir}",
        *([f"Comment={job.comment}"] if job.comment else []),
        f"StdErr={job.stderr}",
        f"StdIn={job.stdin}",
        f"StdOut={job.stdout}",
        "Power=",
    ]
    return [*lines, f"TresPerNode={job.gres}"] if job.gres else lines


def job_block(job: JobRecord, moments: Moments, detail: int, one_line: bool) -> str:
    """The whole text of a job; in one line every word holds a ``=``."""
    lines = [harmless(line) for line in job_lines(job, moments, detail)]
    if one_line:
        return " ".join(line.strip() for line in lines) + " \n"
    return "\n   ".join([*lines, ""]) + "\n\n"
