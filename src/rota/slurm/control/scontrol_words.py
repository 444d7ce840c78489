"""``scontrol``'s smaller keywords: what they tell, or wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.controller.commands.change import may_change_job
from rota.core.facts.states import FINAL, JobState, Phase
from rota.slurm.call.command import VERSION_LINE, Answer, CommandFailed
from rota.slurm.call.waiting import until_running
from rota.slurm.orders.detail import detail_of
from rota.slurm.records.job_refs import parse_ref
from rota.slurm.steps.remarks import write_remark
from rota.slurm.steps.steps import steps_of

if TYPE_CHECKING:
    from rota.slurm.call.command import Call

Options = list[tuple[str, str]]
#: How an interactive scontrol shows things from then on; in a single call they mean nothing.
#: ``completing`` lists jobs that nodes still clean up after, which the keeper does at once.
MODES = (
    *("all", "cluster", "completing", "details", "exit", "future", "hide", "local", "oneliner"),
    *("quiet", "quit", "verbose"),
)
_FOREVER_S = 10 * 365 * 86400.0


async def nothing(_call: Call, _words: list[str], _options: Options) -> Answer:
    return Answer()


async def version(_call: Call, _words: list[str], _options: Options) -> Answer:
    return Answer(VERSION_LINE)


async def wait_job(call: Call, words: list[str], _options: Options) -> Answer:
    """Ends when the job has its nodes, which are ready then."""
    if not words:
        raise CommandFailed("too few arguments for keyword:wait_job\n")
    ref = parse_ref(words[0])
    known = call.context.host.cluster.state_of(ref.id) if ref is not None else None
    if ref is not None and known in FINAL:
        raise CommandFailed(f"scontrol: Job {ref.id} no longer running\n")
    state = await until_running(call.context, ref.id, _FOREVER_S) if ref is not None else None
    if ref is None or state is not JobState.RUNNING:
        raise CommandFailed(f"scontrol: Problem running job {words[0]}\n")
    return Answer("", f"scontrol: Job {ref.id} is ready for use\n")


async def notify(call: Call, words: list[str], _options: Options) -> Answer:
    """A line of somebody's among the errors of a running job."""
    if len(words) < 2:
        raise CommandFailed("too few arguments for keyword:notify\n")
    cluster = call.context.host.cluster
    ref = parse_ref(words[0])
    job = cluster.jobs.get(ref.id) if ref is not None else None
    attempt = job.tasks[0].current if job is not None and job.tasks else None
    if job is None or attempt is None or attempt.phase is not Phase.RUNNING:
        state = cluster.state_of(ref.id) if ref is not None else None
        raise CommandFailed(f"job notify failure: {_unheard(state)}\n")
    if not may_change_job(call.actor, job.spec, job.id):
        raise CommandFailed("job notify failure: Access/permission denied\n")
    node = attempt.allocation.node
    line = f"slurmstepd-{node}: error: {' '.join(words[1:])}\n"
    write_remark(call.context, job, attempt.uid, node, line)
    if detail_of(job.spec).interactive:
        for runner in steps_of(call.context).running(job.id):
            await runner.say(line)
    return Answer()


def _unheard(state: JobState | None) -> str:
    if state is None:
        return "Invalid job id specified"
    if state in FINAL:
        return "Job/step already completing or completed"
    return "Requested operation is presently disabled"
