"""``rota show`` and ``rota why``: everything about one job."""

from __future__ import annotations

import json
import shlex
import time
from typing import TYPE_CHECKING, Any

import click

from rota.cli.jobs.far import add_progress, efficiency_pairs, figures_text
from rota.cli.jobs.queue import terminal_width
from rota.cli.shared import job_fields, render, session, types
from rota.cli.shared.foretold import foretold_lines
from rota.cli.shared.naming import LOOKED_AT, jobs_named
from rota.cli.shared.options import json_option
from rota.client.http import segment
from rota.core.words.units import counted, format_duration, format_mib

if TYPE_CHECKING:
    from rota.client.http import Client

_ATTEMPTS = (
    render.Column("TRY", right=True),
    render.Column("TASK", right=True),
    render.Column("NODE", shrinks=True),
    render.Column("STARTED"),
    render.Column("RAN", right=True),
    render.Column("PEAK", right=True),
    render.Column("EXIT", right=True),
    render.Column("CAUSE", shrinks=True, least=8),
)


def job_block(
    job: dict[str, Any], now_s: float, more: list[tuple[str, object]] | None = None
) -> list[str]:
    """The job as ``key: value`` lines, and what else is known of it."""
    resources = job.get("resources") or {}
    command = job.get("command")
    shown = shlex.join(command) if isinstance(command, list) else command
    return render.block(
        [
            ("id", job_fields.display_id(job)),
            ("uid", job.get("uid")),
            ("name", job.get("name")),
            ("state", job["state"]),
            ("phase", _phase(job)),
            ("why", job.get("reason") if job["state"] not in job_fields.FINISHED else ""),
            ("cause", job.get("cause")),
            ("exit code", job.get("exit_code")),
            ("signal", job.get("signal") or ""),
            ("user", job.get("user")),
            ("project", job.get("project")),
            ("queue", job.get("queue")),
            ("group", job.get("group")),
            ("priority", job.get("priority")),
            *claim_pairs(job),
            ("command", shown),
            ("script", "stored" if job.get("script") else ""),
            ("workdir", job.get("workdir")),
            ("bundle", (job.get("bundle") or "")[:12]),
            ("image", job.get("image")),
            ("ports", " ".join(job.get("ports") or [])),
            ("output", job.get("output")),
            ("error", job.get("error")),
            ("tasks", _tasks(job)),
            *role_pairs(job.get("roles") or []),
            ("cpus", f"{resources.get('cpus', 0):g} per task"),
            ("memory", _mib(resources.get("memory_mb"))),
            ("gpus", _gpus(job)),
            ("disk", _mib(resources.get("disk_mb"))),
            ("nodes", ", ".join(job.get("nodes") or ())),
            *placement_pairs(job.get("placement") or {}),
            ("time limit", _duration(job.get("time_limit_s"))),
            ("retries", job.get("retries") or ""),
            ("labels", " ".join(f"{k}={v}" for k, v in (job.get("labels") or {}).items())),
            ("depends on", _parents(job)),
            ("submitted", job_fields.local_time(job.get("submitted_at"))),
            ("eligible", job_fields.local_time(job.get("eligible_at"))),
            ("begins", job_fields.local_time(job.get("begin_at"))),
            ("started", job_fields.local_time(job.get("started_at"))),
            ("ended", job_fields.local_time(job.get("ended_at"))),
            ("elements", _elements(job)),
            ("waited", "" if job.get("count") else _waited(job, now_s)),
            ("ran", _ran(job, now_s)),
            *(more or ()),
        ]
    )


def _phase(job: dict[str, Any]) -> str:
    """What it does, where that says more than its state."""
    more = ("provisioning", "checkpointing", "migrating", "suspended")
    phase = job.get("phase")
    return str(phase) if phase in more else ""


def role_pairs(roles: list[dict[str, Any]]) -> list[tuple[str, object]]:
    """Several kinds of members: how many of each, and what one of them asks for."""
    pairs: list[tuple[str, object]] = []
    for role in roles:
        asked = role["resources"]
        least = role.get("min_count")
        parts = [f"{least} to {role['count']}" if least else str(role["count"])]
        parts.append(counted(asked["cpus"], "CPUs"))
        parts += [_mib(asked["memory_mb"])] if asked.get("memory_mb") else []
        parts += [counted(asked["gpus"], "GPUs")] if asked.get("gpus") else []
        pairs.append((f"role {role['name']}", ", ".join(parts)))
    return pairs


def _tasks(job: dict[str, Any]) -> str:
    least = job.get("min_tasks") or 0
    return f"{least} to {job['tasks']}" if least else str(job.get("tasks") or "")


def _gpus(job: dict[str, Any]) -> str:
    """All of them together; a share of one is told as it was asked for."""
    each = (job.get("resources") or {}).get("gpus") or 0
    share = f" ({each:g} of a GPU per task)" if each != int(each) else ""
    text = job_fields.gpus(job)
    return "" if text == "-" else text + share


def _deadline(job: dict[str, Any]) -> str:
    """``2026-11-16 18:00:00, missed``."""
    missed = ", missed" if job.get("deadline_missed_at") else ""
    promise = job.get("promise")
    told = f", promise {promise}" if promise in ("kept", "broken") else ", promised"
    return job_fields.local_time(job.get("deadline_at")) + missed + (told if promise else "")


def claim_pairs(job: dict[str, Any]) -> list[tuple[str, object]]:
    """How firm its claim is and how it gives way, where it is not the usual."""
    qos = job.get("qos")
    return [
        ("type", job.get("type")),
        ("qos", qos if qos != "burstable" else ""),
        ("deadline", _deadline(job)),
        ("estimate", _duration(job.get("estimate_s"))),
        ("predicted", _duration(job.get("predicted_s"))),
        ("predicted at most", _duration(job.get("predicted_most_s"))),
        ("preemptible", "yes" if job.get("preemptible") else ""),
        ("preempt mode", job.get("preempt_mode")),
        ("preemptions", job.get("preemptions") or ""),
        ("checkpoint signal", job.get("checkpoint_signal")),
        ("save signal", job.get("save_signal")),
        ("saves every", _duration(job.get("save_every_s"))),
        ("last checkpoint", job_fields.local_time(job.get("checkpoint_at"))),
        *checkpoint_pairs(job.get("checkpoints") or []),
        ("restart cost", _duration(job.get("restart_cost_s"))),
        ("notifies", ", ".join(job.get("notify") or ())),
    ]


def checkpoint_pairs(records: list[dict[str, Any]]) -> list[tuple[str, object]]:
    """What the job said about its latest checkpoints, the newest first."""
    lines = []
    for record in reversed(records[-3:]):
        parts = [f"try {record['attempt']}"]
        parts += [f"step {record['step']}"] if record.get("step") is not None else []
        parts += [str(record["path"])] if record.get("path") else []
        parts += [render.size_text(record["size"])] if record.get("size") else []
        parts += [str(record["note"])] if record.get("note") else []
        lines.append(("checkpoint", ", ".join(parts) if len(parts) > 1 else ""))
    return [*lines]


def placement_pairs(placement: dict[str, Any]) -> list[tuple[str, object]]:
    """Where it may run, as far as it says."""
    titles = {
        "nodes": "node count",
        "node_list": "only on",
        "exclude": "not on",
        "constraints": "constraints",
        "tolerate": "tolerates",
        "near": "near",
        "apart": "apart from",
        "topology": "same",
        "data": "data sets",
        "cluster": "cluster",
        "engine": "engine",
        "vdc": "vdc",
    }
    pairs: list[tuple[str, object]] = []
    for key, title in titles.items():
        value = placement.get(key)
        pairs.append((title, ", ".join(value) if isinstance(value, list) else value or ""))
    return [*pairs, ("exclusive", "yes" if placement.get("exclusive") else "")]


def _elements(job: dict[str, Any]) -> str:
    """Of an array: how many, and how many of them are where."""
    if not job.get("count"):
        return ""
    states = ", ".join(f"{count} {state}" for state, count in job["states"].items() if count)
    return f"{job['count']} ({states})"


def _waited(job: dict[str, Any], now_s: float) -> str:
    return job_fields.clock(job_fields.wait_time_s(job, now_s))


def _ran(job: dict[str, Any], now_s: float) -> str:
    length_s = job_fields.run_time_s(job, now_s)
    return "" if length_s is None else job_fields.clock(length_s)


def _mib(amount: int | None) -> str:
    return format_mib(int(amount)) if amount else ""


def _duration(length_s: float | None) -> str:
    return format_duration(int(length_s)) if length_s else ""


def _parents(job: dict[str, Any]) -> str:
    word = " or " if job.get("depends_any") else ", "
    return word.join(f"{entry['kind']} {entry['job']}" for entry in job.get("depends_on") or ())


def attempt_table(
    attempts: list[dict[str, Any]], now_s: float, width: int | None = None
) -> list[str]:
    """Every try of every task."""
    rows = [
        (
            attempt.get("number", ""),
            attempt.get("task", 0),
            _where(attempt),
            job_fields.local_time(attempt.get("started_at")) or "-",
            job_fields.clock(job_fields.run_time_s(attempt, now_s)),
            _mib(attempt.get("peak_memory_mb")) or "-",
            _code(attempt),
            attempt.get("cause") or attempt.get("state") or "",
        )
        for attempt in attempts
    ]
    return render.table(_ATTEMPTS, rows, width)


def _where(attempt: dict[str, Any]) -> str:
    """Its node; of a pool also the machine that the engine chose."""
    node, machine = str(attempt.get("node", "")), attempt.get("engine_node")
    return f"{node} ({machine})" if machine and not node.startswith(f"{machine}.") else node


def _code(attempt: dict[str, Any]) -> str:
    if attempt.get("signal"):
        return f"sig {attempt['signal']}"
    return "-" if attempt.get("exit_code") is None else str(attempt["exit_code"])


def items(answer: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - JSON
    """A list, whether it came bare or with a cursor."""
    return list(answer["items"]) if isinstance(answer, dict) else list(answer)


@click.command()
@click.argument("jobs", metavar="JOB…", nargs=-1, required=True, type=types.JobRefs())
@json_option
def show(jobs: tuple[str, ...], as_json: bool) -> None:
    """Show everything about JOBs: what was asked for, where it is, every try of it.

    Of an array also which elements failed, by what ended them. With --json several jobs are a list.
    """
    client = session.connect()
    places = [f"/jobs/{segment(name)}" for name in jobs_named(client, jobs, LOOKED_AT)]
    if as_json:
        found = [
            {**client.get(place), "attempts": items(client.get(f"{place}/attempts"))}
            for place in places
        ]
        click.echo(json.dumps(found if len(found) > 1 else found[0], indent=2))
        return
    for number, place in enumerate(places):
        click.echo("\n" if number else "", nl=False)
        _show(client, place)


def _show(client: Client, place: str) -> None:
    found = client.get(place)
    attempts = items(client.get(f"{place}/attempts"))
    now_s = time.time()
    add_progress(client, [found])
    more: list[tuple[str, object]] = [("progress", job_fields.progress_text(found))]
    more.append(("figures", figures_text(found)))
    if not found.get("count") and found.get("started_at"):
        more += efficiency_pairs(client.get(f"{place}/metrics"))
    click.echo("\n".join(job_block(found, now_s, more)))
    if found.get("count") and found["state"] != "completed":
        lines = failure_lines(client.get(f"{place}/why"))
        click.echo("\n".join(map(render.clean, lines)), nl=bool(lines))
    if attempts:
        click.echo("\n" + "\n".join(attempt_table(attempts, now_s, terminal_width())))


@click.command()
@click.argument("jobs", metavar="JOB…", nargs=-1, required=True, type=types.JobRefs())
@click.option("--at", type=types.PAST, help="As it was then: 10m (ago), 2026-11-15T18:00.")
@json_option
def why(jobs: tuple[str, ...], at: float | None, as_json: bool) -> None:
    """Say why JOBs wait (or waited), or how they ended, and what would help.

    Of a job that failed: its command and the last lines that it wrote. Of an array: what runs, what
    waits and why, and which elements failed, by what ended them. With --json several are a list.
    """
    client = session.connect()
    asked = {} if at is None else {"at": f"{at:.3f}"}
    names = jobs_named(client, jobs, LOOKED_AT)
    answers = [client.get(f"/jobs/{segment(name)}/why", **asked) for name in names]
    if as_json:
        click.echo(json.dumps(answers if len(answers) > 1 else answers[0], indent=2))
        return
    for answer in answers:
        click.echo("\n".join(why_lines(answer, "is" if at is None else "was")))


#: How a job that is in this state is spoken of.
_SPOKEN = {
    "completed": "completed",
    "failed": "failed",
    "timeout": "timed out",
    "cancelled": "was cancelled",
    "node_failed": "failed with its node",
    "unschedulable": "was given up",
}


def why_lines(answer: dict[str, Any], verb: str = "is") -> list[str]:
    """The reason first, then what it does not say yet, then what would help."""
    state, reason = answer["state"], str(answer.get("reason") or "")
    told = reason.removeprefix(f"{state}: ") if reason != state else ""
    if error := answer.get("error"):
        told = f"{error} ({told})"
    name = answer.get("ref") or answer["id"]
    spoken = _SPOKEN.get(state, f"{verb} {state}")
    if state in _SPOKEN and told.startswith(f"{state} ("):
        told = told.removeprefix(f"{state} (").removesuffix(")")
    elif told.startswith(f"{state} "):
        # "is running: running on box" says it twice.
        spoken, told = f"{verb} {told}", ""
    if answer.get("failures") and state in _SPOKEN:
        told = told.removeprefix("its ")
    if len(elements := answer.get("elements") or {}) > 1:
        # One word for all of them would be true of some.
        spoken = f"has {', '.join(f'{count} {state}' for state, count in elements.items())}"
    lines = [f"{name} {spoken}" + (f": {told}" if told else "")]
    if not state:
        lines = [f"{name}: {reason}"]
    said = (reason, f"it is {reason}")
    lines += [f"  {line}" for line in answer.get("lines") or () if line not in said]
    lines += foretold_lines(answer)
    lines += failure_lines(answer)
    lines += [f"  try: {line}" for line in answer.get("help") or ()]
    return [render.clean(line) for line in lines]


def failure_lines(answer: dict[str, Any]) -> list[str]:
    """What a job that failed ran and wrote last; of an array, its failed elements by cause."""
    lines = []
    if answer.get("command"):
        lines.append(f"  command: {answer['command']}")
    lines += [f"  | {line}" for line in answer.get("last_lines") or ()]
    for group in answer.get("failures") or ():
        shown = f"elements {group['indices']}" if group["count"] > 1 else group["first"]
        lines.append(f"  {group['count']} {_SPOKEN[group['state']]}: {group['cause']}: {shown}")
        if group["last_lines"] and group["cause"] not in group["last_lines"][-1]:
            lines.append(f"    {group['first']} | {group['last_lines'][-1]}")
    if answer.get("failures"):
        lines.append(f"  try: rota logs {answer['id']} --failed")
        lines.append(f"  try: rota redo {answer['id']} --failed")
    return lines
