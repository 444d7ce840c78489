"""``rota submit``: a command, a shell line or a script becomes a job."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import click

from rota.cli.shared import session
from rota.cli.shared.foretold import promise_line
from rota.cli.shared.naming import parents_of
from rota.cli.shared.options import (
    CommandLine,
    SectionOption,
    explicit,
    words_argument,
    words_before_dashes,
)
from rota.cli.submit import request, surroundings
from rota.cli.submit.script_lines import script_options
from rota.cli.submit.submit_options import NAMES, merge, submit_options
from rota.cli.submit.sweep import parse_csv
from rota.cli.submit.work import Work, read_text, with_hooks, work_from
from rota.client.errors import ClientError
from rota.client.http import new_key

if TYPE_CHECKING:
    from rota.client.http import Client

_HELP = """Submit a job and print its id.

\b
rota submit [options] -- COMMAND ARGS…   arguments are kept exactly, no shell
rota submit [options] SCRIPT ARGS…       a file with #ROTA or #SBATCH lines
rota submit [options] -                  a script from standard input
rota submit [options] --shell 'a | b'    a shell line

The job gets this shell's environment and folder; variables that look like secrets stay behind
unless --env or --secret names them. Options given here win over the script's lines,
which take the same options:

\b
  #!/bin/bash
  #ROTA --name train --gpus 1 --time 2h
  python train.py
"""


def output_options() -> list[click.Parameter]:
    """How the answer looks."""
    option = SectionOption.under
    return [
        option("Output", "--dry-run", is_flag=True, help="Print what would be submitted, as JSON."),
        option("Output", "--json", "as_json", is_flag=True, help="Print the answer as JSON."),
        option("Output", "-q", "--quiet", is_flag=True, help="Print the id only, no warnings."),
    ]


def shell_option() -> click.Parameter:
    """In front of all others."""
    return SectionOption.under(
        "The job", "--shell", "line", metavar="LINE", help="A line for the shell: 'a | b > c'."
    )


def build(ctx: click.Context, client: Client, *, run: bool = False) -> dict[str, Any]:
    """The request that the command line asks for."""
    params = ctx.params
    is_command = words_before_dashes(ctx) == 0
    work = work_from(params["words"], is_command=is_command, line=params["line"], run=run)
    given = explicit(ctx, NAMES)
    quiet, of_slurm = params["quiet"], False
    if work.source:
        found = script_options(work.script, work.source)
        for line in found.warnings if not quiet else ():
            session.warn(line)
        given, of_slurm = merge(found.options, given), found.of_slurm
        work = _in_place(work, given, of_slurm)
    body = compose(given, work, client, quiet=quiet)
    return _as_batch(body, given, work) if of_slurm else body


def _in_place(work: Work, given: dict[str, Any], of_slurm: bool) -> Work:
    """A script that does not travel is found wherever the job begins."""
    if work.travels:
        return work
    if of_slurm:
        raise ClientError(
            f"{work.source}: its #SBATCH lines count in a script that begins with #!; "
            "put '#!/usr/bin/env python3' above them"
        )
    if "workdir" not in given or "bundle" in given:
        return work
    program, path, *arguments = work.argv
    return work._replace(argv=(program, os.path.abspath(path), *arguments))


def _as_batch(body: dict[str, Any], given: dict[str, Any], work: Work) -> dict[str, Any]:
    """A script with ``#SBATCH`` lines goes the way of sbatch; what is said here wins over them."""
    if "name" not in given:
        body.pop("name", None)
    # The script is sent as it is; an option that wraps it sends the wrapped one instead.
    told = {"script": body.pop("script"), "args": body.pop("script_args", [])}
    told |= {"env": body.pop("env", {}), "umask": body.pop("umask"), "path": work.source}
    told["workdir"] = os.getcwd()
    if not {"workdir", "bundle"} & given.keys():
        body.pop("workdir", None)
    return {**told, "job": body}


def fields_of(body: dict[str, Any]) -> dict[str, Any]:
    """What it says of the job."""
    found: dict[str, Any] = body.get("job", body)
    return found


def send(client: Client, body: dict[str, Any], *, quiet: bool = False) -> dict[str, Any]:
    """Hand a job in, whichever way it goes."""
    path = "/slurm/sbatch" if "job" in body else "/jobs"
    answer: dict[str, Any] = client.post(path, body, key=new_key())
    for line in answer.get("warnings", ()) if not quiet else ():
        session.warn(line)
    return answer


def compose(
    given: dict[str, Any], work: Work, client: Client, *, quiet: bool = False
) -> dict[str, Any]:
    """The request from options and work, with this shell's surroundings."""
    table = None
    if path := given.get("param_file"):
        table = parse_csv(read_text(path, "--param-file"), path)
    body: dict[str, Any] = {"name": work.name()} if work.source else {}
    work = surroundings.activated(work, given.get("activate"))
    body |= with_hooks(work, given.get("prologue") or "", given.get("epilogue") or "").body()
    body |= request.option_fields(given, parents_of(client), table)
    body |= surroundings.basics(given, os.environ)
    if not given.get("no_env"):
        found = surroundings.captured(os.environ)
        body["env"] = found.kept
        named = {*(body.get("variables") or ()), *body.get("secrets", ())}
        for line in found.warnings(named) if not quiet else ():
            session.warn(line)
    if path := given.get("bundle"):
        from rota.cli.submit.bundle import upload

        body["bundle"] = upload(client, path)
    if path := given.get("stdin"):
        body["stdin"] = read_text(path, "--stdin")
    return body


def dry_run(body: dict[str, Any]) -> None:
    """Exactly what would be sent."""
    from rota.core.facts.indices import parse_indices

    if array := fields_of(body).get("array"):
        parse_indices(array)
    click.echo(json.dumps(body, indent=2, ensure_ascii=False))


@click.command(
    cls=CommandLine,
    help=_HELP,
    params=[
        words_argument("[-- COMMAND… | SCRIPT… | -]"),
        shell_option(),
        *submit_options(),
        *output_options(),
    ],
)
@click.pass_context
def submit(ctx: click.Context, /, **params: object) -> None:
    client = session.connect()
    body = build(ctx, client)
    if params["dry_run"]:
        dry_run(body)
        return
    if client.is_local:
        there = {"workdir": body["workdir"], **fields_of(body)}
        surroundings.refuse_absent(there, os.environ)
    answer = send(client, body, quiet=bool(params["quiet"]))
    if (said := answer.get("promise")) and not params["quiet"]:
        session.warn(promise_line(said))
    click.echo(json.dumps(answer) if params["as_json"] else answer["id"])
