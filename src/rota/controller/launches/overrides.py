"""What is different for jobs that came through Slurm's commands.

Variables of Slurm that the submitter has set win: the submitter knows what a batch job should find.

Programs take the mere presence of some of them for a sign (``SLURM_NTASKS``: started by srun), so
an empty value takes one away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.controller.launches.variables import RENDEZVOUS
from rota.hostlist import compress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.core.facts.job import Job, JobSpec

#: The label of such jobs.
SLURM = "slurm"
_GROUPS = ("SLURM_", "SLURMD_")


def override(environment: dict[str, str], asked: Mapping[str, str]) -> None:
    """Let what was asked for win over what the controller would say."""
    for name, value in asked.items():
        if value and name.startswith(_GROUPS):
            environment[name] = value
        elif not value and (name.startswith(_GROUPS) or name in RENDEZVOUS):
            environment.pop(name, None)


def group_variables(job: Job) -> dict[str, str]:
    """Of a heterogeneous job of Slurm: the nodes of each group."""
    spec = job.spec
    if SLURM not in spec.labels or len(spec.roles) < 2:
        return {}
    found: dict[str, str] = {}
    first = 0
    for number, role in enumerate(spec.roles):
        tasks = job.tasks[first : first + role.count]
        nodes = compress(task.attempts[-1].allocation.node for task in tasks if task.attempts)
        if number == 0:
            # A program that does not know of groups sees the first one.
            found |= dict.fromkeys(("SLURM_JOB_NODELIST", "SLURM_NODELIST"), nodes)
            found |= dict.fromkeys(("SLURM_JOB_NUM_NODES", "SLURM_NNODES"), str(role.count))
        found[f"SLURM_JOB_ID_HET_GROUP_{number}"] = str(job.id)
        found[f"SLURM_JOB_NODELIST_HET_GROUP_{number}"] = nodes
        found[f"SLURM_JOB_NUM_NODES_HET_GROUP_{number}"] = str(role.count)
        first += role.count
    return found


def elsewhere(spec: JobSpec, node: str) -> str:
    """Slurm begins a job whose folder is missing in /tmp, and says so; empty: not one of Slurm."""
    if SLURM not in spec.labels:
        return ""
    return f"slurmstepd-{node}: error: couldn't chdir to `{spec.workdir}'"


def output_mode(spec: JobSpec, task: int) -> str:
    """Slurm begins output files anew unless told to append; other tasks add to the first's."""
    if SLURM not in spec.labels:
        return ""
    keeps = spec.variables.get("SLURM_OPEN_MODE", "t") == "a" or task > 0
    return "append" if keeps else "truncate"
