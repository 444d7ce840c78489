"""What an agent can do with Rota: list, explain, preview and do. One entry per tool.

Arguments are checked against the same table that describes them, so that a wrong one is answered
with a line that says what is allowed.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.cli.jobs.plan import plan_lines
from rota.cli.shared import session
from rota.cli.shared.types import JobRef
from rota.cli.submit import surroundings
from rota.cli.submit.submit import compose
from rota.cli.submit.work import Work
from rota.client.errors import ClientError
from rota.client.http import new_key
from rota.core.facts.states import JobState
from rota.core.words.units import parse_cpu_milli, parse_duration_s, parse_memory_mib

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.client.http import Client

#: Lines of a log, and jobs of a list, unless more are asked for.
TAIL = 100
JOBS = 20
MOST = 1000

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
}

_JOB: dict[str, dict[str, Any]] = {
    "job": {
        "type": ["string", "integer"],
        "description": "An id (12), an element of an array (12_3), or @: my last one",
    }
}
_REQUEST: dict[str, dict[str, Any]] = {
    "command": {"type": "string", "description": "A line for the shell"},
    "name": {"type": "string"},
    "cpus": {"type": "number", "description": "Of each task; 1 unless given"},
    "memory": {"type": "string", "description": "Such as 16g; more is killed"},
    "gpus": {"type": "number", "description": "Whole ones, or a fraction of one"},
    "gpu_type": {"type": "string", "description": "A model such as A100"},
    "time": {"type": "string", "description": "Longest run, such as 2h; short jobs start sooner"},
    "queue": {"type": "string"},
    "project": {"type": "string"},
    "priority": {"type": "integer", "description": "0 to 100; 50 unless given"},
    "after_ok": {
        "type": "array",
        "items": {"type": "string"},
        "description": "Jobs that must have completed before",
    },
    "workdir": {"type": "string", "description": "The folder that it runs in"},
}


class Tool(NamedTuple):
    """How it is described, and what it does: gives text."""

    text: str
    fields: dict[str, dict[str, Any]]
    act: Callable[[Client, dict[str, Any]], str]
    required: tuple[str, ...] = ()
    changes: bool = False

    def schema(self, name: str) -> dict[str, Any]:
        """As ``tools/list`` tells it."""
        return {
            "name": name,
            "description": self.text,
            "inputSchema": {
                "type": "object",
                "properties": self.fields,
                "required": list(self.required),
                "additionalProperties": False,
            },
            "annotations": {"readOnlyHint": not self.changes, "destructiveHint": name == "cancel"},
        }

    def check(self, given: dict[str, Any]) -> None:
        """Refuse what the schema does not allow."""
        for name in self.required:
            if name not in given:
                raise ClientError(f"{name}: is missing")
        for name, value in given.items():
            field = self.fields.get(name)
            if field is None:
                known = ", ".join(self.fields) or "none"
                raise ClientError(f"{name}: there is no such argument; allowed: {known}")
            _check_value(name, value, field)


def _check_value(name: str, value: object, field: dict[str, Any]) -> None:
    wanted = field["type"] if isinstance(field["type"], list) else [field["type"]]
    types = tuple(kind for word in wanted for kind in _TYPES[word])
    if not isinstance(value, types) or isinstance(value, bool):
        raise ClientError(f"{name}: {value!r} is not valid; expected {' or '.join(wanted)}")
    if value not in field.get("enum", [value]):
        raise ClientError(f"{name}: {value!r} is not one of {', '.join(field['enum'])}")
    if name == "job" and not JobRef.pattern.fullmatch(str(value)):
        raise ClientError(f"job: {str(value)[:60]!r} is not valid; {JobRef.forms}")


def _place(client: Client, given: dict[str, Any]) -> str:
    return session.job_path(client, str(given["job"]))


def _text(answer: object) -> str:
    return json.dumps(answer, indent=1, ensure_ascii=False)


def _queue(client: Client, given: dict[str, Any]) -> str:
    filters: dict[str, Any] = {"order": "-id", "arrays": "collapse"}
    for name in ("state", "user", "project"):
        if name in given:
            filters[name] = given[name]
    most = min(max(given.get("limit", JOBS), 1), MOST)
    kept = ("id", "name", "user", "state", "reason", "nodes", "submitted_at", "started_at")
    jobs = session.list_jobs(client, filters, most=most, page=most)
    return _text([{field: job.get(field) for field in kept} for job in jobs])


def _show(client: Client, given: dict[str, Any]) -> str:
    return _text(client.get(_place(client, given)))


def _why(client: Client, given: dict[str, Any]) -> str:
    answer = client.get(f"{_place(client, given)}/why")
    lines = [answer["reason"], *(line for line in answer["lines"] if line != answer["reason"])]
    return "\n".join([*lines, *(f"try: {line}" for line in answer["help"])])


def _logs(client: Client, given: dict[str, Any]) -> str:
    choice = {"stream": given.get("stream", "stdout"), "tail": max(given.get("tail", TAIL), 0)}
    parts = client.stream(f"{_place(client, given)}/logs", **choice)
    return b"".join(parts).decode("utf-8", "replace")


def _nodes(client: Client, _: dict[str, Any]) -> str:
    return _text({"nodes": client.get("/nodes")["items"], "gpus": client.get("/gpus")["items"]})


def _body(client: Client, given: dict[str, Any]) -> dict[str, Any]:
    """The request as ``rota submit`` would send it from here."""
    options = {name: given[name] for name in _REQUEST if name in given and name != "command"}
    readers = {"memory": ("mem", parse_memory_mib), "time": ("time", parse_duration_s)}
    for name, (option, read) in readers.items():
        if name in options:
            options[option] = read(options.pop(name))
    if "cpus" in options:
        options["cpus"] = parse_cpu_milli(str(options["cpus"]))
    if "after_ok" in options:
        options["after_ok"] = (tuple(map(str, options["after_ok"])),)
    if not given["command"].strip():
        raise ClientError("command: the line is empty")
    return compose(options, Work(line=given["command"]), client, quiet=True)


def _plan(client: Client, given: dict[str, Any]) -> str:
    return "\n".join(plan_lines(client.post("/plan", _body(client, given))))


def _submit(client: Client, given: dict[str, Any]) -> str:
    body = _body(client, given)
    if client.is_local:
        surroundings.refuse_absent(body, os.environ)
    answer = client.post("/jobs", body, key=new_key())
    return f"submitted job {answer['id']}"


def _cancel(client: Client, given: dict[str, Any]) -> str:
    job = session.job_id(client, str(given["job"]))
    answer = client.post("/jobs:cancel", {"ids": [job]})
    for refusal in answer["refused"]:
        raise ClientError(refusal["reason"])
    return f"cancelled job {job}"


_LIST: dict[str, dict[str, Any]] = {
    "state": {"type": "string", "enum": [str(state) for state in JobState]},
    "user": {"type": "string"},
    "project": {"type": "string"},
    "limit": {"type": "integer", "description": f"{JOBS} unless given, at most {MOST}"},
}
_LOG: dict[str, dict[str, Any]] = {
    **_JOB,
    "stream": {"type": "string", "enum": ["stdout", "stderr"]},
    "tail": {"type": "integer", "description": f"The last so many lines; {TAIL} unless given"},
}

TOOLS: dict[str, Tool] = {
    "queue": Tool("List jobs, the newest first.", _LIST, _queue),
    "show": Tool("Everything about one job.", _JOB, _show, ("job",)),
    "why": Tool(
        "Why a job waits, or how it ended; 'try:' lines would start it now.", _JOB, _why, ("job",)
    ),
    "logs": Tool("What a job printed.", _LOG, _logs, ("job",)),
    "nodes": Tool("Machines and GPUs, what is free and who uses what.", {}, _nodes),
    "plan": Tool(
        "Preview: would such a job start now, and if not, when and why? Nothing is submitted.",
        _REQUEST,
        _plan,
        ("command",),
    ),
    "submit": Tool(
        "Submit a job with this environment; gives its id.",
        _REQUEST,
        _submit,
        ("command",),
        changes=True,
    ),
    "cancel": Tool("Cancel a job, waiting or running.", _JOB, _cancel, ("job",), changes=True),
}
