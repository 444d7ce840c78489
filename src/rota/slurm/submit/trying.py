"""``--test-only``: when and where a job would start, without submitting it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.controller.commands.submit import refuse_submission
from rota.core.facts.errors import Rejected
from rota.hostlist import compress
from rota.scheduling.answers.outlook import outlook
from rota.slurm.call.command import Answer
from rota.slurm.submit.submitting import UNAVAILABLE, NotTaken, in_slurms_words, is_patient
from rota.slurm.words.amounts import Moments, zone_of

if TYPE_CHECKING:
    from rota.controller.commands.commands import Submission
    from rota.scheduling.answers.outlook import Outlook
    from rota.slurm.call.command import Call


async def tried(call: Call, made: Submission) -> Answer:
    """What Slurm says on stderr; ``Refused`` when it would never start."""
    host, program = call.context.host, call.request.program
    try:
        refuse_submission(host.cluster, made, call.actor)
    except Rejected as error:
        raise NotTaken(UNAVAILABLE) if is_patient(error) else in_slurms_words(error) from None

    def looked() -> tuple[float, Outlook]:
        now_s = host.clock.now_s()
        return now_s, outlook(host.scheduler, made.spec, now_s, held=made.held, advice=False)

    now_s, found = await call.context.questions.ask(call.actor, looked)
    moments = Moments(now_s, zone_of(call.env.get("TZ", "")))
    cpus = sum(role.count * role.request.cpu_milli // 1000 for role in made.spec.roles)
    nodes = compress(held.node for held in found.allocations)
    job, start_s = host.cluster.ids.next, found.start_s or now_s
    text = (
        f"{program}: Job {job} to start at {moments.text(start_s)} "
        f"using {cpus} processors on nodes {nodes} in partition {made.spec.queue}\n"
    )
    return Answer("", text)
