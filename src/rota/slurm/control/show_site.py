"""``scontrol show`` of nodes, partitions and reservations, as blocks of ``Key=Value``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota import hostlist
from rota.slurm.formats.layout import harmless
from rota.slurm.records.node_records import reservation_name
from rota.slurm.words.amounts import Moments, full_duration

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.facts.tenant import Reservation
    from rota.slurm.records.records import NodeRecord, PartitionRecord

NULL = "(null)"


def node_block(node: NodeRecord, moments: Moments, one_line: bool, detail: int = 0) -> str:
    features = node.features or NULL
    state = "+".join([node.state, *node.flags, *(["NOT_RESPONDING"] if node.silent else [])])
    lines = [
        f"NodeName={node.name} Arch={node.arch} CoresPerSocket=1 ",
        f"CPUAlloc={node.cpus_used} CPUEfctv={node.cpus} CPUTot={node.cpus} CPULoad=N/A",
        f"AvailableFeatures={features}",
        f"ActiveFeatures={features}",
        f"Gres={node.gres}",
        *(["GresDrain=N/A", f"GresUsed={node.gres_used}"] if detail else []),
        f"NodeAddr={node.address} NodeHostName={node.host} Port=6818 Version=22.05.8",
        f"OS={node.system} ",
        f"RealMemory={node.memory_mib} AllocMem={node.memory_used_mib} "
        f"FreeMem={node.memory_free_mib} Sockets={node.sockets} Boards=1",
        f"State={state} ThreadsPerCore=1 TmpDisk={node.disk_mib} Weight=1 Owner=N/A MCS_label=N/A",
        f"Partitions={','.join(node.partitions)} ",
        f"BootTime={moments.text(node.boot_s)} SlurmdStartTime={moments.text(node.since_s)}",
        f"LastBusyTime={moments.text(node.busy_s)}",
        f"CfgTRES={node.tres}",
        f"AllocTRES={node.tres_used}",
        "CapWatts=n/a",
        "CurrentWatts=0 AveWatts=0",
        "ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s",
    ]
    if node.reason:
        when = moments.text(node.reason_s)
        lines.append(f"Reason={node.reason} [{node.reason_by}@{when}]")
    return _block([harmless(line) for line in lines], one_line)


def license_block(name: str, total: int, used: int) -> str:
    # An admin may say that there are fewer than are in use.
    counts = f"Total={total} Used={used} Free={max(0, total - used)} Reserved=0 Remote=no"
    return f"LicenseName={name}\n    {counts}\n"


def partition_block(part: PartitionRecord, one_line: bool) -> str:
    default = "NONE" if part.default_time_s is None else full_duration(part.default_time_s)
    memory = (
        f"DefMemPerCPU={part.memory_per_cpu_mib}"
        if part.memory_per_cpu_mib
        else "DefMemPerNode=UNLIMITED"
    )
    lines = [
        f"PartitionName={part.name}",
        "AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL",
        f"AllocNodes=ALL Default={'YES' if part.default else 'NO'} QoS=N/A",
        f"DefaultTime={default} DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO",
        f"MaxNodes=UNLIMITED MaxTime={full_duration(part.max_time_s)} MinNodes=0 LLN=NO "
        "MaxCPUsPerNode=UNLIMITED",
        f"Nodes={hostlist.compress(part.nodes)}",
        f"PriorityJobFactor=1 PriorityTier={part.priority} RootOnly=NO ReqResv=NO OverSubscribe=NO",
        f"OverTimeLimit=NONE PreemptMode={part.preempts}",
        f"State={part.state} TotalCPUs={part.cpus} TotalNodes={len(part.nodes)} "
        "SelectTypeParameters=NONE",
        f"JobDefaults={NULL}",
        f"{memory} MaxMemPerNode=UNLIMITED",
        f"TRES={part.tres}",
    ]
    return _block(lines, one_line)


def reservation_block(item: Reservation, cluster: Cluster, moments: Moments, one_line: bool) -> str:
    """A reservation of nodes, or of devices on one of them."""
    nodes = item.nodes or ((item.node,) if item.node else ())
    known = [cluster.nodes[name] for name in nodes if name in cluster.nodes]
    cpus = sum(max(1, node.spec.cpu_milli // 1000) for node in known)
    length = full_duration(int(item.end_s - item.start_s))
    state = "ACTIVE" if item.start_s <= moments.now_s < item.end_s else "INACTIVE"
    lines = [
        f"ReservationName={reservation_name(item)} StartTime={moments.text(item.start_s)} "
        f"EndTime={moments.text(item.end_s)} Duration={length}",
        f"Nodes={hostlist.compress(nodes) or NULL} NodeCnt={len(nodes)} CoreCnt={cpus} "
        f"Features={NULL} PartitionName={NULL} Flags=SPEC_NODES",
        f"TRES=cpu={cpus}",
        f"Users={item.owner or NULL} Groups={NULL} Accounts={item.project or NULL} "
        f"Licenses={NULL} State={state} BurstBuffer={NULL} Watts=n/a",
        f"MaxStartDelay={NULL}",
    ]
    return _block(lines, one_line)


def _block(lines: list[str], one_line: bool) -> str:
    if one_line:
        return " ".join(lines) + "\n"
    return "\n   ".join(lines) + "\n\n"
