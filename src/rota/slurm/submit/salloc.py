"""``salloc``: nodes for as long as a command runs, which is a shell if none is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rota.hostlist import compress
from rota.slurm.call import wire
from rota.slurm.call.command import VERSION_LINE, Answer
from rota.slurm.call.getopt import Parsed
from rota.slurm.call.opening import read_words, require_cluster
from rota.slurm.call.view import SlurmView
from rota.slurm.call.waiting import Stopping, unless_stopping
from rota.slurm.orders.caller_files import with_nodes
from rota.slurm.orders.options import SHEETS, from_environment
from rota.slurm.orders.orders import defined, read_order
from rota.slurm.steps.step_run import code_of
from rota.slurm.steps.steps import steps_of, stream_of
from rota.slurm.submit.allocating import allocate, cancel, give_back

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.core.facts.job import Job
    from rota.slurm.call.command import Call
    from rota.slurm.orders.orders import JobOrder

SHEET = SHEETS["salloc"]
#: What a stand-in has for itself only.
_NOT_SHARED = frozenset({"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS"})


async def salloc(call: Call) -> Answer:
    """Hold nodes while a command runs where salloc was called."""
    lines = _lines(call.request.argv)
    for key, _ in lines[0].options:
        if key == "version":
            return Answer(VERSION_LINE)
        if key in ("help", "usage"):
            return Answer(SHEET.help if key == "help" else SHEET.usage)
    known = from_environment("salloc", call.env)
    orders = [
        read_order(SHEET, [*known, *line.options], [key for key, _ in line.options])
        for line in lines
    ]
    require_cluster("salloc", orders[0].options, SlurmView(call.context).cluster_name)
    for order in orders:
        await with_nodes(call, order)
    told = defined("salloc", orders[0])
    await call.line.show(stderr=told + "".join(orders[0].warnings))
    command = lines[-1].rest
    argv = command or [call.env.get("SHELL") or "/bin/sh"]
    # Programs take this name for the sign that no srun has started them.
    job = await allocate(call, orders, "interactive")
    try:
        return await _hold(call, job, orders[0], argv)
    except Stopping:
        # The command goes on without us.
        raise
    except BaseException:
        give_back(call, job.id, 1)
        raise


async def _hold(call: Call, job: Job, order: JobOrder, argv: list[str]) -> Answer:
    """Run the command beside the allocation, which goes when it has ended."""
    quiet = order.has("quiet")
    await _say(call, quiet, f"Granted job allocation {job.id}")
    await _say(call, quiet, "Waiting for resource configuration")
    nodes = compress(attempt.allocation.node for attempt in job.live_attempts)
    await _say(call, quiet, f"Nodes {nodes} are ready for job")
    if order.has("no-shell"):
        return Answer()
    status = await unless_stopping(call.context, _run(call, job, argv))
    if status is None:
        await cancel(call, job.id)
        return Answer("", "", 1)
    give_back(call, job.id, code_of(status))
    await _say(call, quiet, f"Relinquishing job allocation {job.id}")
    await _say(call, quiet, f"Job allocation {job.id} has been revoked.")
    return Answer("", "", code_of(status))


def _lines(words: Sequence[str]) -> list[Parsed]:
    """The options of each group, between colons; the last of them has the command."""
    lines: list[Parsed] = []
    while True:
        parsed = read_words("salloc", SHEET.table, words, code=255, permute=False)
        if parsed.rest[:1] != [":"]:
            return [*lines, parsed]
        lines.append(Parsed(parsed.options, []))
        words = parsed.rest[1:]


async def _say(call: Call, quiet: bool, text: str) -> None:
    if not quiet:
        await call.line.show(stderr=f"salloc: {text}\n")


async def _run(call: Call, job: Job, argv: list[str]) -> int | None:
    """The command's wait status; None when salloc was ended."""
    stream = stream_of(call)
    task = {"rank": 0, "argv": argv, "env": _environment(call, job)}
    order: dict[str, Any] = {
        "op": "spawn",
        "step": 0,
        "cwd": call.request.cwd,
        "env": None,
        "tasks": [{**task, "stdin": "inherit", "stdout": "inherit", "stderr": "inherit"}],
        "foreground": True,
        "whole": True,
        "node": call.request.host,
    }
    await stream.write((wire.ORDER, msgspec.json.encode(order)))
    while (frame := await stream.read()) is not None:
        event = msgspec.json.decode(frame.body) if frame.kind == wire.EVENT else {}
        if event.get("op") == "exit":
            return int(event["status"])
        if event.get("op") == "signal" and event["number"] != 2:
            signal = {"op": "signal", "number": event["number"]}
            await stream.write((wire.ORDER, msgspec.json.encode(signal)))
    return None


def _environment(call: Call, job: Job) -> dict[str, str]:
    """What the first node's stand-in was told about the job."""
    stand_ins = steps_of(call.context).stand_ins.get(job.id, {})
    first = next(iter(stand_ins.values()), None)
    env = first.env if first is not None else {}
    found = {
        name: value
        for name, value in env.items()
        if name.startswith("SLURM_") and name not in _NOT_SHARED
    }
    return {**found, "SLURM_SUBMIT_DIR": call.request.cwd}
