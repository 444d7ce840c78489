"""What ``srun -v`` tells of its step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.hostlist import compress
from rota.slurm.orders.orders import defined

if TYPE_CHECKING:
    from rota.slurm.steps.step_plan import StepPlan


def before(plan: StepPlan) -> str:
    """Its options, and where its tasks go."""
    nodes = compress(plan.nodes)
    counts = f"nodes({len(plan.nodes)}):`{nodes}', cpu counts: {plan.cpus}(x1)"
    lines = [f"jobid {plan.job.id}: {counts}"]
    for member in plan.members:
        ranks = [str(place.rank) for place in plan.on(member)]
        on = f"on host {member.node}, {len(ranks)} tasks: {','.join(ranks)}"
        lines.append(f"launching StepId={plan.job.id}.{plan.step} {on}")
    lead = "launch/slurm: _task_start: Node"
    lines += [f"{lead} {one.node}, {len(plan.on(one))} tasks started" for one in plan.members]
    told = defined("srun", plan.parts[0].order)
    return told + "".join(f"srun: {line}\n" for line in lines)


def ended(plan: StepPlan, rank: int, status: int) -> str:
    """How one of its tasks ended."""
    name = f"{plan.job.id}.{plan.step}"
    lead = "srun: launch/slurm: _task_finish:"
    heard = f"Received task exit notification for 1 task of StepId={name} (status=0x{status:04x})."
    done = f"{lead} {plan.places[rank].member.node}: task {rank}: Completed\n" if not status else ""
    return f"{lead} {heard}\n{done}"
