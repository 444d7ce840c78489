"""``/slurm/…/job``: submit, change and cancel, through the commands that do the same."""

from __future__ import annotations

from typing import Any

import msgspec

from rota.digits import is_digits
from rota.slurm.call.command import Answer, Call, CallerLine, CallRequest, run
from rota.slurm.orders.options import SHEETS
from rota.slurm.rest.errors import (
    INVALID_JOB,
    RestRefusal,
    RestRequest,
    error_entry,
    unknown_key,
    unread,
)
from rota.slurm.serving import uid_of
from rota.slurm.words.amounts import Moments

#: What a job of slurmrestd cannot have: its script and its variables come otherwise.
_ELSEWHERE = frozenset(
    {"export", "export-file", "help", "parsable", "quiet", "test-only", "usage", "verbose"}
    | {"version", "wait", "wrap", "requeue", "no-requeue", "begin"}
)
#: Field of a job -> the row of the option that it stands for.
_OPTIONS = {row.field: row for row in SHEETS["sbatch"].rows.values() if row.key not in _ELSEWHERE}
#: Fields that are no options, or not written like them.
_FIELDS = frozenset(
    {"argv", "begin_time", "environment", "minimum_nodes", "requeue", "script", "user_id"}
    | {"group_id", "distribution", "cpu_binding", "cpu_binding_flags", "flags"}
)
#: Field of a job -> the word of ``scontrol update``.
_UPDATES = {
    "comment": "comment",
    "name": "jobname",
    "nice": "nice",
    "partition": "partition",
    "priority": "priority",
    "time_limit": "timelimit",
}

#: What stands in front of why a job is not taken, and Slurm's numbers for that.
_SUBMISSION = "Batch job submission failed: "
_NUMBERS = {
    "Invalid partition name specified": 2000,
    "Access/permission denied": 2002,
    "Requested node configuration is not available": 2014,
    "Invalid node name specified": 2018,
    "Invalid feature specification": 2029,
    "Job dependency problem": 2038,
    "Invalid account or account/partition combination specified": 2045,
    "Invalid license specification": 2048,
    "Requested reservation is invalid": 2053,
    "Invalid qos specification": 2066,
    "Invalid job array specification": 2081,
}


async def submit(asked: RestRequest) -> dict[str, Any]:
    """A script and a job: what sbatch does with the same options."""
    body = decode(asked)
    job = body.get("job") or {}
    script = body.get("script") or (job.get("script") if isinstance(job, dict) else None)
    if not isinstance(job, dict):
        raise RestRefusal(error_entry("expected a script and a job", 9000, "Invalid request"), 400)
    _check(job)
    if not isinstance(script, str) or not script:
        raise RestRefusal({"error_code": 2009, "error": "Job script not specified"})
    argv = ["--parsable", *_argv(job)]
    folder = str(job.get("current_working_directory") or "/")
    answer = await run_command(asked, "sbatch", argv, _environment(job), folder, script.encode())
    if answer.code:
        raise _refused(answer)
    number = str(answer.stdout).strip().partition(";")[0]
    return {"job_id": int(number), "step_id": "BATCH", "job_submit_user_msg": ""}


def _check(job: dict[str, Any]) -> None:
    """An environment is required, and a field that is none would be lost silently."""
    unknown = [name for name in job if name not in _OPTIONS and name not in _FIELDS]
    if unknown:
        raise unknown_key(unknown[0])
    if not job.get("environment"):
        raise unread({"error": "environment must be set", "error_code": 2127})


def decode(asked: RestRequest) -> dict[str, Any]:
    """The body, which must be an object."""
    try:
        body = msgspec.json.decode(asked.body or b"{}")
    except msgspec.DecodeError:
        body = None
    if not isinstance(body, dict):
        entry = error_entry("the body is not a JSON object", 9000, "Invalid request")
        raise RestRefusal(entry, 400)
    return body


def _argv(job: dict[str, Any]) -> list[str]:
    words = []
    for field, value in job.items():
        row = _OPTIONS.get(field)
        if row is None:
            continue
        if not row.takes.startswith("=") and value in (True, "true", "exclusive"):
            words.append(f"--{row.key}")
        elif row.takes and (text := _text(value)):
            words.append(f"--{row.key}={text}")
    if job.get("requeue") is False:
        words.append("--no-requeue")
    begin = _text(job.get("begin_time"))
    if is_digits(begin) and 0 < len(begin) < 11:
        words.append(f"--begin={Moments(0.0).text(int(begin), 'now')}")
    return words


def _text(value: object) -> str:
    """A plain value; a range as ``2-4``; of the newer ``{"set": true, "number": 5}`` the number."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set", True) else None
    if isinstance(value, list):
        return "-".join(map(str, value))
    return "" if value is None or isinstance(value, bool) else str(value)


def _environment(job: dict[str, Any]) -> dict[str, str]:
    """A map, or a list of ``NAME=VALUE``."""
    given = job.get("environment") or {}
    if isinstance(given, dict):
        return {str(name): str(value) for name, value in given.items()}
    if not isinstance(given, list):
        return {}
    pairs = (str(entry).partition("=") for entry in given)
    return {name: value for name, mark, value in pairs if mark}


def _refused(answer: Answer) -> RestRefusal:
    lines = [line.removeprefix("sbatch: error: ") for line in answer.stderr.splitlines() if line]
    last = lines[-1] if lines else "unknown error"
    reason = last.removeprefix(_SUBMISSION)
    if reason == last:
        return unread({"error": " ".join(lines), "error_code": -1})
    return RestRefusal({"error_code": _NUMBERS.get(reason, -1), "error": reason})


async def update(asked: RestRequest) -> dict[str, Any]:
    """Other values for a job, as ``scontrol update`` sets them."""
    body = decode(asked)
    job = body.get("job") if isinstance(body.get("job"), dict) else body
    assert isinstance(job, dict)
    if unknown := [key for key in job if key not in _UPDATES]:
        raise unknown_key(unknown[0])
    words = [f"{_UPDATES[key]}={_text(value)}" for key, value in job.items()]
    argv = ["update", f"jobid={asked.name}", *words]
    answer = await run_command(asked, "scontrol", argv)
    if answer.code:
        reason = answer.stderr.strip().partition(" for job")[0]
        raise RestRefusal(error_entry(answer.stderr.strip(), -1, reason, "slurm_update_job"))
    return {}


async def cancel(asked: RestRequest) -> dict[str, Any]:
    """End a job, or send it a signal."""
    known = asked.name.partition("_")[0]
    cluster = asked.context.host.cluster
    signal = asked.query.get("signal", "")
    number = 15 if signal.upper().endswith("TERM") else 9
    if not is_digits(known) or len(known) > 18 or cluster.state_of(int(known)) is None:
        reason = "Invalid job id specified"
        description = f"unable to kill JobId={asked.name} with signal {number}: {reason}"
        raise RestRefusal(error_entry(description, INVALID_JOB, reason, "slurm_kill_job"))
    argv = [*([f"--signal={signal}"] if signal else []), asked.name]
    answer = await run_command(asked, "scancel", argv)
    if answer.code:
        raise RestRefusal(error_entry(answer.stderr.strip(), -1, source="slurm_kill_job"))
    return {}


async def run_command(
    asked: RestRequest,
    program: str,
    argv: list[str],
    env: dict[str, str] | None = None,
    folder: str = "/",
    stdin: bytes = b"",
) -> Answer:
    request = CallRequest(
        program=program,
        argv=tuple(argv),
        env=env or {},
        cwd=folder,
        actor=asked.actor,
        uid=await uid_of(asked.actor, {}),
    )
    return await run(Call(request, CallerLine(stdin), asked.context))
