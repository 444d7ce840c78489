"""``scontrol update``: pairs of words that change jobs, nodes or partitions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from rota.controller.commands.change import may_change
from rota.controller.commands.commands import Update
from rota.core.facts.errors import Conflict, Forbidden, Rejected
from rota.core.facts.states import FINAL
from rota.core.facts.tenant import Access
from rota.core.words.licenses import read_licenses
from rota.core.words.placing_text import parse_selector
from rota.slurm.call.command import Answer, CommandFailed
from rota.slurm.control import job_words
from rota.slurm.control.job_words import UpdateRefused
from rota.slurm.control.scontrol_site import update_node, update_partition
from rota.slurm.orders import readers
from rota.slurm.orders.dependencies import read_dependencies
from rota.slurm.orders.detail import LABEL, detail_of, label_of
from rota.slurm.orders.features import are_known, feature_words
from rota.slurm.records.job_refs import parse_ref, split_refs
from rota.slurm.words import values

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.cluster import Cluster
    from rota.core.facts.array import Array
    from rota.core.facts.job import Job, JobSpec
    from rota.slurm.call.command import Call
    from rota.slurm.orders.detail import Detail

INVALID_ID = "Invalid job id specified"
_OPERATORS = (Access.ADMIN, Access.OPERATOR)
#: What ``scontrol`` takes in a label, by its name -> the field of the label.
_DETAILS = {
    "comment": "comment",
    "wckey": "wckey",
    "licenses": "licenses",
    "qos": "qos",
    "features": "features",
    "gres": "tres_per_node",
    "mailtype": "mail_type",
    "mailuser": "mail_user",
    "reservationname": "reservation",
    "admincomment": "comment",
}
#: Nothing that Rota has: told, and left alone.
_IDLE = frozenset({"contiguous", "burstbuffer"})


#: Names whose value may stand apart.
_APART = frozenset(
    {"job", "jobid", "nodename", "partitionname", "reservation", "arraytaskthrottle"}
)


def pairs_of(words: list[str]) -> dict[str, str]:
    """``Name=value`` pairs, names in lower case; ``jobid 5`` is read like ``jobid=5``."""
    found: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, mark, value = word.partition("=")
        if mark:
            found[name.lower().rstrip("+-")] = value
        elif name.lower() in _APART:
            following = next(rest, "")
            if "=" in following:
                found |= pairs_of([following])
            else:
                found[name.lower()] = following
        else:
            raise CommandFailed(f"Invalid input: {word}\nRequest aborted\n", 1)
    return found


async def update(call: Call, words: list[str], _options: list[tuple[str, str]]) -> Answer:
    """Jobs, nodes or partitions, by the first name among the pairs."""
    if not words:
        raise CommandFailed("too few arguments for update keyword\n", 1)
    pairs = pairs_of(words)
    for name in ("jobid", "job", "jobname", "stepid"):
        if name in pairs and (name != "jobname" or "jobid" not in pairs):
            return await _update_job(call, pairs, words)
    if "nodename" in pairs:
        return await update_node(call, pairs)
    if "partitionname" in pairs or "partition" in pairs:
        return await update_partition(call, pairs)
    raise CommandFailed(
        "No valid entity in update command\n"
        'Input line must include "NodeName", "PartitionName", "Reservation", "JobId", or '
        '"SlurmctldDebug"\n',
        1,
    )


async def _update_job(call: Call, pairs: dict[str, str], words: list[str]) -> Answer:
    text = pairs.pop("jobid", "") or pairs.pop("job", "")
    if not pairs:
        raise CommandFailed("No changes specified\n", 1)
    changes, unknown = _known(pairs)
    if unknown:
        word = next(word for word in words if word.lower().startswith(unknown))
        raise CommandFailed(
            f"Update of this parameter is not supported: {word}\nRequest aborted\n", 1
        )
    reasons = [(one, await _update_one(call, one, changes)) for one in split_refs(text)]
    lines = [f"{reason} for job {one}\n" for one, reason in reasons if reason]
    idle = [f"scontrol: warning: {name} has no effect here\n" for name in pairs if name in _IDLE]
    return Answer("", "".join([*idle, *lines]), 1 if lines else 0)


def _known(pairs: dict[str, str]) -> tuple[dict[str, str], str]:
    unknown = [n for n in pairs if n not in _FIELDS and n not in _DETAILS and n not in _IDLE]
    return pairs, unknown[0] if unknown else ""


async def _update_one(call: Call, text: str, pairs: dict[str, str]) -> str:
    """Why it did not work; empty: it did."""
    cluster = call.context.host.cluster
    items = [one for one in _meant(cluster, text) if cluster.state_of(one) not in (None, *FINAL)]
    if not items:
        return INVALID_ID
    reasons = [await _change(call, item, pairs) for item in items]
    return next(filter(None, reasons), "")


def _meant(cluster: Cluster, text: str) -> list[int]:
    """The ids behind ``12``, ``8`` of an array, ``8_3`` or ``8_[1-3]``."""
    ref = parse_ref(text)
    if ref is None:
        return []
    array = cluster.arrays.get(ref.id)
    if ref.indices is None or array is None:
        return [] if ref.indices is not None else [ref.id]
    return [
        array.element_id(position)
        for position in range(array.count)
        if array.expand(position).array_index in ref.indices
    ]


async def _change(call: Call, job_id: int, pairs: dict[str, str]) -> str:
    cluster = call.context.host.cluster
    item = cluster.jobs.get(job_id) or cluster.arrays.get(job_id) or cluster.array_of(job_id)
    assert item is not None, job_id
    if not may_change(call.actor, item.spec.user):
        return "Invalid user id"
    try:
        host, found = call.context.host, partial(_command, call, job_id, item, pairs)
        await host.ask(await host.parents.at_hand(found))
    except UpdateRefused as refused:
        return str(refused)
    except Forbidden:
        return "Access/permission denied"
    except Conflict:
        return "Requested operation is presently disabled"
    except Rejected as error:
        return _REFUSALS.get(error.field, "Requested operation is invalid")
    return ""


_REFUSALS = {
    "queue": "Invalid partition name specified",
    "project": "Invalid account or account/partition combination specified",
    "depends_on": "Job dependency problem",
    "node_list": "Invalid node name specified",
    "licenses": "Invalid license specification",
}


def _command(call: Call, job_id: int, item: Job | Array, pairs: dict[str, str]) -> Update:
    spec = item.spec
    detail = detail_of(spec)
    changes: dict[str, Any] = {}
    parents = None
    cap = None
    noted: dict[str, Any] = {}
    for name, value in pairs.items():
        if name in _DETAILS:
            noted[_DETAILS[name]] = value
        if name in _NUMBERS:
            noted[name] = _NUMBERS[name](value)
        elif name in ("dependency", "depend"):
            parents = _parents(call, spec, value)
            noted["dependency"] = value
        elif name == "arraytaskthrottle":
            cap = _number(value)
        if name in _FIELDS:
            changes |= _FIELDS[name](call, msgspec.structs.replace(spec, **changes), value)
    if noted or not changes.keys().isdisjoint({"roles", "retries"}):
        changes["labels"] = {**spec.labels, LABEL: label_of(_noted(detail, noted, changes))}
    return Update(
        actor=call.actor, job=job_id, changes=changes, dependencies=parents, array_cap=cap
    )


def _noted(detail: Detail, noted: dict[str, Any], changes: dict[str, Any]) -> Detail:
    made: Detail = msgspec.structs.replace(detail, **noted)
    if "retries" in changes:
        made = msgspec.structs.replace(made, requeue=changes["retries"] > 0)
    if "roles" in changes:
        role = changes["roles"][0]
        made = msgspec.structs.replace(
            made, nodes=role.count, mem_per_node_mb=role.request.memory_mib
        )
    return made


def _parents(call: Call, spec: JobSpec, text: str) -> Any:  # noqa: ANN401 - dependencies
    if not text:
        return ()
    context = call.context
    try:
        found = read_dependencies(
            text, context.host.cluster, context.desk.find_job, spec.user, spec.name
        )
    except ValueError:
        raise UpdateRefused("Job dependency problem") from None
    return found.dependencies


def _number(text: str) -> int:
    try:
        return values.whole(text, 0)
    except ValueError:
        raise UpdateRefused("Requested operation is invalid") from None


def _name(_call: Call, _spec: JobSpec, text: str) -> dict[str, Any]:
    return {"name": text}


def _limit(call: Call, spec: JobSpec, text: str) -> dict[str, Any]:
    """``+10`` and ``-10`` are minutes more and less; only operators give more."""
    try:
        minutes = values.minutes(text.lstrip("+-"))
    except ValueError:
        raise CommandFailed("scontrol: error: Invalid TimeLimit value\n") from None
    limit_s = 60 * minutes
    if text[:1] in ("+", "-"):
        limit_s = max(60, spec.time_limit_s + (limit_s if text[0] == "+" else -limit_s))
    longer = spec.time_limit_s and (limit_s > spec.time_limit_s or not limit_s)
    if longer and call.actor.access not in _OPERATORS:
        raise UpdateRefused("Access/permission denied")
    return {"time_limit_s": limit_s}


def _priority(call: Call, spec: JobSpec, text: str) -> dict[str, Any]:
    """Slurm counts without end and Rota to 100: whatever is more is the top."""
    wanted = _number(text)
    if call.actor.access not in _OPERATORS and wanted > spec.priority:
        raise UpdateRefused("Access/permission denied")
    return {"priority": min(wanted, 100)}


def _queue(_call: Call, _spec: JobSpec, text: str) -> dict[str, Any]:
    return {"queue": text}


def _project(call: Call, _spec: JobSpec, text: str) -> dict[str, Any]:
    """Where accounts are kept, one that is named must be among them."""
    known = call.context.host.cluster.accounts.projects
    if text and known and text not in known:
        raise UpdateRefused(_REFUSALS["project"])
    return {"project": text}


def _begin(call: Call, _spec: JobSpec, text: str) -> dict[str, Any]:
    try:
        return {"begin_s": values.moment(text, call.context.host.clock.now_s())}
    except (ValueError, OverflowError):
        raise UpdateRefused("Invalid time specification") from None


def _memory(_call: Call, spec: JobSpec, text: str) -> dict[str, Any]:
    try:
        amount = values.megabytes(text)
    except ValueError:
        raise UpdateRefused("Requested operation is invalid") from None
    return _roles(spec, memory_mib=amount)


def _cpus(_call: Call, spec: JobSpec, text: str) -> dict[str, Any]:
    total = _number(text.partition("-")[0])
    return _roles(spec, cpu_milli=1000 * max(1, -(-total // spec.task_count)))


def _nodes(_call: Call, spec: JobSpec, text: str) -> dict[str, Any]:
    try:
        count = values.node_counts(text)[0]
    except ValueError:
        raise UpdateRefused("Invalid number of nodes") from None
    role = msgspec.structs.replace(spec.roles[0], count=count)
    placement = msgspec.structs.replace(spec.placement, node_count=count if count > 1 else 0)
    return {"roles": (role, *spec.roles[1:]), "placement": placement}


def _roles(spec: JobSpec, **amounts: int | str) -> dict[str, Any]:
    first = spec.roles[0]
    request = msgspec.structs.replace(first.request, **amounts)
    return {"roles": (msgspec.structs.replace(first, request=request), *spec.roles[1:])}


def _gres(_call: Call, spec: JobSpec, text: str) -> dict[str, Any]:
    """GPUs on each node, where a model may be named."""
    try:
        model, count = readers.gres(text)
    except ValueError:
        raise UpdateRefused("Invalid generic resource (gres) specification") from None
    kind = "gpu" if count else ""
    return _roles(spec, device=kind, device_count=count, device_type=model)


def _licenses(_call: Call, _spec: JobSpec, text: str) -> dict[str, Any]:
    try:
        return {"licenses": read_licenses(text) if text else ()}
    except ValueError:
        raise UpdateRefused("Invalid license specification") from None


def _features(call: Call, spec: JobSpec, text: str) -> dict[str, Any]:
    """Labels that its nodes must have; one that no node has is a typing error."""
    words = feature_words(text)
    if not are_known(call.context.host.cluster, words):
        raise UpdateRefused("Invalid feature specification")
    selectors = tuple(parse_selector(word) for word in words)
    return {"placement": msgspec.structs.replace(spec.placement, selectors=selectors)}


def _truth(text: str) -> bool:
    return text.lower() in ("yes", "1", "true", "ok")


def _output(field: str) -> Callable[[Call, JobSpec, str], dict[str, Any]]:
    return lambda _call, _spec, text: {field: text}


def _nothing(_call: Call, _spec: JobSpec, _text: str) -> dict[str, Any]:
    return {}


#: What is no text in the label -> how it is read.
_NUMBERS: dict[str, Callable[[str], Any]] = {"nice": readers.nice, "oversubscribe": _truth}

_FIELDS: dict[str, Callable[[Call, JobSpec, str], dict[str, Any]]] = {
    "jobname": _name,
    "name": _name,
    "timelimit": _limit,
    "priority": _priority,
    "partition": _queue,
    "partitionname": _queue,
    "account": _project,
    "starttime": _begin,
    "eligibletime": _begin,
    "minmemorynode": _memory,
    "minmemorycpu": _memory,
    "numcpus": _cpus,
    "numnodes": _nodes,
    "workdir": _output("workdir"),
    "stdout": _output("output"),
    "stderr": _output("error"),
    "requeue": job_words.requeue,
    "qos": job_words.quality,
    "reservationname": job_words.reservation,
    "reqnodelist": job_words.hosts("nodes"),
    "excnodelist": job_words.hosts("exclude"),
    "deadline": job_words.deadline,
    "gres": _gres,
    "licenses": _licenses,
    "features": _features,
    "nice": _nothing,
    "oversubscribe": _nothing,
    "shared": _nothing,
    "dependency": _nothing,
    "depend": _nothing,
    "arraytaskthrottle": _nothing,
}
