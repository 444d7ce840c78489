"""The options of ``submit`` and ``run``, which script lines may carry too."""

from __future__ import annotations

from typing import Any

import click

from rota.cli.shared import types
from rota.cli.shared.options import SectionOption
from rota.cli.submit.placing_options import giving_way, where
from rota.cli.submit.role_option import RoleType

_option = SectionOption.under
_JOB = "The job"
_RESOURCES = "Resources, per task"
_MANY = "Many jobs at once"
_WHEN = "When it may start"
_FAILURE = "When it fails or takes too long"
_AROUND = "Its surroundings"


def _read_target(text: str) -> object:
    """Imported only when somebody wants to be told."""
    from rota.core.facts.notices import parse_target

    return parse_target(text)


def _job() -> list[click.Parameter]:
    return [
        _option(_JOB, "-n", "--name", help="A name; {lr} is replaced by a sweep's value."),
        _option(_JOB, "-p", "--project", help="The project that it counts for."),
        _option(_JOB, "--queue", help="The queue that it waits in."),
        _option(
            _JOB,
            "--priority",
            type=types.PRIORITY,
            help="0 to 100, or critical (100), urgent (80), high (75), normal (50), low (25), "
            "batch (10), scavenger (0); higher goes first.",
        ),
        _option(
            _JOB,
            "--label",
            type=types.Pair(),
            multiple=True,
            help="A label to find it by. Repeatable.",
        ),
        _option(
            _JOB, "--stdin", metavar="FILE", help="Give it this file as standard input (to 8 MiB)."
        ),
        _option(
            _JOB,
            "--pty",
            is_flag=True,
            help="On a terminal of its own, to use with 'rota attach' (or 'rota run --pty').",
        ),
        _option(
            _JOB,
            "--notify",
            type=types.ServerText("target", _read_target),
            multiple=True,
            metavar="TARGET",
            help="Tell https://HOST/PATH or mail:ADDRESS when it ends; append ,on=started,failed "
            "for other events (see 'rota notify --help'). Repeatable.",
        ),
    ]


def resources() -> list[click.Parameter]:
    """What ``update`` may change as well."""
    return [
        _option(
            _RESOURCES, "-c", "--cpus", type=types.CPUS, help="CPUs: 4, 1.5, 500m.  [default: 1]"
        ),
        _option(
            _RESOURCES, "-m", "--mem", type=types.MEMORY, help="Memory: 512m, 16G, 1.5T (binary)."
        ),
        _option(
            _RESOURCES, "--mem-per-cpu", type=types.MEMORY, help="Memory for each CPU instead."
        ),
        _option(_RESOURCES, "-g", "--gpus", type=types.GPUS, help="Whole GPUs, or 0.5 of one."),
        _option(_RESOURCES, "--gpu-type", metavar="MODEL", help="Only this model: A100."),
        _option(_RESOURCES, "--gpu-mem", type=types.MEMORY, help="Memory on each of the GPUs."),
        _option(
            _RESOURCES,
            "--gpu-index",
            type=types.NumberList(),
            help="Only GPUs of these numbers: 0,2.",
        ),
        _option(
            _RESOURCES,
            "--shared",
            is_flag=True,
            help="May share its GPUs with other shared jobs; needs --gpu-mem.",
        ),
        _option(_RESOURCES, "--disk", type=types.MEMORY, help="Room on the node's disk."),
        _option(_RESOURCES, "--tasks", type=types.AT_LEAST_ONE, help="Tasks that start together."),
        _option(
            _RESOURCES,
            "--min-tasks",
            type=types.COUNT,
            help="Elastic: start with as few as this, grow when there is room.",
        ),
        _option(
            _RESOURCES,
            "--role",
            "roles",
            type=RoleType(),
            multiple=True,
            metavar="NAME=COUNT,…",
            help="A kind of task with resources of its own: worker=8,min=4,cpus=4,mem=16G,gpus=1. "
            "Repeatable; replaces --tasks and the resource options.",
        ),
    ]


def _many() -> list[click.Parameter]:
    return [
        _option(
            _MANY,
            "-a",
            "--array",
            metavar="INDICES",
            help="One job per index: 0-99, 1,3,5-20:5; 0-999%16 runs at most 16 at once.",
        ),
        _option(
            _MANY,
            "--param",
            "params",
            metavar="NAME=VALUES",
            multiple=True,
            help="A sweep: lr=1e-3,1e-4 or n=1:10 or n=0:100:5 (ends included). Each further one "
            "multiplies. {lr} in the command and the name is replaced.",
        ),
        _option(
            _MANY,
            "--param-file",
            metavar="CSV",
            help="A sweep: one job per line of the file, whose first line has the names.",
        ),
        _option(_MANY, "--group", help="A group, whose jobs share a cap (see rota group)."),
        _option(
            _MANY,
            "--max-concurrent",
            type=types.COUNT,
            help="How many of the group or sweep may run at once; 0 lifts the cap.",
        ),
    ]


def _when() -> list[click.Parameter]:
    def parents(name: str, text: str) -> SectionOption:
        return _option(
            _WHEN, name, type=types.ParentJobs(), multiple=True, metavar="JOBS", help=text
        )

    return [
        parents(
            "--after",
            "When these have started: 12,13 or 12_3 (an element) or @ (your last "
            "job), @~2 (two before it).",
        ),
        parents("--after-ok", "When these have completed. 12_* ties equal array indices."),
        parents("--after-any", "When these have ended, however."),
        parents("--after-not-ok", "When these have ended without success."),
        parents("--after-checkpoint", "When these have saved their work (rota checkpoint)."),
        _option(
            _WHEN,
            "--after-data",
            type=types.MadeBy(),
            multiple=True,
            metavar="JOB:NAME",
            help="When this job has made these data (rota checkpoint --data NAME). Repeatable.",
        ),
        _option(_WHEN, "--any", "any_of", is_flag=True, help="One of the conditions is enough."),
        _option(
            _WHEN,
            "--keep-waiting",
            is_flag=True,
            help="Wait on even if a condition can no longer be met.",
        ),
        _option(
            _WHEN,
            "--dependency-timeout",
            type=types.DURATION,
            help="Cancelled if its conditions are not met in this time.",
        ),
        _option(
            _WHEN,
            "--begin",
            type=types.WHEN,
            help="Not before 18:00, tomorrow 9:00, now+2h.",
        ),
        _option(_WHEN, "--hold", is_flag=True, help="Not before 'rota release'."),
        _option(
            _WHEN,
            "--scheduling-timeout",
            type=types.DURATION,
            help="Give up (state unschedulable) if it could not start in this time.",
        ),
    ]


def limits() -> list[click.Parameter]:
    """What ``update`` may change as well."""
    return [
        _option(
            _FAILURE,
            "-t",
            "--time",
            type=types.DURATION,
            help="Longest run: 90, 15m, 2h, 1d, HH:MM:SS, D-HH:MM:SS; 0 is no limit.",
        ),
        _option(
            _FAILURE, "--grace", type=types.DURATION, help="Between TERM and KILL.  [default: 30]"
        ),
        _option(_FAILURE, "--retries", type=types.COUNT, help="Further tries after a failure."),
    ]


def _failure() -> list[click.Parameter]:
    return [
        *limits(),
        _option(
            _FAILURE,
            "--restart",
            type=click.Choice(["never", "on-failure", "always"]),
            help="When a try is followed by another.  [default: on-failure]",
        ),
        _option(
            _FAILURE,
            "--retry-on",
            type=types.Words(),
            multiple=True,
            help="Only after these exit codes or causes: 3,out_of_memory,time_limit,node_lost.",
        ),
        _option(
            _FAILURE,
            "--backoff",
            type=types.SHORT_DURATION,
            help="Wait before the first retry, twice as long before each further one.",
        ),
    ]


def _around() -> list[click.Parameter]:
    return [
        _option(_AROUND, "--workdir", metavar="DIR", help="Where it runs.  [default: here]"),
        _option(
            _AROUND,
            "--env",
            type=types.Pair(bare=True),
            multiple=True,
            help="Set a variable; a name alone takes its value from here. Repeatable.",
        ),
        _option(
            _AROUND,
            "--secret",
            metavar="NAME",
            multiple=True,
            help="Give it this secret of yours (rota secret) as a variable. Repeatable.",
        ),
        _option(_AROUND, "--debug", is_flag=True, help="Let it say more: NCCL_DEBUG and the like."),
        _option(_AROUND, "--no-env", is_flag=True, help="Do not take this shell's environment."),
        _option(
            _AROUND,
            "-o",
            "--output",
            metavar="FILE",
            help="Standard output goes there; %j, %A, %a, %x are job, array, index, name.",
        ),
        _option(_AROUND, "-e", "--error", metavar="FILE", help="Standard error goes there."),
        _option(_AROUND, "--umask", type=types.UMASK, help="Octal, 022.  [default: this shell's]"),
        _option(
            _AROUND, "--ulimit", type=types.Ulimit(), multiple=True, help="nofile=4096. Repeatable."
        ),
        *_taken_along(),
        _option(
            _AROUND,
            "--license",
            multiple=True,
            metavar="NAME[:COUNT]",
            help="Licences of the site that it holds while it runs.",
        ),
        _option(
            _AROUND,
            "--port",
            multiple=True,
            metavar="NAME",
            help="A free port on its node, in ROTA_PORT_NAME; others find it by that name.",
        ),
        _option(
            _AROUND,
            "--health",
            metavar="NAME[/PATH]",
            help="It must answer at this port (with a PATH: to HTTP), or it ends as unhealthy.",
        ),
        _option(_AROUND, "--prologue", metavar="LINE", help="A shell line to run before it."),
        _option(_AROUND, "--epilogue", metavar="LINE", help="A shell line to run after it."),
    ]


def _taken_along() -> list[click.Parameter]:
    """What it finds installed where it runs."""
    return [
        _option(_AROUND, "--venv", metavar="DIR", help="Run it in this Python environment."),
        _option(_AROUND, "--conda", metavar="NAME", help="Run it in this conda environment."),
        _option(
            _AROUND,
            "--activate",
            type=(click.Choice(["venv", "uv", "conda"]), str),
            metavar="KIND NAME",
            help="The same in one option: venv DIR, conda NAME, or uv PROJECT (runs it by 'uv "
            "run').",
        ),
        _option(
            _AROUND,
            "--bundle",
            metavar="DIR",
            help="Take this folder along: it runs in a copy of it, on whatever node.",
        ),
        _option(
            _AROUND,
            "--image",
            metavar="IMAGE",
            help="Run it in this container image (podman or apptainer on the node).",
        ),
    ]


def submit_options() -> list[click.Parameter]:
    """All of them, fresh: a parameter belongs to one command."""
    return [
        *_job(),
        *resources(),
        *where(),
        *giving_way(),
        *_failure(),
        *_many(),
        *_when(),
        *_around(),
    ]


def change_options() -> list[click.Parameter]:
    """The same for a job that there is: what is not given stays, whatever a new one would get."""
    options = submit_options()
    for option in options:
        if isinstance(option, click.Option) and option.help:
            option.help = option.help.partition("  [default")[0]
    return options


#: Options whose values add up by key: a variable of the command line replaces one of the script.
MAPPINGS = frozenset({"label", "env", "ulimit"})

#: Takes the tokens of one script line.
LINE = click.Command("#ROTA", params=submit_options(), add_help_option=False)
NAMES = tuple(str(parameter.name) for parameter in LINE.params)


def merge(script: dict[str, Any], command_line: dict[str, Any]) -> dict[str, Any]:
    """Options of both; the command line wins, in mappings key by key."""
    merged = {**script, **command_line}
    for name in MAPPINGS & script.keys() & command_line.keys():
        merged[name] = (*script[name], *command_line[name])
    return merged
