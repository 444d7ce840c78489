"""``rota update``: change a job that waits (of a running one: what does not concern its room)."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import click

from rota.cli.shared import exits, session
from rota.cli.shared.naming import Meant, jobs_named, parents_of
from rota.cli.shared.options import (
    CommandLine,
    SectionOption,
    explicit,
    jobs_and_command,
    words_argument,
)
from rota.cli.shared.types import COUNT
from rota.cli.submit import request, surroundings
from rota.cli.submit.submit_options import change_options
from rota.client.errors import Refused
from rota.client.http import segment

if TYPE_CHECKING:
    from rota.client.http import Client

#: A name is the newest job of that name; conditions find what has not ended.
UPDATED = Meant(newest=True)
_HELP = """Change JOBs that wait. Of running ones: name, priority, limits, labels, saving.

\b
rota update 12 --priority high --time 4h
rota update 15_[0-3] 20 --mem 32G     several: elements, ranges, label:exp=7
rota update 12 --mem 32G -- python train.py --batch 64
rota update 12 --after-ok 11          replaces all its conditions
rota update 12 --no-dependencies      it waits for nothing any more
rota update 12 --constraint ''        it may run anywhere again
rota update 12 --nodes 0              on as few nodes as possible again
rota update 12 --cluster hpc          it waits for that cluster, and keeps its age
rota update 12 --cluster ''           for any cluster again

Of an array this changes the elements that wait.
"""

#: What the server lets us change; the rest describes the submission and stays as it was.
_CHANGEABLE = frozenset(
    {
        *("name", "project", "queue", "priority", "label", "preemptible"),
        *("cpus", "mem", "mem_per_cpu", "gpus", "gpu_type", "gpu_mem", "shared", "disk"),
        "gpu_index",
        *("time", "grace", "retries", "scheduling_timeout", "max_concurrent", "begin"),
        *("after", "after_ok", "after_any", "after_not_ok", "any_of", "keep_waiting"),
        *("after_checkpoint", "after_data"),
        *("workdir", "env", "output", "error"),
        *("tasks", "min_tasks", "nodes", "constraint", "nodelist", "exclude", "tolerate"),
        *("near", "apart", "topology", "exclusive", "data", "qos", "deadline", "estimate"),
        *("preempt_mode", "preempt_retries", "checkpoint_signal", "restart_cost", "type", "notify"),
        *("save_signal", "save_every", "cluster", "engine", "vdc"),
    }
)


def _options() -> list[click.Parameter]:
    options = [option for option in change_options() if option.name in _CHANGEABLE]
    for option in options:
        if option.name == "nodes":
            # A new job leaves it out; one that named a number takes it back with 0.
            option.type = COUNT
    return options


_NAMES = tuple(str(option.name) for option in _options())


@click.command(
    cls=CommandLine,
    help=_HELP,
    params=[
        words_argument("JOB… [-- COMMAND…]"),
        SectionOption.under(
            "When it may start", "--no-dependencies", is_flag=True, help="Wait for no job any more."
        ),
        *_options(),
        SectionOption.under("Output", "--json", "as_json", is_flag=True, help="Print JSON."),
    ],
    context_settings={"allow_interspersed_args": True},
)
@click.pass_context
def update(ctx: click.Context, /, no_dependencies: bool, as_json: bool, **_: Any) -> int:
    jobs, command = jobs_and_command(ctx)
    client = session.connect()
    given = explicit(ctx, _NAMES)
    body = request.option_fields(given, parents_of(client))
    if "gpus" not in given:
        # How many it asked for before stands; another type or memory says nothing about that.
        body.get("resources", {}).pop("gpus", None)
    if no_dependencies:
        body["depends_on"] = []
    if command:
        body["command"] = command
    if given.get("workdir"):
        body["workdir"] = surroundings.workdir(given["workdir"])
    if given.get("env"):
        body["variables"] = surroundings.variables(given["env"], os.environ)
    if not body:
        raise click.UsageError("nothing to change: give at least one option")
    names = jobs_named(client, jobs, UPDATED)
    if len(names) == 1:
        answer = client.patch(f"/jobs/{segment(names[0])}", body)
        click.echo(json.dumps(answer, indent=2) if as_json else _told(body, answer))
        return exits.OK
    return _each(client, names, body, as_json)


def _each(client: Client, names: list[int | str], body: dict[str, Any], as_json: bool) -> int:
    """Several jobs: each is changed or refused by itself."""
    answers, refused = [], False
    for name in names:
        try:
            answers.append(client.patch(f"/jobs/{segment(name)}", body))
        except Refused as error:
            session.warn(f"{name}: {error}")
            refused = True
        else:
            click.echo("" if as_json else f"{_told(body, answers[-1])}\n", nl=False)
    if as_json:
        click.echo(json.dumps(answers, indent=2))
    return exits.NEGATIVE if refused else exits.OK


def _told(body: dict[str, Any], answer: dict[str, Any]) -> str:
    return f"updated {answer.get('ref') or answer['id']}{_kept(body, answer)}"


def _kept(body: dict[str, Any], answer: dict[str, Any]) -> str:
    """What a change leaves as it is until the next attempt."""
    if "grace_s" not in body or answer["state"] not in ("scheduled", "running"):
        return ""
    return "; the attempt that runs keeps the grace it was launched with, later ones have the new"
