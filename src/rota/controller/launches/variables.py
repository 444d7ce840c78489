"""What a task finds in its environment: who it is, what it got, where its peers are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.controller.launches.world import LOOPBACK, per_node, role_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.controller.launches.world import GangWorld
    from rota.core.cluster import Cluster
    from rota.core.facts.job import Attempt, Job
    from rota.core.facts.node import NodeSpec

#: What programs that run on several machines look for; torch reads these with ``env://``.
RENDEZVOUS = (
    "MASTER_ADDR",
    "MASTER_PORT",
    "WORLD_SIZE",
    "RANK",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
)
#: A job that was submitted inside another one must not take itself for that one.
_OWN = (
    *("ROTA_ARRAY_", "ROTA_PARAM_", "ROTA_ROLE", "ROTA_WORLD_FILE", "ROTA_PROGRESS_FILE"),
    *("SLURM_", "SLURMD_"),
)


def forget_parent(environment: dict[str, str]) -> dict[str, str]:
    """An environment that was captured inside a job, without what says which job that was."""
    if "ROTA_JOB_ID" not in environment:
        return environment
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith(_OWN) and name not in RENDEZVOUS
    }


def own_variables(cluster: Cluster, job: Job, attempt: Attempt, name: str) -> dict[str, str]:
    """Who it is, what it got, and the ``SLURM_*`` twins of that."""
    held, spec = attempt.allocation, job.spec
    cpus = str(max(1, held.cpu_milli // 1000))
    job_id = str(job.id)
    variables = {
        "ROTA_JOB_ID": job_id,
        "ROTA_JOB_NAME": name,
        "ROTA_ATTEMPT": str(attempt.number),
        "ROTA_ATTEMPT_UID": attempt.uid,
        "ROTA_CPUS": cpus,
        "ROTA_MEM_MB": str(held.memory_mib),
        "ROTA_GPUS": ",".join(map(str, held.devices)),
        "ROTA_RESUME": "1" if attempt.number > 1 and job.checkpoints else "0",
        "SLURM_JOB_ID": job_id,
        "SLURM_JOBID": job_id,
        "SLURM_JOB_NAME": name,
        "SLURM_JOB_USER": spec.user,
        "SLURM_JOB_PARTITION": spec.queue,
        "SLURM_CLUSTER_NAME": "rota",
        "SLURM_SUBMIT_DIR": spec.workdir,
        "SLURM_CPUS_PER_TASK": cpus,
        "SLURMD_NODENAME": held.node,
    }
    if attempt.number > 1:
        # Scripts take its presence for the sign that they are to go on where they were.
        variables["SLURM_RESTART_COUNT"] = str(attempt.number - 1)
    if spec.time_limit_s:
        variables["ROTA_TIME_LIMIT_S"] = f"{spec.time_limit_s:g}"
    if spec.project:
        variables["SLURM_JOB_ACCOUNT"] = spec.project
    if job.array_id:
        variables |= _array(cluster, job)
    for key, value in job.parameters.items():
        variables[f"ROTA_PARAM_{key}"] = value
    node = cluster.nodes[held.node].spec
    if node.pool:
        # Which machine and which devices, the engine says.
        del variables["ROTA_GPUS"], variables["SLURMD_NODENAME"]
    # An engine hands out devices itself, and says so in its own words.
    if not node.engine and any(device.kind == "gpu" for device in node.devices):
        variables |= _visible_devices(node, held.devices)
    return variables


#: The world of most jobs: one task on one node.
_ALONE = {
    "ROTA_TASK_INDEX": "0",
    "ROTA_NUM_TASKS": "1",
    "SLURM_NTASKS": "1",
    "SLURM_NPROCS": "1",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_JOB_NUM_NODES": "1",
    "SLURM_NNODES": "1",
    "SLURM_TASKS_PER_NODE": "1",
}


def alone_variables(attempt: Attempt) -> dict[str, str]:
    """Where a job of one task is: the same words as for several."""
    node, cpus = attempt.allocation.node, str(max(1, attempt.allocation.cpu_milli // 1000))
    return _ALONE | {
        "ROTA_NODELIST": node,
        "SLURM_JOB_NODELIST": node,
        "SLURM_NODELIST": node,
        "SLURM_CPUS_ON_NODE": cpus,
        "SLURM_JOB_CPUS_PER_NODE": cpus,
    }


def shared_variables(task: int, world: GangWorld) -> dict[str, str]:
    """Where a task of several stands among them, and what the job has on each node."""
    member = world.members[task]
    size, count = str(len(world.members)), str(len(world.nodes))
    return {
        "ROTA_TASK_INDEX": str(member.task),
        "ROTA_NUM_TASKS": size,
        "ROTA_NODELIST": ",".join(world.nodes),
        "SLURM_NTASKS": size,
        "SLURM_NPROCS": size,
        "SLURM_PROCID": str(member.rank),
        "SLURM_LOCALID": str(member.local_rank),
        "SLURM_NODEID": str(member.node_rank),
        "SLURM_JOB_NUM_NODES": count,
        "SLURM_NNODES": count,
        "SLURM_TASKS_PER_NODE": per_node(map(len, world.nodes.values())),
        "SLURM_JOB_NODELIST": world.nodelist,
        "SLURM_NODELIST": world.nodelist,
        "SLURM_CPUS_ON_NODE": str(world.cpus[member.node_rank]),
        "SLURM_JOB_CPUS_PER_NODE": per_node(world.cpus),
    }


def gang_variables(cluster: Cluster, job: Job, task: int, world: GangWorld) -> dict[str, str]:
    """How the members of a gang find each other: as torch wants it, and as a step of Slurm."""
    member = world.members[task]
    here, size = world.nodes[member.node], str(len(world.members))
    # Who stays on one node needs no network.
    stays = len(world.nodes) == 1 and not job.spec.elastic
    variables = {
        "MASTER_ADDR": LOOPBACK if stays else world.address,
        "MASTER_PORT": str(world.port),
        "WORLD_SIZE": size,
        "RANK": str(member.rank),
        "LOCAL_RANK": str(member.local_rank),
        "LOCAL_WORLD_SIZE": str(len(here)),
        "NODE_RANK": str(member.node_rank),
        "ROTA_NODE_ADDRESS": cluster.nodes[member.node].spec.address or LOOPBACK,
        "SLURM_LAUNCH_NODE_IPADDR": world.address,
        "SLURM_GTIDS": ",".join(map(str, here)),
        "SLURM_STEP_ID": "0",
        "SLURM_STEPID": "0",
        "SLURM_STEP_NODELIST": world.nodelist,
        "SLURM_STEP_NUM_NODES": str(len(world.nodes)),
        "SLURM_STEP_NUM_TASKS": size,
        "SLURM_STEP_TASKS_PER_NODE": per_node(map(len, world.nodes.values())),
    }
    if len(set(map(len, world.nodes.values()))) == 1:
        variables["SLURM_NTASKS_PER_NODE"] = str(len(here))
    roles = job.spec.roles
    if len(roles) > 1:
        role, index = role_of(job, member.task)
        variables |= {
            "ROTA_ROLE": role.name,
            "ROTA_ROLE_INDEX": str(index),
            "ROTA_ROLE_SIZE": str(role.count),
        }
    if job.spec.elastic:
        variables |= {
            "ROTA_MIN_TASKS": str(sum(role.min_count or role.count for role in roles)),
            "ROTA_MAX_TASKS": str(job.spec.task_count),
        }
    return variables


def _array(cluster: Cluster, job: Job) -> dict[str, str]:
    """Its place in its array; how far the indices go is known while the array is."""
    variables = {
        "ROTA_ARRAY_ID": str(job.array_id),
        "ROTA_ARRAY_INDEX": str(job.array_index),
        "SLURM_ARRAY_JOB_ID": str(job.array_id),
        "SLURM_ARRAY_TASK_ID": str(job.array_index),
    }
    array = cluster.arrays.get(job.array_id)
    if array is not None:
        variables |= {
            "SLURM_ARRAY_TASK_COUNT": str(array.count),
            "SLURM_ARRAY_TASK_MIN": str(min(run.first for run in array.runs)),
            "SLURM_ARRAY_TASK_MAX": str(max(run.last for run in array.runs)),
            "SLURM_ARRAY_TASK_STEP": str(array.runs[0].step),
        }
    return variables


def _visible_devices(node: NodeSpec, devices: tuple[int, ...]) -> Mapping[str, str]:
    """A job sees the devices that it was granted, and none if it was granted none."""
    listed = ",".join(map(str, devices))
    seen = ",".join(node.seen_by_holder(devices))
    variables = {
        "CUDA_VISIBLE_DEVICES": seen,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "HIP_VISIBLE_DEVICES": seen,
        "ROCR_VISIBLE_DEVICES": seen,
        "NVIDIA_VISIBLE_DEVICES": seen or "void",
    }
    if devices:
        variables |= {
            "SLURM_JOB_GPUS": listed,
            "SLURM_STEP_GPUS": listed,
            "SLURM_GPUS_ON_NODE": str(len(devices)),
        }
    return variables
