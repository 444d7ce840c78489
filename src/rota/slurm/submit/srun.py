"""``srun``: tasks side by side, inside the job that it is called in or in one of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.controller.commands.change import may_change_job
from rota.core.facts.errors import Rejected
from rota.core.facts.indices import parse_indices
from rota.core.facts.states import FINAL, JobState
from rota.digits import is_digits
from rota.slurm.call.command import VERSION_LINE, Answer, CommandFailed, NotServed
from rota.slurm.call.getopt import Parsed
from rota.slurm.call.opening import read_words, require_cluster
from rota.slurm.call.view import SlurmView
from rota.slurm.call.waiting import Stopping, until_running
from rota.slurm.orders.caller_files import program_text, programs, with_nodes
from rota.slurm.orders.detail import detail_of
from rota.slurm.orders.options import SHEETS, from_environment
from rota.slurm.orders.orders import read_order
from rota.slurm.steps.staffing import require_staff
from rota.slurm.steps.step_log import begun
from rota.slurm.steps.step_plan import StepPart, members_of
from rota.slurm.steps.step_room import find_room
from rota.slurm.steps.step_run import RunningStep
from rota.slurm.steps.steps import home_of, steps_of
from rota.slurm.submit.allocating import allocate, give_back, tried_alone

if TYPE_CHECKING:
    from rota.core.facts.job import Job
    from rota.slurm.call.command import Call
    from rota.slurm.orders.orders import JobOrder

SHEET = SHEETS["srun"]
#: Inside a job these come from the job: as options they would say it twice.
_OF_JOB = frozenset({"mem", "mem-per-cpu", "mem-per-gpu", "job-name", "gpus", "gpus-per-node"})
_NO_TERMINAL = (
    "srun: error: ioctl(TIOCGWINSZ): Inappropriate ioctl for device\n"
    "srun: error: Not using a pseudo-terminal, disregarding --pty option\n"
)
#: How long the news of a start may take.
NEWS_S = 5.0


async def srun(call: Call) -> Answer:
    """Run commands as the tasks of a step; the worst of their exit codes."""
    lines = _lines(list(call.request.argv))
    given = dict(lines[0].options)
    for key in given:
        if key == "version":
            return Answer(VERSION_LINE)
        if key in ("help", "usage"):
            return Answer(SHEET.help if key == "help" else SHEET.usage)
    if given.get("mpi") == "list":
        return Answer("MPI plugin types are...\n\tnone\n")
    _check(call, given)
    if not all(line.rest for line in lines):
        raise CommandFailed("srun: fatal: No command given to execute.\n", 1)
    inside = given.get("jobid") or call.env.get("SLURM_JOB_ID") or call.env.get("SLURM_JOBID")
    if not inside:
        return await _alone(call, lines)
    job = await _job(call, inside)
    return await _step(call, job, await _parts(call, job, lines))


def _check(call: Call, given: dict[str, str]) -> None:
    require_cluster("srun", given, SlurmView(call.context).cluster_name)
    number = given.get("jobid", "0")
    # ``8_3`` and ``8+1`` name a job as well.
    if not is_digits(number[:1]):
        raise CommandFailed(f'srun: error: Invalid numeric value "{number}" for --jobid.\n', 1)


def _lines(words: list[str]) -> list[Parsed]:
    """The command line; with colons in it, one for each part of a heterogeneous step."""
    lines: list[Parsed] = []
    while True:
        parsed = read_words("srun", SHEET.table, words, code=255, permute=False)
        if ":" not in parsed.rest:
            return [*lines, parsed]
        end = parsed.rest.index(":")
        lines.append(Parsed(parsed.options, parsed.rest[:end]))
        words = parsed.rest[end + 1 :]


async def _parts(call: Call, job: Job, lines: list[Parsed]) -> list[StepPart]:
    """Each command with the members of the job that it is for."""
    known = from_environment("srun", call.env)
    variables = [(key, value) for key, value in known if key not in _OF_JOB]
    parts = []
    for number, line in enumerate(lines):
        named = [key for key, _ in line.options]
        for group in _groups(dict(line.options), number):
            usual = variables if group == 0 else _of_group(job, group)
            order = _order(call, [*usual, *line.options], named)
            if "ntasks" in named and "nodes" not in named:
                # So few tasks do not need all the nodes of the job.
                order.nodes_min = order.nodes_max = min(order.nodes_max, order.ntasks)
            await with_nodes(call, order)
            text = await program_text(call, order, line.rest)
            parts.append(_part(call, job, group, order, line.rest, text))
    return parts


def _order(call: Call, options: list[tuple[str, str]], named: list[str]) -> JobOrder:
    """What one command asks for; a terminal has only one whose caller sits at one."""
    order = read_order(SHEET, options, named)
    if call.request.columns == 0 and order.options.pop("pty", None) is not None:
        order.warnings.append(_NO_TERMINAL)
    return order


def _part(
    call: Call, job: Job, group: int, order: JobOrder, argv: list[str], text: str
) -> StepPart:
    members = members_of(call.context.host.cluster, job, group)
    return StepPart(order, argv, members, programs(order, argv, text))


def _groups(given: dict[str, str], number: int) -> list[int]:
    """``--het-group=0,1`` or ``0-1``; else each command has the next one."""
    text = given.get("het-group", "")
    if not text:
        return [number]
    try:
        runs, _cap = parse_indices(text)
    except Rejected:
        raise CommandFailed("srun: error: Invalid --het-group specification\n", 1) from None
    return [index for run in runs for index in range(run.first, run.last + 1, run.step)][:1000]


def _of_group(job: Job, group: int) -> list[tuple[str, str]]:
    """What the environment says of the first group only, the job knows of all."""
    tasks = detail_of(job.spec).het_tasks
    return [("ntasks", str(tasks[group]))] if group < len(tasks) else []


async def _job(call: Call, text: str) -> Job:
    cluster = call.context.host.cluster
    number = int(text) if is_digits(text) and len(text) < 16 else 0
    job = cluster.jobs.get(number)
    if job is not None and job.state is JobState.SCHEDULED:
        # A script may ask before the news of its own start is here.
        await until_running(call.context, number, NEWS_S)
    if job is None or job.state is not JobState.RUNNING:
        why = f"Unable to confirm allocation for job {text}: Invalid job id specified"
        if cluster.state_of(number) in FINAL:
            why = f"Slurm job {text} has expired"
        elif job is not None:
            why = f"Unable to confirm allocation for job {text}: Job is pending execution"
        check = f"srun: Check SLURM_JOB_ID environment variable. Expired or invalid job {text}\n"
        raise NotServed(f"srun: error: {why}\n{check}")
    if not may_change_job(call.actor, job.spec, job.id):
        raise NotServed(
            f"srun: error: Unable to create step for job {job.id}: Access/permission denied\n"
        )
    return job


async def _alone(call: Call, lines: list[Parsed]) -> Answer:
    """A job of its own, gone when the step is over; several commands make it heterogeneous."""
    variables = [pair for pair in from_environment("srun", call.env) if pair[0] != "job-name"]
    orders = [
        _order(call, [*variables, *line.options], [key for key, _ in line.options])
        for line in lines
    ]
    for order in orders:
        await with_nodes(call, order)
    if orders[0].has("test-only"):
        return await tried_alone(call, orders[0])
    texts = [
        await program_text(call, order, line.rest)
        for order, line in zip(orders, lines, strict=True)
    ]
    job = await allocate(call, orders, lines[0].rest[0].rpartition("/")[2])
    try:
        answer = await _step(call, job, _own_parts(call, job, orders, lines, texts))
    except Stopping:
        # Its tasks go on without us, and the job ends when they have.
        raise
    except BaseException:
        give_back(call, job.id, 1)
        raise
    give_back(call, job.id, answer.code)
    return answer


def _own_parts(
    call: Call, job: Job, orders: list[JobOrder], lines: list[Parsed], texts: list[str]
) -> list[StepPart]:
    """Each command with the group that was allocated for it."""
    detail = detail_of(job.spec)
    parts = []
    for group, (order, line, text) in enumerate(zip(orders, lines, texts, strict=True)):
        order.nodes_min = order.nodes_max = 0
        order.ntasks = order.ntasks or (detail.het_tasks or (detail.ntasks,))[group]
        parts.append(_part(call, job, group, order, line.rest, text))
    return parts


async def _step(call: Call, job: Job, parts: list[StepPart]) -> Answer:
    steps = steps_of(call.context)
    home = home_of(call, job)
    plan, claim = await find_room(call, job, parts)
    try:
        await require_staff(call, job, plan, home)
        return await RunningStep(call, await begun(call, plan), home).run()
    finally:
        steps.release(claim)
