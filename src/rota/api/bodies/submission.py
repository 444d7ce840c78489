"""From what a caller sent to what the controller takes: checked for form, blobs set aside."""

from __future__ import annotations

import hashlib
from datetime import UTC
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any

from rota.api.bodies import checks
from rota.api.bodies.executor_requests import in_own_words
from rota.api.bodies.health_requests import health_of
from rota.api.bodies.placing import placement_of, signal_name
from rota.api.bodies.roles import roles_of
from rota.api.bodies.slots import refuse_unfilled
from rota.api.bodies.timing import kept_deadline, warning
from rota.controller.agents.bundles import require_bundle
from rota.controller.commands.commands import Submission
from rota.controller.launches.launch import encode_environment
from rota.controller.launches.vault import Vault
from rota.core.facts.errors import Rejected
from rota.core.facts.indices import IndexRun, parse_indices
from rota.core.facts.job import JobSpec, RestartPolicy
from rota.core.facts.notices import TARGETS_MAX
from rota.core.facts.parents import Dependency, DependencyKind
from rota.core.words.units import BANDS
from rota.moments import parse_moment
from rota.settings.limits import UserLimits
from rota.settings.notify import Notify

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.api.bodies.requests import DependencyRequest, JobRequest, Parameters
    from rota.core.facts.notices import Target
    from rota.core.facts.tenant import Actor

#: A longer line cannot be an argument of a process (the kernel allows 128 KiB): it is a script.
NEEDS_MANY = "it needs a group or an array"
NO_CONTAINERS = "no node can run containers: install podman or apptainer"
LINE_MAX = 100_000
#: Where nothing was set up, jobs may still name URLs.
NOBODY = Notify()
#: Where nothing was set up, no working folder can be named.
NO_BUNDLES = partial(require_bundle, None)
NO_VAULT = Vault()
USUAL_LIMITS = UserLimits()
#: For jobs that name a restart policy and not how often.
RESTARTS = 3
RESTART_BACKOFF_S = 60.0


class Desk:
    """What turning a request into a submission needs to know of the host."""

    def __init__(
        self,
        knows_blob: Callable[[str], bool],
        now_s: Callable[[], float],
        find_job: Callable[[str], int],
        target: Callable[[str], Target] = NOBODY.target,
        require_bundle: Callable[[str], None] = NO_BUNDLES,
        runs_images: Callable[[], bool] = lambda: False,
        require_secret: Callable[[str, str], object] | None = None,
        vault: Vault = NO_VAULT,
        limits: UserLimits = USUAL_LIMITS,
    ) -> None:
        self.knows_blob = knows_blob
        self.now_s = now_s
        #: The id behind ``5_3``.
        self.find_job = find_job
        #: Somebody to tell, if the site can and may.
        self.target = target
        #: Refuses a working folder that was not uploaded.
        self.require_bundle = require_bundle
        #: Whether some node can run container images.
        self.runs_images = runs_images
        #: Refuses a secret that a user does not have.
        self.require_secret = require_secret or (lambda user, name: None)
        #: What seals environments.
        self.vault = vault
        #: What one job may weigh.
        self.limits = limits


def to_submission(request: JobRequest, actor: Actor, desk: Desk) -> Submission:
    """One job or array, or ``Rejected`` with one line that names the field."""
    blobs: dict[str, bytes] = {}
    keep = _Keep(desk, blobs)
    command, script = work_of(request := in_own_words(request), desk, blobs)
    checks.variables("env", request.env, total_max=desk.limits.environment_bytes)
    checks.variables("variables", request.variables)
    checks.labels(request.labels)
    checks.folder("workdir", request.workdir)
    checks.plain("output", request.output)
    checks.plain("error", request.error)
    runs, cap, rows = _elements(request)
    spec = JobSpec(
        name=checks.name(request.name) if request.name else name_of(request),
        user=actor.user,
        command=command,
        script=script,
        script_args=tuple(checks.arguments("script_args", request.script_args)),
        project=checks.word("project", request.project) or actor.project,
        queue=checks.word("queue", request.queue),
        priority=priority(request.priority),
        roles=roles_of(request),
        workdir=request.workdir,
        environment=keep.sealed(encode_environment(request.env)) if request.env else "",
        variables=desk.vault.seal_variables(request.variables),
        secrets=_secrets(request, actor, desk),
        stdin=keep(_input(request, desk)) if request.stdin else "",
        output=request.output,
        error=request.error,
        umask=request.umask,
        ulimits=checks.ulimits(request.ulimits),
        time_limit_s=ceil(request.time_limit_s),
        grace_s=ceil(request.grace_s),
        scheduling_timeout_s=ceil(
            request.scheduling_timeout_s or request.scheduling_timeout_seconds
        ),
        begin_s=moment("begin_at", request.begin_at, desk),
        dependencies=dependencies(request.depends_on, desk),
        any_dependency=request.depends_any,
        keep_waiting=request.keep_waiting,
        dependency_timeout_s=ceil(request.dependency_timeout_s),
        group=checks.word("group", request.group),
        **_restarts(request),
        labels=request.labels,
        preemptible=request.preemptible,
        **_claim(request, desk),
        parameters=tuple(request.parameters.names) if request.parameters else (),
    )
    if request.max_concurrent is not None and not request.group and not runs:
        raise Rejected.because("max_concurrent", request.max_concurrent, NEEDS_MANY)
    return Submission(
        spec=spec,
        blobs=blobs,
        held=request.hold,
        runs=runs,
        cap=cap,
        rows=rows,
        group_cap=request.max_concurrent if request.group else None,
        promise=request.promise,
    )


def _claim(request: JobRequest, desk: Desk) -> dict[str, Any]:
    """Where it may run, how firm its claim is and how it gives way."""
    return {
        "placement": placement_of(request),
        "estimate_s": ceil(request.estimate_s),
        "deadline_s": _deadline(request, desk),
        "service": request.qos,
        "preempt_mode": request.preempt_mode,
        "preempt_retries": request.preempt_retries,
        "checkpoint_signal": signal_name(request.checkpoint_signal),
        **_saving(request),
        "restart_cost_s": ceil(request.restart_cost_s),
        "type": request.type,
        "notify": targets(request.notify, desk),
        "pty": _terminal(request),
        "bundle": _bundle(request, desk),
        "image": _image(request, desk),
        "licenses": checks.licenses(request.licenses),
        "ports": checks.port_names(request.ports),
        "health": health_of(request.health, request.ports),
    }


def _deadline(request: JobRequest, desk: Desk) -> float:
    deadline_s = deadline(request.deadline_at, desk)
    if not deadline_s:
        return 0.0  # What does not ask for the hour is checked once for many jobs alike.
    begins_s = max(desk.now_s(), moment("begin_at", request.begin_at, desk))
    return kept_deadline(request, deadline_s, begins_s)


def _input(request: JobRequest, desk: Desk) -> bytes:
    return checks.sized("stdin", request.stdin, desk.limits.input_bytes)


def _secrets(request: JobRequest, actor: Actor, desk: Desk) -> tuple[str, ...]:
    for name in request.secrets:
        desk.require_secret(actor.user, name)
    return tuple(dict.fromkeys(request.secrets))


def _saving(request: JobRequest) -> dict[str, Any]:
    """How it is asked to save its work and go on."""
    name = signal_name(request.save_signal, "save_signal")
    check_saving(name, request.save_every_s, signal_name(request.checkpoint_signal))
    return {"save_signal": name, "save_every_s": ceil(request.save_every_s), **warning(request)}


def check_saving(save_signal: str, save_every_s: float, checkpoint_signal: str) -> None:
    """What a job says of its signals must go together, when it is submitted or changed."""
    if save_every_s and not save_signal:
        raise Rejected.because("save_every_s", save_every_s, "it needs save_signal")
    if save_signal and save_signal == checkpoint_signal:
        raise Rejected.because(
            "save_signal", save_signal, f"{save_signal} is checkpoint_signal already; use another"
        )


def _bundle(request: JobRequest, desk: Desk) -> str:
    if request.bundle:
        desk.require_bundle(request.bundle)
    return request.bundle


def _image(request: JobRequest, desk: Desk) -> str:
    """A job that would wait for a node with an engine says for how long."""
    image = checks.image(request.image)
    if image and not desk.runs_images() and not request.scheduling_timeout_s:
        raise Rejected.because("image", image, NO_CONTAINERS)
    return image


def _terminal(request: JobRequest) -> bool:
    if request.pty and request.stdin:
        raise Rejected.because("stdin", "...", "a job with a terminal (pty) takes no stdin")
    return request.pty


def targets(asked: list[str], desk: Desk) -> tuple[Target, ...]:
    """Whom to tell; each one once."""
    if len(asked) > TARGETS_MAX:
        raise Rejected.many("notify", len(asked), TARGETS_MAX, "targets")
    return tuple(dict.fromkeys(desk.target(text) for text in asked if text))


def _restarts(request: JobRequest) -> dict[str, Any]:
    """A restart policy and nothing else means restarts: 3, the first after 60 s."""
    policy = request.restart or RestartPolicy.ON_FAILURE
    named = request.restart not in (None, RestartPolicy.NEVER) and request.retries is None
    retries = RESTARTS if named else request.retries or 0
    usual_s = RESTART_BACKOFF_S if named else 1.0
    backoff_s = usual_s if request.backoff_s is None else float(request.backoff_s)
    retry_on = checks.retry_on(request.retry_on)
    return {"restart": policy, "retries": retries, "backoff_s": backoff_s, "retry_on": retry_on}


class _Keep:
    """Sets a body aside under its digest, unless the store has it already."""

    def __init__(self, desk: Desk, blobs: dict[str, bytes]) -> None:
        self._desk = desk
        self._blobs = blobs

    def __call__(self, body: bytes) -> str:
        digest = hashlib.sha256(body).hexdigest()
        if not self._desk.knows_blob(digest):
            self._blobs[digest] = body
        return digest

    def sealed(self, body: bytes) -> str:
        """Likewise, readable only with the key."""
        vault = self._desk.vault
        digest = vault.digest(body)
        if not self._desk.knows_blob(digest):
            self._blobs[digest] = vault.seal(body)
        return digest


def work_of(
    request: JobRequest, desk: Desk, blobs: dict[str, bytes]
) -> tuple[tuple[str, ...], str]:
    """The command, or the digest of the script, which is set aside: exactly one of them."""
    keep = _Keep(desk, blobs)
    if bool(request.command) == bool(request.script):
        if request.command:
            raise Rejected.because("script", "...", "give either command or script, not both")
        raise Rejected("command: is required (or script)", field="command", allowed="a command")
    if request.script:
        checks.refuse_nul("script", request.script)
        return (), keep(checks.sized("script", request.script))
    if request.script_args:
        raise Rejected.because("script_args", request.script_args, "they need script")
    if isinstance(request.command, list):
        return tuple(checks.arguments("command", request.command)), ""
    return shell_line(request.command, keep)


def shell_line(line: str, keep: Callable[[bytes], str]) -> tuple[tuple[str, ...], str]:
    """A line for the shell, as an argument of it or, when it is too long for that, as a script."""
    checks.refuse_nul("command", line)
    if not line.strip():
        raise Rejected.bad("command", line, "it is empty")
    body = checks.sized("command", line, checks.COMMAND_MAX)
    if len(body) > LINE_MAX:
        return (), keep(b"#!/bin/sh\n" + body + b"\n")
    return ("/bin/sh", "-c", line), ""


def priority(asked: int | str) -> int:
    """A number, or the name of a band."""
    if isinstance(asked, int):
        return asked
    known = BANDS.get(asked)
    if known is None:
        bands = ", ".join(f"{name} ({number})" for name, number in BANDS.items())
        raise Rejected.bad("priority", asked, f"0 to 100, or {bands}")
    return known


def moment(field: str, asked: float | str, desk: Desk) -> float:
    """Seconds since the epoch, or text such as 2026-11-15T18:00:00Z."""
    if not isinstance(asked, str):
        return float(asked)
    if not asked:
        return 0.0
    try:
        return parse_moment(asked, desk.now_s(), UTC)
    except ValueError as error:
        allowed = f"{error}, or seconds since 1970"
        raise Rejected(f"{field}: {allowed}", field=field, value=asked) from None


def deadline(asked: float | str, desk: Desk) -> float:
    """A moment to come; 0 for none."""
    when_s = moment("deadline_at", asked, desk)
    if when_s and when_s <= desk.now_s():
        raise Rejected.because(
            "deadline_at", asked, f"{asked!r} is in the past; give a future time"
        )
    return when_s


def dependencies(asked: list[DependencyRequest], desk: Desk) -> tuple[Dependency, ...]:
    return tuple(
        Dependency(
            entry.kind,
            entry.job if isinstance(entry.job, int) else desk.find_job(entry.job),
            entry.element,
            _data(entry),
        )
        for entry in asked
    )


def _data(entry: DependencyRequest) -> str:
    if bool(entry.data) != (entry.kind is DependencyKind.AFTER_DATA):
        allowed = "the name of the data with after-data, and nothing with other kinds"
        raise Rejected.bad("depends_on.data", entry.data, allowed)
    return entry.data


Elements = tuple[tuple[IndexRun, ...], int, tuple[tuple[str, ...], ...]]


def _elements(request: JobRequest) -> Elements:
    """Indices, cap and rows of an array or sweep; all empty for a single job."""
    if request.array and request.parameters is not None:
        raise Rejected.because("array", request.array, "give either array or parameters, not both")
    own_cap = request.max_concurrent if not request.group else None
    if request.array:
        runs, cap = parse_indices(request.array)
        return runs, own_cap or cap, ()
    if request.parameters is not None:
        refuse_unfilled(request, request.parameters.names)
        rows = _rows(request.parameters)
        return (IndexRun(0, len(rows) - 1),), own_cap or 0, rows
    return (), 0, ()


def _rows(asked: Parameters) -> tuple[tuple[str, ...], ...]:
    for name in asked.names:
        checks.variable_name("parameters.names", name)
    if len(set(asked.names)) != len(asked.names):
        raise Rejected.bad("parameters.names", asked.names, "each name may stand only once")
    width = len(asked.names)
    for number, row in enumerate(asked.rows):
        if len(row) != width:
            raise Rejected.bad(
                f"parameters.rows[{number}]", row, f"expected {width} values, one for each name"
            )
    rows = tuple(tuple(map(_text, row)) for row in asked.rows)
    checks.rows(rows)
    return rows


def _text(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value!r}"


def name_of(request: JobRequest) -> str:
    """Without a name, a job is called after the program that it runs."""
    if request.script:
        return "script"
    line: Any = request.command
    first = line[0] if isinstance(line, list) else line.split(maxsplit=1)[0]
    base = first[:4096].rstrip("/").rpartition("/")[2]
    return "".join(c for c in base if c.isprintable())[:200].strip() or "job"
