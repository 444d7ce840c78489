"""From an order to a job of Rota, through the same door as every other submit."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from rota.api.bodies.request_fields import Resources
from rota.api.bodies.requests import JobRequest, decode_job
from rota.api.bodies.submission import to_submission
from rota.api.jobs.submit import hand_in
from rota.core.facts.errors import Forbidden, Rejected, Unavailable
from rota.core.words.units import BANDS
from rota.hostlist import expand
from rota.slurm.call.command import CommandFailed
from rota.slurm.orders import readers, surroundings
from rota.slurm.orders.dependencies import NamedParents, read_dependencies
from rota.slurm.orders.detail import LABEL, Detail, label_of
from rota.slurm.orders.features import are_known, feature_words
from rota.slurm.orders.mail import mail_targets
from rota.slurm.orders.shapes import Share, share_of
from rota.slurm.records.node_records import reservation_name
from rota.slurm.words.values import moment, whole

if TYPE_CHECKING:
    from rota.controller.commands.commands import Submission
    from rota.slurm.call.command import Call
    from rota.slurm.orders.orders import JobOrder

#: Jobs that no node could take now wait, as they do in Slurm, for a node that can.
FOR_EVER_S = 3_000_000_000
#: How often a job is put back because its node was lost.
REQUEUES = 100

ACCOUNT = "Invalid account or account/partition combination specified"
UNAVAILABLE = "Requested node configuration is not available"
#: The field that Rota refuses -> Slurm's words.
_WORDS = {
    "queue": "Invalid partition name specified",
    "project": ACCOUNT,
    "node_list": "Invalid node name specified",
    "exclude": "Invalid node name specified",
    "array": "Invalid job array specification",
    "constraints": "Invalid feature specification",
    "depends_on": "Job dependency problem",
    "priority": "Access/permission denied",
    "workdir": "Invalid directory specified",
    "deadline_at": "Requested time limit is invalid (missing or exceeds some limit)",
    "name": "Invalid job name",
    "licenses": "Invalid license specification",
}
#: What may come one day: a job that asks for too much of it waits.
_PATIENT = frozenset({"resources.cpus", "nodes", "tasks"})


class BatchWork:
    """What a job runs: a script and its arguments, and what it is called."""

    def __init__(self, script: bytes, args: list[str], name: str, *, stdin: bytes = b"") -> None:
        self.script = script
        self.args = args
        self.name = name
        self.stdin = stdin


class NotTaken(Exception):
    """Slurm's words for why a job is not taken, and lines to print in front of them."""

    def __init__(self, reason: str, *before: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.before = before


async def submit(call: Call, prepared: list[Submission]) -> tuple[int, ...]:
    """Hand in jobs, all or none; their ids."""
    try:
        return await _ask(call, prepared)
    except Rejected as error:
        if not is_patient(error):
            raise in_slurms_words(error) from None
    waiting = [_patient(one) for one in prepared]
    try:
        return await _ask(call, waiting)
    except Rejected as error:
        raise in_slurms_words(error) from None


async def _ask(call: Call, prepared: list[Submission]) -> tuple[int, ...]:
    try:
        done = await hand_in(call.context, call.actor, tuple(prepared))
    except Unavailable as error:
        raise NotTaken(f"Resource temporarily unavailable ({error.what})") from None
    return done.ids


def _patient(one: Submission) -> Submission:
    spec = msgspec.structs.replace(one.spec, scheduling_timeout_s=FOR_EVER_S)
    return msgspec.structs.replace(one, spec=spec)


def is_patient(error: Rejected) -> bool:
    """Whether a job would wait for what it asks too much of."""
    return _plain_field(error) in _PATIENT


def _plain_field(error: Rejected) -> str:
    """Of several jobs the field reads ``jobs[1].queue``."""
    field = error.field or ""
    return field.partition("].")[2] if field.startswith("jobs[") else field


def in_slurms_words(error: Rejected) -> NotTaken:
    field = _plain_field(error)
    if field == "resources.memory_mib":
        return NotTaken(UNAVAILABLE, "Memory specification can not be satisfied")
    if field.startswith("resources."):
        return NotTaken(UNAVAILABLE)
    if field == "queue":
        name = str(error.value).strip("'")
        return NotTaken(_WORDS["queue"], f"invalid partition specified: {name}")
    if isinstance(error, Forbidden) and field not in _WORDS:
        return NotTaken("Access/permission denied")
    return NotTaken(_WORDS.get(field) or str(error))


def prepare(
    call: Call, order: JobOrder, work: BatchWork, extra: Detail
) -> tuple[Submission, Share, Detail]:
    """The submission of one order, or ``Refused``."""
    _check_account(call, order)
    nodes = list(call.context.host.cluster.nodes.values())
    share = share_of(order, nodes)
    detail = _detail(call, order, share, extra)
    features = feature_words(order.text("constraint"))
    if features and not are_known(call.context.host.cluster, features):
        raise NotTaken(_WORDS["constraints"])
    _check_reservation(call, order)
    parents = _parents(call, order, work.name)
    request = _request(call, order, work, share)
    try:
        asked = JobRequest(
            **request,
            variables=surroundings.variables(call.request, order, share, detail),
            depends_any=parents.any_of,
            **_claim(call, order),
        )
        if call.request.job:
            asked = _with_fields(asked, call.request.job)
        made = to_submission(asked, call.actor, call.context.desk)
    except Rejected as error:
        raise in_slurms_words(error) from None
    spec = msgspec.structs.replace(
        made.spec,
        dependencies=(*parents.dependencies, *made.spec.dependencies),
        labels={**made.spec.labels, LABEL: label_of(detail)},
    )
    made = msgspec.structs.replace(made, spec=spec)
    return _with_script(call, made, work), share, detail


def _with_fields(asked: JobRequest, fields: dict[str, Any]) -> JobRequest:
    """What Rota's own options say wins over the script; parts of a field leave the rest alone."""
    merged: dict[str, Any] = msgspec.to_builtins(asked)
    for name, value in fields.items():
        known = merged.get(name)
        both = isinstance(known, dict) and isinstance(value, dict)
        merged[name] = {**known, **value} if both and known else value
    made: JobRequest = decode_job(msgspec.json.encode(merged))
    return made


def _with_script(call: Call, made: Submission, work: BatchWork) -> Submission:
    """Put the bytes of script and input in their places: they need not be text."""
    blobs = {key: body for key, body in made.blobs.items() if key != made.spec.script}
    places: dict[str, Any] = {}
    for field, body in (("script", work.script), ("stdin", work.stdin)):
        if body:
            places[field] = digest = hashlib.sha256(body).hexdigest()
            if digest not in call.context.host.blobs:
                blobs[digest] = body
    spec = msgspec.structs.replace(made.spec, **places)
    return msgspec.structs.replace(made, spec=spec, blobs=blobs)


def _request(call: Call, order: JobOrder, work: BatchWork, share: Share) -> dict[str, Any]:
    """What Rota's own request has a field for."""
    output = order.text("output") or ("slurm-%A_%a.out" if order.has("array") else "slurm-%j.out")
    spread = share.nodes if share.nodes > 1 else 0
    return {
        "name": work.name,
        "script": "#!",
        "script_args": work.args,
        "queue": _partition(call, order),
        "resources": Resources(
            cpus=share.cpus,
            memory_mb=share.memory_mib,
            disk_mb=order.tmp_mb,
            gpus=share.gpus,
            gpu_type=order.gpu_type if share.gpus else "",
        ),
        "tasks": share.nodes,
        "nodes": spread,
        "constraints": feature_words(order.text("constraint")),
        "node_list": _hosts(call, order.text("nodelist")),
        "exclude": _hosts(call, order.text("exclude")),
        "workdir": folder(call, order),
        "env": _environment(call, order),
        "output": output,
        "error": order.text("error") or output,
        "umask": call.request.umask,
        "keep_waiting": True,
        **order.job,
    }


def _environment(call: Call, order: JobOrder) -> dict[str, str]:
    user = call.actor.user
    env = surroundings.exported(call.request, order.text("export"), user)
    return surroundings.login(user) | env if order.has("get-user-env") else env


def folder(call: Call, order: JobOrder) -> str:
    """The working folder; relative ones begin where the command was called."""
    asked = order.text("chdir")
    if not asked:
        return call.request.cwd
    return call.request.path(asked)


def _partition(call: Call, order: JobOrder) -> str:
    """The first one of those that were named; one that does not exist is refused by its name."""
    named = partitions_of(order)
    known = call.context.host.cluster.queues
    if not named and order.text("qos") in known:
        # A QOS that a site made is a queue with caps of its own.
        return order.text("qos")
    if not named:
        return "default" if "default" in known else next(iter(known), "default")
    return next((name for name in named if name not in known), named[0])


def partitions_of(order: JobOrder) -> list[str]:
    return [name for name in order.text("partition").split(",") if name]


def _check_account(call: Call, order: JobOrder) -> None:
    """Where accounts are kept, one that is named must be among them; nobody submits for others."""
    known = call.context.host.cluster.accounts.projects
    named = order.text("account")
    stranger = order.has("uid") and order.text("uid") not in (
        call.actor.user,
        str(call.request.uid),
    )
    if stranger or (named and known and named not in known):
        raise NotTaken(ACCOUNT)


def _check_reservation(call: Call, order: JobOrder) -> None:
    named = order.text("reservation")
    known = map(reservation_name, call.context.host.cluster.reservations.values())
    if named and not set(named.split(",")) & set(known):
        raise NotTaken("Requested reservation is invalid")


def _hosts(call: Call, text: str) -> list[str]:
    try:
        names = list(expand(text))
    except ValueError:
        raise NotTaken("Invalid node name specified") from None
    known = call.context.host.cluster.nodes
    if any(name not in known for name in names) and known:
        raise NotTaken("Invalid node name specified")
    return names


def _parents(call: Call, order: JobOrder, name: str) -> NamedParents:
    text = order.text("dependency")
    if not text:
        return NamedParents()
    context = call.context
    try:
        return read_dependencies(
            text, context.host.cluster, context.desk.find_job, call.actor.user, name
        )
    except ValueError:
        late = f"{text}: a job cannot wait for minutes after another one began; use --begin"
        before = (late,) if "+" in text else ()
        raise NotTaken(_WORDS["depends_on"], *before) from None


def _claim(call: Call, order: JobOrder) -> dict[str, Any]:
    """When it may begin, how it is tried again, how firm its claim is."""
    found: dict[str, Any] = {}
    if order.text("qos") not in call.context.host.cluster.queues:
        found |= _quality(order.text("qos"))
    if order.text("priority"):
        found["priority"] = _priority(call, order.text("priority"))
    found["notify"] = mail_targets(
        order.text("mail-type"), order.text("mail-user"), call.context.desk
    )
    if not order.has("no-requeue"):
        found |= {"retries": REQUEUES, "retry_on": ["node_lost"], "backoff_s": 0}
    for key, field in (("begin", "begin_at"), ("deadline", "deadline_at")):
        if order.text(key):
            found[field] = _moment(call, key, order.text(key))
    return found


def _priority(call: Call, text: str) -> int:
    """A number, of which whatever is over 100 is the top, or the name of a band."""
    if text.lower() in BANDS:
        return BANDS[text.lower()]
    if text.upper() == "TOP":
        return 100
    try:
        return min(whole(text, 0), 100)
    except ValueError:
        program = call.request.program
        raise CommandFailed(f"{program}: error: Invalid --priority specification\n", 255) from None


def _moment(call: Call, key: str, text: str) -> float:
    try:
        when_s = moment(text, call.context.host.clock.now_s())
    except (ValueError, OverflowError):
        program = call.request.program
        before = f"Invalid time specification (pos=0): {text}\n"
        line = f"{program}: error: Invalid --{key} specification\n"
        raise CommandFailed(before + line, 255) from None
    return max(when_s, 0.0)


def _quality(qos: str) -> dict[str, Any]:
    try:
        return readers.quality(qos)
    except ValueError:
        raise NotTaken("Invalid qos specification") from None


def _detail(call: Call, order: JobOrder, share: Share, extra: Detail) -> Detail:
    """What the options say of the job, and what follows from all of them together."""
    request = call.request
    return msgspec.structs.replace(
        extra,
        **order.detail,
        ntasks=share.ntasks,
        nodes=share.nodes,
        ntasks_given=bool(order.ntasks or order.ntasks_per_node),
        nodes_given=bool(order.nodes_min),
        tres_per_node=order.text("gres"),
        partitions=",".join(named) if len(named := partitions_of(order)) > 1 else "",
        submit_line=" ".join([request.program, *request.argv])[:1000],
        submit_host=request.host,
    )
