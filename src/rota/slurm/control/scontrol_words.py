"""``scontrol``'s smaller keywords: what they tell, or wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.states import JobState
from rota.slurm.call.command import VERSION_LINE, Answer, CommandFailed
from rota.slurm.call.waiting import until_running
from rota.slurm.records.job_refs import parse_ref

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
    state = await until_running(call.context, ref.id, _FOREVER_S) if ref is not None else None
    if ref is None or state is not JobState.RUNNING:
        raise CommandFailed(f"scontrol: Problem running job {words[0]}\n")
    return Answer("", f"scontrol: Job {ref.id} is ready for use\n")


async def notify(call: Call, words: list[str], _options: Options) -> Answer:
    """Nobody but a job writes to its output."""
    if len(words) < 2:
        raise CommandFailed("too few arguments for keyword:notify\n")
    ref = parse_ref(words[0])
    known = ref is not None and call.context.host.cluster.state_of(ref.id) is not None
    why = "Requested operation is presently disabled" if known else "Invalid job id specified"
    raise CommandFailed(f"job notify failure: {why}\n")
