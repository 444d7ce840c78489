"""``rota redo``: submit a job again, with other options, and with what depended on it."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import click

from rota.cli.jobs.folding import UNWELL
from rota.cli.shared import session
from rota.cli.shared.naming import LOOKED_AT, jobs_named, parents_of
from rota.cli.shared.options import (
    CommandLine,
    SectionOption,
    explicit,
    jobs_and_command,
    words_argument,
)
from rota.cli.submit import request, surroundings
from rota.cli.submit.submit import output_options
from rota.cli.submit.submit_options import change_options
from rota.cli.submit.sweep import Sweep, parse_param
from rota.client.errors import ClientError
from rota.client.http import new_key
from rota.core.facts.indices import parse_indices
from rota.core.words.units import format_indices

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rota.client.http import Client

_ELEMENT = re.compile(r"([0-9]{1,18})_([0-9]{1,12})")
_HELP = """Submit JOBs again: the same command, environment and folder, as new jobs.

\b
rota redo 12
rota redo 15_[0-3,7] 20                these elements, as one array, and job 20
rota redo 12 --mem 64G --time 8h       with other options
rota redo 12 -- python train.py -v     with another command
rota redo 12 --with-dependents         and everything that waited for it
rota redo 15 --failed                  of an array, the elements that failed
rota redo 15 --param lr=0.3,0.5        of a sweep, with other values for lr alone
"""

#: What belongs to the first submission and is not taken over.
_ONCE = ("begin_at", "hold", "depends_on", "depends_any")
#: Wrapping happened when the job was first submitted.
_NOT_HERE = frozenset({"prologue", "epilogue", "param_file", "no_env", "stdin"})


def _options() -> list[click.Parameter]:
    return [option for option in change_options() if option.name not in _NOT_HERE]


_NAMES = tuple(str(option.name) for option in _options())


def again(
    stored: dict[str, Any],
    given: dict[str, Any],
    command: list[str],
    parents: Any,  # noqa: ANN401
) -> dict[str, Any]:
    """The stored request with the new options on top; resources are changed one by one."""
    body = {key: value for key, value in stored.items() if key not in _ONCE}
    fields = request.option_fields(given, parents, _other_values(stored, given))
    resources = {**(body.get("resources") or {}), **fields.pop("resources", {})}
    body |= fields
    if resources:
        body["resources"] = resources
    if command:
        body = {key: value for key, value in body.items() if key not in {"script", "script_args"}}
        body["command"] = command
    return body


def _other_values(stored: dict[str, Any], given: dict[str, Any]) -> Sweep | None:
    """What ``--param`` does not name of a sweep, each row of values once; None: there is none."""
    table = stored.get("parameters") or {"names": [], "rows": []}
    names = table["names"]
    fresh = {parse_param(text)[0] for text in given.get("params", ())}
    kept = [at for at, name in enumerate(names) if name not in fresh]
    if not fresh or not kept:
        return None
    rows = dict.fromkeys(tuple(str(row[at]) for at in kept) for row in table["rows"])
    return Sweep([names[at] for at in kept], [list(row) for row in rows])


def only_failed(client: Client, array: int, stored: dict[str, Any]) -> dict[str, Any]:
    """The request of an array, for its failed elements: the same indices, the same values."""
    if not (stored.get("array") or stored.get("parameters")):
        raise click.UsageError(f"--failed is for arrays, and {array} is one job")
    wanted = {"array": array, "state": UNWELL, "arrays": "expand"}
    indices = [int(job["array_index"]) for job in session.list_jobs(client, wanted)]
    if not indices:
        raise ClientError(f"no element of {array} has failed")
    return only_elements(stored, indices, array)


def only_elements(stored: dict[str, Any], indices: Sequence[int], array: int) -> dict[str, Any]:
    """The request of an array, for some of its elements."""
    body = dict(stored)
    if stored.get("parameters"):
        rows = stored["parameters"]["rows"]
        if absent := [index for index in indices if index >= len(rows)]:
            raise ClientError(f"there is no job {array}_{absent[0]}")
        body["parameters"] = stored["parameters"] | {"rows": [rows[index] for index in indices]}
    else:
        if not stored.get("array"):
            raise ClientError(f"there is no job {array}_{indices[0]}")
        runs, _ = parse_indices(str(stored["array"]))
        if absent := [index for index in indices if not any(index in run for run in runs)]:
            raise ClientError(f"there is no job {array}_{absent[0]}")
        _, percent, cap = str(stored["array"]).partition("%")
        body["array"] = format_indices(sorted(indices)) + percent + cap
    return body


def dependents(jobs: list[dict[str, Any]], job_id: int) -> list[dict[str, Any]]:
    """Everything that waited for the job, directly or not, in order of submission."""
    family = {job_id}
    found = []
    for job in sorted(jobs, key=lambda job: job["id"]):
        if any(entry["job"] in family for entry in job.get("depends_on") or ()):
            family.add(job["id"])
            found.append(job)
    return found


def _later_jobs(client: Client, job_id: int) -> list[dict[str, Any]]:
    """Children have higher ids than their parents."""
    found = []
    for job in session.list_jobs(client, {"order": "-id", "arrays": "collapse"}):
        if job["id"] <= job_id:
            break
        found.append(job)
    return found


def _redo_dependents(client: Client, job_id: int, new_id: int) -> list[dict[str, Any]]:
    """Submit the dependents again, each waiting for the new twins of its parents."""
    twins = {job_id: new_id}
    answers = []
    for job in dependents(_later_jobs(client, job_id), job_id):
        body = client.get(f"/jobs/{job['id']}/request")
        body["depends_on"] = [
            {**entry, "job": twins.get(entry["job"], entry["job"])}
            for entry in job.get("depends_on") or ()
        ]
        answer = client.post("/jobs", body, key=new_key())
        twins[job["id"]] = answer["id"]
        answers.append(answer)
    return answers


@click.command(
    cls=CommandLine,
    help=_HELP,
    params=[
        words_argument("JOB… [-- COMMAND…]"),
        SectionOption.under(
            "The job", "--with-dependents", is_flag=True, help="And the jobs that waited for it."
        ),
        SectionOption.under(
            "The job", "--failed", is_flag=True, help="Of an array: the elements that failed."
        ),
        *_options(),
        *output_options(),
    ],
    context_settings={"allow_interspersed_args": True},
)
@click.pass_context
def redo(ctx: click.Context, /, with_dependents: bool, failed: bool, **params: Any) -> None:
    jobs, command = jobs_and_command(ctx)
    client = session.connect()
    given = explicit(ctx, _NAMES)
    bodies = {}
    # All are read before the first is handed in: one that is not there makes no half of a redo.
    for job_id, indices in _submissions(client, jobs):
        stored = client.get(f"/jobs/{job_id}/request")
        if failed and indices:
            raise click.UsageError("--failed is for whole arrays: leave out the elements")
        if failed:
            stored = only_failed(client, job_id, stored)
        elif indices:
            stored = only_elements(stored, indices, job_id)
        bodies[job_id] = again(stored, given, command, parents_of(client))
        _surround(bodies[job_id], given)
    if params["dry_run"]:
        shown = list(bodies.values())
        one = shown[0] if len(shown) == 1 else shown
        click.echo(json.dumps(one, indent=2, ensure_ascii=False))
        return
    answers: list[dict[str, Any]] = []
    try:
        for job_id, body in bodies.items():
            answers.append(client.post("/jobs", body, key=new_key()))
            if with_dependents:
                answers += _redo_dependents(client, job_id, answers[-1]["id"])
    finally:
        # Also where a later one is refused: what was handed in is there.
        _show(answers, several=with_dependents or len(bodies) > 1, as_json=params["as_json"])


def _show(answers: list[dict[str, Any]], *, several: bool, as_json: bool) -> None:
    if as_json and answers:
        click.echo(json.dumps(answers if several else answers[0]))
    elif not as_json:
        for answer in answers:
            click.echo(answer["id"])


def _submissions(client: Client, jobs: Sequence[str]) -> Iterator[tuple[int, list[int]]]:
    """Jobs by id; several elements of one array are a part of that array, by their indices."""
    elements: dict[int, list[int]] = {}
    names = jobs_named(client, jobs, LOOKED_AT)
    for name in names:
        if (found := _ELEMENT.fullmatch(str(name))) and int(found[1]) not in names:
            elements.setdefault(int(found[1]), []).append(int(found[2]))
    for name in names:
        found = _ELEMENT.fullmatch(str(name))
        if found is None:
            yield session.id_of(client, name), []
        elif indices := elements.pop(int(found[1]), []):
            alone = len(indices) == 1
            yield (session.id_of(client, name), []) if alone else (int(found[1]), sorted(indices))


def _surround(body: dict[str, Any], given: dict[str, Any]) -> None:
    """Folder, mask and variables only where an option says so: the rest stays as it was."""
    fresh = surroundings.basics(given, os.environ)
    body.update({name: fresh[name] for name in ("workdir", "umask") if name in given})
    if "variables" in fresh:
        body["variables"] = {**(body.get("variables") or {}), **fresh["variables"]}
