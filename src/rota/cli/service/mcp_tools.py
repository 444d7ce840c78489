"""What an agent can do with Rota: list, explain, preview and do. One entry per tool.

Arguments are checked against the same table that describes them, so that a wrong one is answered
with a line that says what is allowed.
"""

from __future__ import annotations

import json
import os
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.cli.jobs.plan import plan_lines
from rota.cli.shared import session
from rota.cli.shared.types import PRIORITY, JobRefType
from rota.cli.submit import request, surroundings
from rota.cli.submit.submit import compose
from rota.cli.submit.work import Work
from rota.client.errors import ClientError
from rota.client.http import new_key, segment
from rota.core.facts.indices import parse_indices
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
    "object": (dict,),
    "boolean": (bool,),
}

_JOB: dict[str, dict[str, Any]] = {
    "job": {
        "type": ["string", "integer"],
        "description": "An id (12), an element of an array (12_3), or @: my last one",
    }
}
_PREVIEW: dict[str, dict[str, Any]] = {
    "preview": {"type": "boolean", "description": "Say what it would do, and change nothing"}
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
    "priority": {
        "type": ["integer", "string"],
        "description": "0 to 100, or low, normal, high; 50 unless given",
    },
    "after_ok": {
        "type": "array",
        "items": {"type": "string"},
        "description": "Jobs that must have completed before",
    },
    "workdir": {"type": "string", "description": "The folder that it runs in"},
    "tasks": {"type": "integer", "description": "How many at once, as one gang"},
    "array": {
        "type": "string",
        "description": "Many jobs of one command: 0-99, or 0-99%4 for 4 at a time; "
        "ROTA_ARRAY_INDEX tells them apart",
    },
    "params": {
        "type": "object",
        "description": 'A sweep, such as {"lr": [0.1, 0.01]}; {lr} in the command is replaced',
    },
    "env": {"type": "object", "description": "Variables, on top of this environment"},
    "image": {"type": "string", "description": "A container image that it runs in"},
}
#: What can be changed of a job that is there.
_CHANGES: dict[str, dict[str, Any]] = {
    name: _REQUEST[name] for name in ("name", "time", "priority", "queue", "project")
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
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise ClientError(f"{name}: {value!r} is not valid; expected {' or '.join(wanted)}")
    if value not in field.get("enum", [value]):
        raise ClientError(f"{name}: {value!r} is not one of {', '.join(field['enum'])}")
    if name == "job" and not JobRefType.pattern.fullmatch(str(value)):
        raise ClientError(f"job: {str(value)[:60]!r} is not valid; {JobRefType.forms}")


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


#: Argument -> the option of the command line, and how that is read.
_READERS: dict[str, tuple[str, Callable[[str], object]]] = {
    "memory": ("mem", parse_memory_mib),
    "time": ("time", parse_duration_s),
    "cpus": ("cpus", parse_cpu_milli),
    "priority": ("priority", PRIORITY.read),
}


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """Arguments as the options of the command line have them."""
    options = {name: given[name] for name in _REQUEST if name in given and name != "command"}
    for name, (option, read) in _READERS.items():
        if name in options:
            try:
                options[option] = read(str(options.pop(name)))
            except ValueError as error:
                raise ClientError(f"{name}: {error}") from None
    if "after_ok" in options:
        options["after_ok"] = (tuple(map(str, options["after_ok"])),)
    if "env" in options:
        pairs = options["env"].items()
        options["env"] = tuple((name, _plain("env", value)) for name, value in pairs)
    options.pop("params", None)
    return options


def _plain(field: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ClientError(f"{field}: {value!r} is not valid; expected texts and numbers")
    return str(value)


def _sweep(given: dict[str, Any]) -> dict[str, Any]:
    """Every combination of the values; the last name varies fastest."""
    axes = given.get("params") or {}
    if not axes:
        return {}
    if "array" in given:
        raise ClientError("array and params exclude each other")
    for name, values in axes.items():
        if not isinstance(values, list) or not values:
            raise ClientError(f"params: {name}: {values!r} is not valid; expected a list of values")
    rows = [[_plain("params", value) for value in row] for row in product(*axes.values())]
    return {"parameters": {"names": list(axes), "rows": rows}}


def _body(client: Client, given: dict[str, Any]) -> dict[str, Any]:
    """The request as ``rota submit`` would send it from here."""
    if not given["command"].strip():
        raise ClientError("command: the line is empty")
    body = compose(_options(given), Work(line=given["command"]), client, quiet=True)
    return body | _sweep(given)


def _plan(client: Client, given: dict[str, Any]) -> str:
    return _planned(client, _body(client, given))


def _planned(client: Client, body: dict[str, Any]) -> str:
    count = _count(body)
    lines = plan_lines(client.post("/plan", body))
    return "\n".join([f"{count} jobs; of the first one:", *lines] if count > 1 else lines)


def _count(body: dict[str, Any]) -> int:
    """How many jobs a request makes."""
    if "parameters" in body:
        return len(body["parameters"]["rows"])
    return sum(map(len, parse_indices(body["array"])[0])) if body.get("array") else 1


def _submit(client: Client, given: dict[str, Any]) -> str:
    body = _body(client, given)
    if client.is_local:
        surroundings.refuse_absent(body, os.environ)
    if given.get("preview"):
        return _planned(client, body)
    answer = client.post("/jobs", body, key=new_key())
    count = _count(body)
    return f"submitted job {answer['id']}" + (f": {count} jobs" if count > 1 else "")


def _verb(verb: str, done: str) -> Callable[[Client, dict[str, Any]], str]:
    """A change of a job that takes nothing but the job."""

    def act(client: Client, given: dict[str, Any]) -> str:
        job = session.job_id(client, str(given["job"]))
        answer = _change(client, "POST", f"/jobs:{verb}", {"ids": [job]}, given)
        for refusal in answer["refused"]:
            raise ClientError(refusal["reason"])
        if given.get("preview"):
            return f"would {verb} {_described(client, given)}"
        return f"{done} job {job}"

    return act


def _change(
    client: Client, method: str, path: str, body: dict[str, Any], given: dict[str, Any]
) -> Any:  # noqa: ANN401 - JSON
    """A change, or the server's own rehearsal of it, which refuses what the change would."""
    asked = {"preview": "true"} if given.get("preview") else None
    return client.call(method, path, body=body, parameters=asked)


def _described(client: Client, given: dict[str, Any]) -> str:
    """A job in a line: what it is, how it stands, and how many jobs it is."""
    job = client.get(_place(client, given))
    counts = job.get("states") or {}
    parts = ", ".join(f"{number} {state}" for state, number in counts.items() if number)
    where = f" on {', '.join(job['nodes'])}" if job.get("nodes") else ""
    state = parts or f"{job['state']}{where}"
    return f"job {job['id']} ({job.get('name') or 'without a name'}, of {job['user']}): {state}"


def _update(client: Client, given: dict[str, Any]) -> str:
    asked = {name: given[name] for name in _CHANGES if name in given}
    if not asked:
        raise ClientError(f"nothing to change; give one of {', '.join(_CHANGES)}")
    body = request.option_fields(_options(asked), lambda text: [text])
    before = client.get(_place(client, given)) if given.get("preview") else {}
    after = _change(client, "PATCH", _place(client, given), body, given)
    if given.get("preview"):
        lines = [f"{field}: {before.get(field)} -> {after.get(field)}" for field in body]
        return "\n".join([f"would change {_described(client, given)}", *lines])
    return f"changed job {given['job']}: {', '.join(body)}"


def _limits(client: Client, _: dict[str, Any]) -> str:
    """The scope of the token, and the budget that goes with it."""
    token = own_token(client)
    if token is None:
        return "no token is shown: what the user of this machine may do, and that user's quota"
    place = f"/projects/{segment(token['project'])}" if token.get("project") else ""
    budget = client.get(place or f"/users/{segment(token['user'])}")
    kept = ("user", "access", "project", "expires_at")
    return _text(
        {
            "token": {field: token.get(field) for field in kept},
            "quota": budget.get("quota"),
            "used": budget.get("used"),
        }
    )


def own_token(client: Client) -> dict[str, Any] | None:
    """What is on record of the token that is shown; None: none is, or it is that of a job."""
    shown = client.token.split("_")
    if len(shown) < 3 or shown[0] != "rota":
        return None
    known: list[dict[str, Any]] = client.get("/tokens")["items"]
    return next((token for token in known if token["id"] == shown[1]), None)


_LIST: dict[str, dict[str, Any]] = {
    "state": {"type": "string", "enum": [str(state) for state in JobState]},
    "user": {"type": "string"},
    "project": {"type": "string"},
    "limit": {"type": "integer", "description": f"{JOBS} unless given, at most {MOST}"},
}
_LOG: dict[str, dict[str, Any]] = {
    **_JOB,
    "stream": {"type": "string", "enum": ["stdout", "stderr"]},
    "tail": {"type": "integer", "description": f"The last N lines; {TAIL} unless given"},
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
    "limits": Tool(
        "What this token may do, until when, and how much of its quota is used.", {}, _limits
    ),
    "submit": Tool(
        "Submit a job, an array or a sweep with this environment; gives its id.",
        {**_REQUEST, **_PREVIEW},
        _submit,
        ("command",),
        changes=True,
    ),
    "cancel": Tool(
        "Cancel a job, waiting or running.",
        {**_JOB, **_PREVIEW},
        _verb("cancel", "cancelled"),
        ("job",),
        changes=True,
    ),
    "hold": Tool(
        "Keep a waiting job from starting.",
        {**_JOB, **_PREVIEW},
        _verb("hold", "held"),
        ("job",),
        changes=True,
    ),
    "release": Tool(
        "Let a held job go.",
        {**_JOB, **_PREVIEW},
        _verb("release", "released"),
        ("job",),
        changes=True,
    ),
    "update": Tool(
        "Change a waiting job; of a running one its time and name.",
        {**_JOB, **_CHANGES, **_PREVIEW},
        _update,
        ("job",),
        changes=True,
    ),
}
