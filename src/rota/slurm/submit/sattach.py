"""``sattach``: watch a step that another command runs, and speak to its tasks."""

from __future__ import annotations

import asyncio
import signal as signals
from typing import TYPE_CHECKING, Any

import msgspec

from rota.controller.commands.change import may_change_job
from rota.core.facts.states import FINAL
from rota.digits import is_digits
from rota.hostlist import compress
from rota.slurm.call import wire
from rota.slurm.call.command import Answer, CommandFailed
from rota.slurm.call.getopt import OptionTable
from rota.slurm.call.opening import about_itself, read_words
from rota.slurm.call.waiting import unless_stopping
from rota.slurm.records.job_refs import parse_ref
from rota.slurm.steps.audience import Printed
from rota.slurm.steps.step_run import code_of
from rota.slurm.steps.steps import steps_of, stream_of

if TYPE_CHECKING:
    from rota.core.facts.job import Job
    from rota.slurm.call.command import Call
    from rota.slurm.call.wire import Stream
    from rota.slurm.records.job_refs import JobRef
    from rota.slurm.steps.audience import Audience, StepWatcher, TaskEnd
    from rota.slurm.steps.step_plan import StepPlan

OPTIONS = OptionTable(
    "input-filter=TASK: what is typed goes to this task only",
    "output-filter=TASK: show the output of this task only",
    "error-filter=TASK: show the errors of this task only",
    "l label: the number of the task before each line",
    "layout: say which tasks run where, and nothing else",
    "pty: the terminal of the step, which needs no option here",
    "Q quiet: no messages but errors",
    "v verbose: say more",
    "V version: the version of Slurm whose behaviour this is",
    "h help: this text",
    "u usage: the names of all options",
)
_FILTERS = ("input-filter", "output-filter", "error-filter")
_USAGE = "Usage: sattach [options] <jobid.stepid>\n"
_UNKNOWN, _OVER = "Invalid job id specified", "Job/step already completing or completed"
_DENIED = "Access/permission denied"
#: What a shell would say of a command that was interrupted.
_INTERRUPTED = 128


async def sattach(call: Call) -> Answer:
    """Until the step ends, with its exit code; or until the caller goes away."""
    parsed = read_words("sattach", OPTIONS, call.request.argv)
    given = dict(parsed.options)
    if told := about_itself("sattach", OPTIONS, given, "JOB.STEP"):
        return told
    filters = {name: _number(name, given[name]) for name in _FILTERS if name in given}
    if len(parsed.rest) != 1:
        return Answer(_USAGE, "sattach: error: too many parameters\n", 1)
    ref = parse_ref(parsed.rest[0])
    if ref is None or not ref.step:
        why = "sattach: error: Failed to parse stepid from command line options\n"
        return Answer(_USAGE, why, 1)
    audience = _audience(call, ref)
    if "layout" in given:
        return Answer(_layout(audience.plan))
    return await _Watching(call, audience, filters).run(label="label" in given)


def _number(name: str, text: str) -> int:
    if is_digits(text) and len(text) < 10:
        return int(text)
    raise CommandFailed(f'sattach: error: Invalid numeric value "{text}" for {name}.\n', 1)


def _audience(call: Call, ref: JobRef) -> Audience:
    """Of a step that runs; ``Failed`` in Slurm's words where there is none."""
    steps = steps_of(call.context)
    cluster = call.context.host.cluster
    for (number, step), runner in steps.runners.items():
        job = cluster.jobs.get(number)
        if job is not None and str(step) == ref.step and _means(ref, job):
            if may_change_job(call.actor, job.spec, job.id):
                return runner.audience
            raise _refused(_DENIED)
    known = any(str(step.id) == ref.step for step in steps.of(ref.id))
    state = cluster.state_of(ref.id)
    raise _refused(_OVER if known or state in FINAL else _UNKNOWN)


def _means(ref: JobRef, job: Job) -> bool:
    if ref.indices is None:
        return job.id == ref.id
    return job.array_id == ref.id and job.array_index in ref.indices


def _refused(why: str) -> CommandFailed:
    return CommandFailed(f"sattach: error: Could not get job step info: {why}\n", 1)


def _layout(plan: StepPlan) -> str:
    counts = f"{len(plan.places)} tasks, {len(plan.nodes)} nodes ({compress(plan.nodes)})"
    lines = ["Job step layout:", f"\t{counts}", ""]
    for number, node in enumerate(plan.nodes):
        ranks = [str(place.rank) for place in plan.places if place.member.node == node]
        lines.append(f"\tNode {number} ({node}), {len(ranks)} task(s): {' '.join(ranks)} ")
    return "\n".join([*lines, ""])


class _Watching:
    """One call: what the tasks print goes out, what is typed goes in."""

    def __init__(self, call: Call, audience: Audience, filters: dict[str, int]) -> None:
        self._call = call
        self._audience = audience
        self._stream: Stream = stream_of(call)
        self._typed_for = filters.get("input-filter")
        #: The only task to be shown, by stream.
        self._only = {1: filters.get("output-filter"), 2: filters.get("error-filter")}
        self._gave = False
        self._code = 0

    async def run(self, *, label: bool) -> Answer:
        if label:
            width = len(str(len(self._audience.plan.places) - 1))
            await self._order({"op": "label", "width": width})
        watcher = await self._audience.join()
        await self._order({"op": "stdin", "remote": True})
        showing = asyncio.create_task(self._show(watcher))
        listening = asyncio.create_task(self._listen())
        try:
            ends = {showing, listening}
            first = asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            await unless_stopping(self._call.context, first)
        finally:
            showing.cancel()
            listening.cancel()
            await self._audience.leave(watcher)
        if watcher.late:
            return Answer("", "sattach: error: too slow for what the step prints\n", 1)
        return Answer(code=self._code)

    async def _order(self, order: dict[str, Any]) -> None:
        await self._stream.write((wire.ORDER, msgspec.json.encode(order)))

    async def _show(self, watcher: StepWatcher) -> None:
        while (news := await watcher.news.get()) is not None:
            if isinstance(news, Printed):
                if self._only[news.stream] in (None, news.rank):
                    place = news.rank.to_bytes(4, "big") + bytes([news.stream])
                    await self._stream.write((wire.OUTPUT, bytes(4) + place + news.text))
            elif news.status:
                await self._complain(news)

    async def _complain(self, end: TaskEnd) -> None:
        code = code_of(end.status)
        self._code = max(self._code, code)
        how = f"exited with exit code {code}"
        if number := end.status & 0x7F:
            how = f"killed by signal {number}"
        text = f"sattach: error: task {end.rank} {how}\n"
        await self._stream.write((wire.STDERR, text.encode()))

    async def _listen(self) -> None:
        """What is typed; an interrupt is for sattach only, and leaves the step alone."""
        while (frame := await self._stream.read()) is not None:
            if frame.kind == wire.INPUT:
                await self._typed(frame.body)
            elif frame.kind == wire.EVENT:
                event = msgspec.json.decode(frame.body)
                if event["op"] == "signal" and event["number"] != signals.SIGCONT:
                    self._code = _INTERRUPTED + event["number"]
                    return

    async def _typed(self, part: bytes) -> None:
        """An end without a word before it is no end for the tasks: cron's commands have one."""
        if part or self._gave:
            self._gave = True
            await self._audience.typed(part, self._typed_for)
