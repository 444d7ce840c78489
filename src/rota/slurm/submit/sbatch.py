"""``sbatch``: a script, its options from three places, and a job."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from rota.core.facts.states import FINAL
from rota.slurm.call.command import VERSION_LINE, Answer, CommandFailed, NotServed
from rota.slurm.call.getopt import Parsed
from rota.slurm.call.opening import read_words, require_cluster
from rota.slurm.call.view import SlurmView
from rota.slurm.call.waiting import exit_code, until_over
from rota.slurm.orders.batch_script import check_script, directives, numbered_directives
from rota.slurm.orders.caller_files import with_nodes
from rota.slurm.orders.detail import Detail
from rota.slurm.orders.export_file import with_file
from rota.slurm.orders.options import SHEETS, from_environment
from rota.slurm.orders.orders import JobOrder, defined, read_order
from rota.slurm.orders.surroundings import left_out
from rota.slurm.relay.programs import step_script
from rota.slurm.submit.groups import prepare_groups
from rota.slurm.submit.partitions import in_best_partition
from rota.slurm.submit.submitting import (
    BatchWork,
    NotTaken,
    folder,
    partitions_of,
    prepare,
    submit,
)
from rota.slurm.submit.trying import tried

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.controller.commands.commands import Submission
    from rota.slurm.call.command import Call

PROGRAM = "sbatch"
SHEET = SHEETS[PROGRAM]


class BatchOrder(NamedTuple):
    """A script that was read: its first order, and the job that it would be."""

    order: JobOrder
    submission: Submission


async def sbatch(call: Call) -> Answer:
    """Submit a batch script; prints its id."""
    batch = await read_batch(call)
    if isinstance(batch, Answer):
        return batch
    try:
        if batch.order.has("test-only"):
            return await tried(call, batch.submission)
        ids = await submit(call, [batch.submission])
    except NotTaken as refused:
        raise _refusal(refused, test_only=batch.order.has("test-only")) from None
    return await _told(call, batch.order, ids[0])


async def read_batch(call: Call) -> BatchOrder | Answer:
    """What a command line and its script ask for; an answer where that is all there is to it."""
    command_lines = _parts(call.request.argv)
    if (shown := _shown(command_lines[0].options)) is not None:
        return shown
    typed = command_lines[-1]
    given = dict(command_lines[0].options) | dict(typed.options)
    script, args, command = await _script(call, given, typed.rest)
    orders = _orders(call, command_lines, script, command or "stdin")
    require_cluster(PROGRAM, orders[0].options, SlurmView(call.context).cluster_name)
    for order in orders:
        await with_nodes(call, order)
    call = await with_file(call, orders[0])
    try:
        made = await call.context.host.parents.at_hand(
            lambda: _prepared(call, orders, script, args, command)
        )
        made = await in_best_partition(call, made, partitions_of(orders[0]))
    except NotTaken as refused:
        raise _refusal(refused, test_only="test-only" in given) from None
    return BatchOrder(orders[0], made)


def _parts(argv: Sequence[str]) -> list[Parsed]:
    """The command line; of a heterogeneous job one for each part between the colons."""
    parts: list[Parsed] = []
    words = list(argv)
    while True:
        parsed = _parse(words)
        if ":" not in parsed.rest or (parsed.rest and parsed.rest[0] != ":"):
            return [*parts, parsed]
        parts.append(Parsed(parsed.options, []))
        words = parsed.rest[1:]


def _parse(words: Sequence[str]) -> Parsed:
    return read_words(PROGRAM, SHEET.table, words, code=255, permute=False)


def line_of(script: bytes, said: str) -> int:
    """The number of the ``#SBATCH`` line that by itself is refused in these words; 0: none is."""
    try:
        for number, words in numbered_directives(script, "/dev/stdin"):
            try:
                read_order(SHEET, _parse(words).options, [])
            except CommandFailed as error:
                if error.answer.stderr.strip() == said:
                    return number
    except CommandFailed:
        # Its words name the line.
        return 0
    return 0


def _shown(options: list[tuple[str, str]]) -> Answer | None:
    """Options that print something and do nothing else."""
    for key, value in options:
        if (key, value) == ("gres", "help"):
            return Answer("Valid gres options are:\ngpu[[:type]:count]\n")
        if key == "version":
            return Answer(VERSION_LINE)
        if key == "help":
            return Answer(SHEET.help)
        if key == "usage":
            return Answer(SHEET.usage)
    return None


async def _script(
    call: Call, given: dict[str, str], rest: list[str]
) -> tuple[bytes, list[str], str]:
    """The script, its arguments, and the path by which it is known."""
    if "wrap" in given:
        if rest:
            raise CommandFailed(
                "sbatch: error: Script arguments not permitted with --wrap option\n", 1
            )
        text = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n" + given["wrap"] + "\n"
        return text.encode(), [], ""
    if not rest:
        body: bytes | int = await call.line.read_stdin()
    else:
        body = await call.line.read_file(call.request.path(rest[0]))
    if isinstance(body, int):
        name = rest[0]
        why = "" if body in (2, 13) else f": {os.strerror(body)}"
        raise NotServed(f"sbatch: error: Unable to open file {name}{why}\n")
    check_script(body)
    return body, rest[1:], rest[0] if rest else ""


def _orders(call: Call, lines: list[Parsed], script: bytes, name: str) -> list[JobOrder]:
    """One order for each part: script first, then the environment, then what was typed."""
    written = directives(script, name)
    variables = from_environment(PROGRAM, call.env)
    orders = []
    for number in range(max(len(written), len(lines))):
        words = written[number] if number < len(written) else []
        typed = lines[number].options if number < len(lines) else []
        found = _parse(words)
        if found.rest:
            line = f"sbatch: error: Invalid directive found in batch script: {found.rest[0]}\n"
            raise CommandFailed(line, 1)
        options = [*found.options, *(variables if number == 0 else []), *typed]
        named = [key for key, _ in (*found.options, *typed)]
        orders.append(read_order(SHEET, options, named))
    return orders


def _prepared(
    call: Call, orders: list[JobOrder], script: bytes, args: list[str], command: str
) -> Submission:
    first = orders[0]
    if call.request.alone and first.has("array"):
        raise NotTaken("the script makes an array, and one job is wanted")
    name = first.text("job-name") or _name(orders, command)
    extra = Detail(command=_full(call, first, command))
    if len(orders) > 1:
        work = BatchWork(step_script(), ["batch", *args], name, stdin=script)
        return prepare_groups(call, orders, work, extra)
    made, share, _detail = prepare(call, first, BatchWork(script, args, name), extra)
    if share.nodes > 1 or first.has("input"):
        # On the other nodes somebody of ours waits for steps; the script is the first one's.
        # Ours also opens the input, which need not exist before the job begins.
        work = BatchWork(step_script(), ["batch", *args], name, stdin=script)
        made, _share, _detail = prepare(call, first, work, extra)
    return made


def _name(orders: list[JobOrder], command: str) -> str:
    if any(order.has("wrap") for order in orders):
        return "wrap"
    return os.path.basename(command) or "sbatch"


def _full(call: Call, order: JobOrder, command: str) -> str:
    if not command or command.startswith("/"):
        return command
    return f"{folder(call, order).rstrip('/')}/{command}"


def _refusal(refused: NotTaken, *, test_only: bool) -> CommandFailed:
    before = "".join(f"sbatch: error: {line}\n" for line in refused.before)
    if test_only:
        return CommandFailed(f"{before}allocation failure: {refused.reason}\n", 1)
    return NotServed(f"{before}sbatch: error: Batch job submission failed: {refused.reason}\n")


async def _told(call: Call, order: JobOrder, job_id: int) -> Answer:
    if order.has("parsable"):
        clusters = order.text("clusters")
        text = f"{job_id};{clusters}\n" if clusters else f"{job_id}\n"
    elif order.has("quiet"):
        text = ""
    else:
        text = f"Submitted batch job {job_id}\n"
    hint = defined(PROGRAM, order) + "".join(order.warnings)
    if (names := left_out(call.request, order.text("export"))) and not order.has("quiet"):
        hint += f"sbatch: left out what looks like a secret: {', '.join(names)}"
        hint += " (--export=ALL,NAME takes one along)\n"
    if not order.has("wait"):
        return Answer(text, hint)
    await call.line.show(text, hint)
    jobs = await until_over(call.context, job_id)
    if call.context.host.cluster.state_of(job_id) not in FINAL:
        # Nobody knows how it will end: a zero would be a lie.
        text = f"sbatch: error: the controller was stopped before job {job_id} ended\n"
        return Answer("", text, 1)
    return Answer(code=exit_code(jobs))
