"""Which tasks of a step run where, and what each of them finds in its environment."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

from rota.controller.launches.world import LOOPBACK, per_node
from rota.hostlist import compress, expand
from rota.slurm.call.command import CommandFailed, NotServed
from rota.slurm.words.patterns import fill

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rota.core.cluster import Cluster
    from rota.core.facts.job import Job
    from rota.core.facts.node import Allocation
    from rota.slurm.orders.orders import JobOrder


class StepMember(NamedTuple):
    """What a job holds on one node: the share of one of its members."""

    task: int
    node: str
    held: Allocation
    #: What programs there call the devices that are held.
    devices: tuple[str, ...] = ()
    #: Where the node is reached by others; empty: it never said.
    address: str = ""


class StepPlace(NamedTuple):
    """Where one task runs, and what it runs."""

    rank: int
    member: StepMember
    node_rank: int
    local_rank: int
    #: Which part of the command line it belongs to.
    part: int


class StepPart(NamedTuple):
    """One command of a step; of a heterogeneous one there are several."""

    order: JobOrder
    argv: list[str]
    members: list[StepMember]
    #: With ``--multi-prog``: what each task runs, by its rank.
    programs: Mapping[int, list[str]] = {}

    def argv_of(self, rank: int) -> list[str]:
        return self.programs[rank] if self.order.has("multi-prog") else self.argv


class StepPlan(NamedTuple):
    """A step, before it begins."""

    job: Job
    #: Its number, which it gets when it is about to begin.
    step: int
    parts: tuple[StepPart, ...]
    nodes: tuple[str, ...]
    places: tuple[StepPlace, ...]
    cpus: int

    @property
    def name(self) -> str:
        """What ``-J`` says; else the command."""
        first = self.parts[0]
        return first.order.text("job-name") or first.argv[0].rpartition("/")[2]

    @property
    def members(self) -> list[StepMember]:
        """Everybody who starts tasks of it."""
        return list(dict.fromkeys(place.member for place in self.places))

    def on(self, member: StepMember) -> list[StepPlace]:
        return [place for place in self.places if place.member == member]

    @property
    def per_node(self) -> str:
        counts = dict.fromkeys(self.nodes, 0)
        for place in self.places:
            counts[place.member.node] += 1
        return per_node(counts.values())


def members_of(cluster: Cluster, job: Job, group: int | None = None) -> list[StepMember]:
    """Who holds what, in the order of the job's tasks; of one group of a heterogeneous job."""
    found, first = [], 0
    for number, role in enumerate(job.spec.roles):
        last = first + role.count
        if group in (None, number):
            for task in job.tasks[first:last]:
                if (attempt := task.current) is not None and attempt.live:
                    held = attempt.allocation
                    node = cluster.nodes[held.node].spec
                    devices = node.seen_by_holder(held.devices)
                    found.append(StepMember(task.index, held.node, held, devices, node.address))
        first = last
    return found


def cpus_held(member: StepMember) -> int:
    return max(1, member.held.cpu_milli // 1000)


def plan_step(job: Job, parts: list[StepPart], taken: Mapping[int, int]) -> StepPlan:
    """Spread the tasks of each part over its members; ranks are counted through.

    ``taken`` says how many CPUs of each member other steps hold: the others come first.
    """
    places: list[StepPlace] = []
    cpus = 0
    ranks: dict[str, int] = {}
    local: dict[str, int] = {}
    for number, part in enumerate(parts):
        members, ntasks = _spread(job, part, taken)
        cpus += ntasks * (part.order.cpus_per_task or 1)
        for member in members:
            ranks.setdefault(member.node, len(ranks))
        for member in _dealt(members, ntasks, part.order.distribution):
            local_rank = local.get(member.node, 0)
            local[member.node] = local_rank + 1
            node_rank = ranks[member.node]
            places.append(StepPlace(len(places), member, node_rank, local_rank, number))
        _check_programs(part, places)
    return StepPlan(job, 0, tuple(parts), tuple(ranks), tuple(places), cpus)


def _dealt(members: list[StepMember], ntasks: int, how: str) -> Iterator[StepMember]:
    """The member of each task: in blocks, or with ``cyclic`` one after the other."""
    if how == "cyclic":
        yield from (members[rank % len(members)] for rank in range(ntasks))
        return
    even, more = divmod(ntasks, len(members))
    for place, member in enumerate(members):
        yield from repeat(member, even + (place < more))


def _check_programs(part: StepPart, places: list[StepPlace]) -> None:
    for place in places if part.order.has("multi-prog") else ():
        if place.rank not in part.programs:
            text = f"{part.argv[0]}: no program for task {place.rank}"
            raise CommandFailed(f"srun: error: {text}\n", 1)


def _spread(job: Job, part: StepPart, taken: Mapping[int, int]) -> tuple[list[StepMember], int]:
    """The members that a part uses, and how many tasks it has; ``Failed`` when they do not fit."""
    order = part.order
    needed = order.cpus_per_task or 1
    if order.ntasks and order.nodes_min > order.ntasks:
        order.warnings.append(
            f"srun: Warning: can't run {order.ntasks} processes on {order.nodes_min} nodes, "
            f"setting nnodes to {order.ntasks}\n"
        )
        order.nodes_min = order.nodes_max = order.ntasks
    free_first = sorted(
        part.members, key=lambda member: cpus_held(member) - taken.get(member.task, 0) < needed
    )
    members = _chosen(job, order, free_first)
    ntasks = order.ntasks or len(members) * (order.ntasks_per_node or 1)
    members = members[: min(len(members), ntasks)]
    total = sum(map(cpus_held, members))
    shares = order.has("overcommit") or order.has("overlap") or order.has("oversubscribe")
    if ntasks * needed > total and not shares:
        raise _refused(job, "More processors requested than permitted")
    _check_held(job, order, members)
    return members, ntasks


def _check_held(job: Job, order: JobOrder, members: list[StepMember]) -> None:
    """A step cannot have more memory or GPUs than its job has where it runs."""
    for member in members:
        asked_mib = order.mem_mb or order.mem_per_cpu_mb * (order.cpus_per_task or 1)
        if 0 < member.held.memory_mib < asked_mib:
            raise _refused(job, "Memory required by task is not available")
        held = len(member.held.devices)
        if order.gpus_per_node > held:
            asked = f"gres_per_node=gpu:{order.gpus_per_node}"
            more = f"is more than the job's gres_per_node=gpu:{held}"
            why = f"Step requested {asked} {more}" if held else _NO_GPUS
            raise _refused(job, _GRES, f"srun: error: {why}\n")
    if order.gpus > sum(len(member.held.devices) for member in members):
        raise _refused(job, _GRES)


_GRES = "Invalid generic resource (gres) specification"
_NO_GPUS = "Step requested GRES but job doesn't have GRES"


def _chosen(job: Job, order: JobOrder, members: list[StepMember]) -> list[StepMember]:
    named = order.text("nodelist")
    if order.nodes_min > len(members) > 0:
        text = f"Only allocated {len(members)} nodes asked for {order.nodes_min}"
        raise NotServed(f"srun: error: {text}\n")
    if not members:
        raise _refused(job, "Requested node configuration is not available")
    if order.relative >= len(members):
        raise _refused(job, "Requested node configuration is not available")
    if not named:
        return members[order.relative :][: order.nodes_max or len(members)]
    try:
        wanted = expand(named)
    except ValueError:
        raise _refused(job, "Invalid node name specified") from None
    if not set(wanted) <= {member.node for member in members}:
        raise _refused(job, "Requested node configuration is not available")
    return [member for member in members if member.node in wanted]


def _refused(job: Job, reason: str, before: str = "") -> NotServed:
    line = f"srun: error: Unable to create step for job {job.id}: {reason}\n"
    return NotServed(before + line)


def task_environment(plan: StepPlan, place: StepPlace) -> dict[str, str | None]:
    """What is different for each task; None takes a variable away."""
    order = plan.parts[place.part].order
    nodes = compress(plan.nodes)
    here = [str(one.rank) for one in plan.places if one.member.node == place.member.node]
    ntasks = str(len(plan.places))
    # Where the first task is: programs on several nodes meet there.
    address = plan.places[0].member.address if len(plan.nodes) > 1 else ""
    found: dict[str, str | None] = {
        "SLURM_JOB_ID": str(plan.job.id),
        "SLURM_JOBID": str(plan.job.id),
        "SLURM_PROCID": str(place.rank),
        "SLURM_LOCALID": str(place.local_rank),
        "SLURM_NODEID": str(place.node_rank),
        "SLURM_GTIDS": ",".join(here),
        "SLURM_NTASKS": ntasks,
        "SLURM_NPROCS": ntasks,
        "SLURM_NNODES": str(len(plan.nodes)),
        "SLURM_TASKS_PER_NODE": plan.per_node,
        "SLURM_STEP_ID": str(plan.step),
        "SLURM_STEPID": str(plan.step),
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_STEP_NUM_NODES": str(len(plan.nodes)),
        "SLURM_STEP_NUM_TASKS": ntasks,
        "SLURM_STEP_TASKS_PER_NODE": plan.per_node,
        "SLURM_LAUNCH_NODE_IPADDR": address or LOOPBACK,
        "SLURM_SRUN_COMM_HOST": address or LOOPBACK,
        "SRUN_DEBUG": "3",
        "SLURM_DISTRIBUTION": order.distribution,
        "SLURMD_NODENAME": place.member.node,
    }
    if order.cpus_per_task:
        found["SLURM_CPUS_PER_TASK"] = str(order.cpus_per_task)
    if order.ntasks_per_node:
        found["SLURM_NTASKS_PER_NODE"] = str(order.ntasks_per_node)
    found |= _devices(order, place)
    return found


def _devices(order: JobOrder, place: StepPlace) -> dict[str, str | None]:
    """With ``--gpus-per-task`` each task sees its own."""
    devices = place.member.held.devices
    if not devices:
        return {}
    if not order.gpus_per_task:
        return {"SLURM_STEP_GPUS": ",".join(map(str, devices))}
    first = place.local_rank * order.gpus_per_task
    last = first + order.gpus_per_task
    mine = ",".join(place.member.devices[first:last])
    names = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
    listed = ",".join(map(str, devices[first:last]))
    return {**dict.fromkeys(names, mine), "SLURM_STEP_GPUS": listed}


def file_name(pattern: str, plan: StepPlan, place: StepPlace, folder: str) -> str:
    """Where a task's stream goes, as an absolute path."""
    job = plan.job
    values = {
        "j": str(job.id),
        "J": f"{job.id}.{plan.step}",
        "s": str(plan.step),
        "A": str(job.array_id or job.id),
        "a": str(job.array_index) if job.array_id else "4294967294",
        "t": str(place.rank),
        "n": str(place.node_rank),
        "N": place.member.node.partition(".")[0],
        "u": job.spec.user,
        "x": job.spec.name,
    }
    name = fill(pattern, values)
    return name if name.startswith("/") else f"{folder.rstrip('/')}/{name}"
