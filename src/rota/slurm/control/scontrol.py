"""``scontrol``: which keyword is meant, and what it does to jobs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rota.controller.commands.change import may_change_job
from rota.controller.commands.commands import (
    ChangedJobs,
    Hold,
    Release,
    Requeue,
    Resume,
    Select,
    Suspend,
)
from rota.core.facts.states import ACTIVE, FINAL, JobState
from rota.core.facts.tenant import Access
from rota.slurm.call.command import SCONTROL, Answer, CommandFailed, load
from rota.slurm.call.getopt import OptionTable
from rota.slurm.call.opening import about_itself, help_of, read_words
from rota.slurm.control import scontrol_words
from rota.slurm.control.scontrol_site import (
    create_partition,
    create_reservation,
    delete_partition,
    delete_reservation,
)
from rota.slurm.control.scontrol_update import pairs_of, update
from rota.slurm.orders.detail import detail_of, script_of
from rota.slurm.records.job_refs import parse_ref, split_refs
from rota.slurm.steps.steps import steps_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rota.core.facts.array import Array
    from rota.core.facts.job import Job
    from rota.slurm.call.command import Call

    Keyword = Callable[["Call", list[str], list[tuple[str, str]]], Awaitable[Answer]]

OPTIONS = OptionTable(
    "a all: hidden partitions, too; there are none",
    "d details: more of jobs and nodes",
    "federation: there is none: this cluster is shown",
    "F future: nodes to come; there are none",
    "h help: this text",
    "hide: no hidden partitions",
    "json=?VERSION: a JSON document, with the keys of this version",
    "local: this cluster, which is how it always is",
    "M cluster|clusters=NAMES: this cluster; there is no other",
    "o oneliner: each record on one line",
    "Q quiet: no messages but errors",
    "sibling: there are no federations",
    "u uid=USER: oneself; nobody acts for others here",
    "usage: the names of all options",
    "v verbose: say more",
    "V version: the version of Slurm whose behaviour this is",
    "yaml=?VERSION: a YAML document",
)
INVALID_ID = "Invalid job id specified"
DENIED = "Access/permission denied"


async def scontrol(call: Call) -> Answer:
    """One keyword and its words."""
    parsed = read_words("scontrol", OPTIONS, call.request.argv)
    given = dict(parsed.options)
    if told := about_itself("scontrol", OPTIONS, given, _ENDS):
        return told
    if not parsed.rest:
        return Answer(help_of("scontrol", OPTIONS, _ENDS))
    word, *rest = parsed.rest
    keyword = _keyword(word)
    if keyword in SCONTROL:
        shown: Keyword = load(SCONTROL[keyword])
        return await shown(call, rest, parsed.options)
    if keyword not in _KEYWORDS:
        raise CommandFailed(f"invalid keyword: {word}\n", 1)
    return await _KEYWORDS[keyword](call, rest, parsed.options)


def _keyword(word: str) -> str:
    """Keywords may be shortened; the first one that begins so is meant."""
    lower = word.lower()
    known = (*_KEYWORDS, *SCONTROL)
    if lower in known:
        return lower
    return next((name for name in known if len(lower) > 2 and name.startswith(lower)), lower)


async def _help(_call: Call, _words: list[str], _options: list[tuple[str, str]]) -> Answer:
    return Answer(help_of("scontrol", OPTIONS, _ENDS))


async def _reconfigure(call: Call, _words: list[str], _options: list[tuple[str, str]]) -> Answer:
    """Rules hold from the moment they are set: there is no file to be read again."""
    if call.actor.access not in (Access.ADMIN, Access.OPERATOR):
        raise CommandFailed("slurm_reconfigure error: Access/permission denied\n", 1)
    return Answer()


async def _hold(call: Call, words: list[str], _options: list[tuple[str, str]]) -> Answer:
    return await _each(call, "hold", words, Hold, tail="slurm_suspend error: ")


async def _release(call: Call, words: list[str], _options: list[tuple[str, str]]) -> Answer:
    return await _each(call, "release", words, Release, tail="slurm_suspend error: ")


async def _requeue(call: Call, words: list[str], _options: list[tuple[str, str]]) -> Answer:
    return await _each(call, "requeue", words, Requeue)


async def _requeue_hold(call: Call, words: list[str], _options: list[tuple[str, str]]) -> Answer:
    return await _each(call, "requeuehold", words, Requeue, hold=True)


async def _suspend(call: Call, words: list[str], _options: list[tuple[str, str]]) -> Answer:
    return await _each(call, "suspend", words, Suspend)


async def _resume(call: Call, words: list[str], _options: list[tuple[str, str]]) -> Answer:
    return await _each(call, "resume", words, Resume)


async def _each(
    call: Call,
    keyword: str,
    words: list[str],
    kind: type[Select],
    *,
    tail: str = "",
    hold: bool = False,
) -> Answer:
    """Every job that is named; the lines of those that it did not work for."""
    if not words:
        raise CommandFailed(f"too few arguments for keyword:{keyword}\n", 1)
    lines: list[str] = []
    for word in words:
        named = _named(call, word)
        if named == [] and keyword in ("hold", "release"):
            # Of a name that no job has Slurm says nothing; of one that others have, this.
            lines += [
                f"Invalid user id for job {number}\n{tail}Invalid user id\n"
                for number in _of_name(call, word.partition("=")[2])
            ]
            continue
        for text in named or split_refs(word):
            reason = await _one(call, text, kind, hold=hold)
            if reason:
                lines.append(f"{reason} for job {text}\n")
                lines += [f"{tail}{reason}\n"] if tail else []
    return Answer("", "".join(lines), 1 if lines else 0)


def _named(call: Call, word: str) -> list[str] | None:
    """``jobname=NAME``: the caller's jobs of that name that are not over."""
    key, _, name = word.partition("=")
    if key.lower() not in ("jobname", "name"):
        return None
    return [str(number) for number in _of_name(call, name, call.actor.user)]


def _of_name(call: Call, name: str, user: str = "") -> list[int]:
    """The jobs of a name that are not over, of one user or of all."""
    cluster = call.context.host.cluster
    alone = [job for job in cluster.jobs.values() if not job.array_id]
    items: list[Job | Array] = [*alone, *cluster.arrays.values()]
    return [
        item.id
        for item in items
        if item.spec.name == name
        and user in ("", item.spec.user)
        and cluster.state_of(item.id) not in FINAL
    ]


async def _one(call: Call, text: str, kind: type[Select], *, hold: bool) -> str:
    """Why it did not work; empty: it did."""
    host = call.context.host
    ids = job_ids(call, text)
    if not ids:
        known = parse_ref(text)
        over = known is not None and host.cluster.state_of(known.id) in FINAL
        return "Job/step already completing or completed" if over else INVALID_ID
    item = record(call, ids[0])
    if item is None:
        return INVALID_ID
    if not may_change_job(call.actor, item.spec, ids[0]):
        return DENIED
    if kind is Requeue and not detail_of(item.spec).requeue:
        return "Requested operation is presently disabled"
    if kind is Requeue:
        command: Select = Requeue(actor=call.actor, ids=tuple(ids), hold=hold)
    else:
        command = kind(actor=call.actor, ids=tuple(ids))
    done: ChangedJobs = await host.ask(command)
    if done.changed or not done.refused:
        return ""
    return _why(host.cluster.state_of(ids[0]), kind)


def _why(state: JobState | None, kind: type[Select]) -> str:
    """Slurm's words for a job in a state that does not allow it."""
    if state in ACTIVE:
        return "Job is not pending" if kind in (Hold, Release) else "Requested operation is invalid"
    if kind is Requeue:
        return "Job is pending execution"
    if kind in (Suspend, Resume):
        return "Job is pending execution"
    return ""


def job_ids(call: Call, text: str) -> list[int]:
    """The unfinished jobs that a word names; an array's own id stands for all of it."""
    ref = parse_ref(text.partition("=")[2] if "=" in text else text)
    cluster = call.context.host.cluster
    if ref is None:
        return []
    if ref.indices is None:
        ids = [ref.id]
    else:
        array = cluster.arrays.get(ref.id)
        wanted = ref.indices
        ids = [
            array.element_id(position)
            for position in (range(array.count) if array is not None else ())
            if array is not None and array.expand(position).array_index in wanted
        ]
    return [item for item in ids if cluster.state_of(item) not in (None, *FINAL)]


def record(call: Call, job_id: int) -> Job | Array | None:
    cluster = call.context.host.cluster
    return cluster.jobs.get(job_id) or cluster.arrays.get(job_id) or cluster.array_of(job_id)


async def _top(call: Call, words: list[str], _options: list[tuple[str, str]]) -> Answer:
    """Moving a job to the top is an operator's right, as it is in Slurm without a parameter."""
    if not words:
        raise CommandFailed("too few arguments for keyword:top\n", 1)
    lines = []
    for text in (ref for word in words for ref in split_refs(word)):
        ids = job_ids(call, text)
        if not ids:
            lines.append(f"{INVALID_ID} for job {text}\n")
        elif call.actor.access not in ("admin", "operator"):
            lines.append(f"{DENIED} for job {text}\n")
        else:
            answer = await update(call, [f"jobid={ids[0]}", "priority=100"], [])
            lines += [answer.stderr] if answer.stderr else []
    return Answer("", "".join(lines), 1 if lines else 0)


async def _create(call: Call, words: list[str], _options: list[tuple[str, str]]) -> Answer:
    if not words:
        raise CommandFailed("too few arguments for create keyword\n", 1)
    if words[0].lower().startswith("partition"):
        return await create_partition(call, pairs_of(words))
    if "reservation".startswith(words[0].lower()):
        return await create_reservation(call, pairs_of(words[1:]))
    if words[0].lower().startswith("reservation"):
        return await create_reservation(call, pairs_of(words))
    raise CommandFailed(f"scontrol: error: Invalid creation entity: {words[0]}\n", 1)


async def _delete(call: Call, words: list[str], _options: list[tuple[str, str]]) -> Answer:
    if not words:
        raise CommandFailed("too few arguments for delete keyword\n", 1)
    name = words[0].partition("=")[2] or (words[1] if len(words) > 1 else "")
    name = name.partition("=")[2] or name
    if words[0].lower().startswith("reservation"):
        return await delete_reservation(call, name, words[0].partition("=")[0])
    if words[0].lower().startswith("partition"):
        return await delete_partition(call, name, words[0].partition("=")[0])
    raise CommandFailed(f"Invalid deletion entity: {words[0]}\n", 1)


async def _write(call: Call, words: list[str], _options: list[tuple[str, str]]) -> Answer:
    """``write batch_script JOB [FILE|-]``: files are written where scontrol was called."""
    if not words:
        raise CommandFailed("too few arguments for keyword:write\n", 1)
    if len(words) < 2 or not "batch_script".startswith(words[0].lower()):
        raise CommandFailed(f"invalid write argument:{words[0]}\n", 1)
    ids = job_ids(call, words[1])
    item = record(call, ids[0]) if ids else await _ended(call, words[1])
    if item is None:
        # The exit code is Slurm's, too.
        raise CommandFailed(f"job script retrieval failed: {INVALID_ID}\n", 0)
    if not may_change_job(call.actor, item.spec, item.id):
        raise CommandFailed(f"job script retrieval failed: {DENIED}\n", 1)
    digest = script_of(item.spec)
    body = await call.context.host.read(lambda store: store.blob(digest)) if digest else None
    if not body:
        raise CommandFailed("job script retrieval failed: Requested operation is invalid\n", 1)
    if len(words) > 2 and words[2] == "-":
        return Answer(body)
    name = words[2] if len(words) > 2 else f"slurm-{item.id}.sh"
    number = await call.line.write_file(name, body)
    if number:
        raise CommandFailed(f"failed to open file `{name}`: {os.strerror(number)}\n", 1)
    return Answer(f"batch script for job {item.id} written to {name}\n")


async def _ended(call: Call, text: str) -> Job | Array | None:
    ref = parse_ref(text)
    if ref is None:
        return None
    found: Job | Array | None = await call.context.host.read(lambda store: store.job(ref.id))
    return found


async def _listpids(call: Call, words: list[str], _options: list[tuple[str, str]]) -> Answer:
    """The processes of a job's steps; only of those on the machine where Slurm would look."""
    ids = job_ids(call, words[0]) if words else []
    lines = [
        f"{pid:<8} {step.job:<8} {step.id:<8} {rank:<7} {rank}"
        for item in ids
        for step in steps_of(call.context).of(item)
        for rank, pid in step.pids.items()
    ]
    if not lines:
        shown = words[0] if words else "0"
        return Answer(f"There are no steps for job {shown} on node (null).\n")
    head = f"{'PID':<8} {'JOBID':<8} {'STEPID':<8} {'LOCALID':<7} GLOBALID"
    return Answer("\n".join([head, *lines]) + "\n")


_KEYWORDS: dict[str, Keyword] = {
    "hold": _hold,
    "reconfigure": _reconfigure,
    "uhold": _hold,
    "release": _release,
    "requeue": _requeue,
    "requeuehold": _requeue_hold,
    "suspend": _suspend,
    "resume": _resume,
    "update": update,
    "create": _create,
    "delete": _delete,
    "listpids": _listpids,
    "top": _top,
    "write": _write,
    "help": _help,
    "notify": scontrol_words.notify,
    "version": scontrol_words.version,
    "wait_job": scontrol_words.wait_job,
    **dict.fromkeys(scontrol_words.MODES, scontrol_words.nothing),
}
_ENDS = f"COMMAND [WORDS...]\nCommands: {', '.join(sorted((*_KEYWORDS, *SCONTROL)))}"
