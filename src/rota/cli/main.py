"""The program ``rota``: a table of commands that loads only the one it runs."""

from __future__ import annotations

import errno
import os
import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click

from rota.cli.shared import exits
from rota.client.errors import ClientError, Refused, Unreachable
from rota.core.facts.errors import Rejected, RotaError, Unavailable
from rota.digits import is_digits

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Section of the help -> command -> (where it is in this package, what it does in a line).
COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "Jobs": {
        "run": ("jobs.run:run", "Submit a job and follow it; exits with the job's code"),
        "submit": ("submit.submit:submit", "Submit a job; prints its id"),
        "new": ("submit.new:new", "Write a script to start from"),
        "redo": ("jobs.redo:redo", "Submit a job again, with other options if you like"),
        "queue": ("jobs.queue:queue", "List jobs"),
        "show": ("jobs.show:show", "Everything about one job"),
        "why": ("jobs.show:why", "Why a job waits, or how it ended"),
        "plan": ("jobs.plan:plan", "Would a job start now, and if not, when and why"),
        "attach": ("jobs.attach:attach", "Use the terminal of a running job"),
        "exec": ("jobs.inside:execute", "Run a command inside a running job"),
        "shell": ("jobs.inside:shell", "Open a shell inside a running job"),
        "forward": ("jobs.forward:forward", "Reach ports of a running job from here"),
        "logs": ("jobs.logs:logs", "What a job printed"),
        "wait": ("jobs.wait:wait", "Wait for jobs to end"),
        "cancel": ("jobs.change:cancel", "Cancel jobs, waiting or running"),
        "hold": ("jobs.change:hold", "Keep waiting jobs from starting"),
        "release": ("jobs.change:release", "Let held jobs start"),
        "requeue": ("jobs.change:requeue", "Put jobs back into the queue"),
        "suspend": ("jobs.change:suspend", "Stop running jobs where they are"),
        "resume": ("jobs.change:resume", "Let suspended jobs go on"),
        "update": ("jobs.update:update", "Change a waiting job"),
        "group": ("jobs.group:group", "How many jobs of a group may run at once"),
        "checkpoint": ("jobs.checkpoint:checkpoint", "Say that a job's work is saved"),
        "progress": ("jobs.progress:progress", "Inside a job: say how far it is"),
    },
    "Cluster": {
        "top": ("cluster.top:top", "Live view of nodes, GPUs and jobs"),
        "web": ("cluster.web:web", "Open the web page, signed in as you"),
        "nodes": ("cluster.nodes:nodes", "List nodes"),
        "node": ("cluster.node_keys:node", "Show, drain, resume, mark, approve or remove a node"),
        "drain": ("cluster.nodes:drain", "Let a node finish its jobs, or move them elsewhere"),
        "gpus": ("cluster.nodes:gpus", "List GPUs and who uses them"),
        "clusters": ("cluster.clusters:clusters", "List clusters, and whether they take work"),
        "inventory": ("cluster.inventory:inventory", "GPUs by model and state, and who has them"),
        "queues": ("cluster.queue_stats:queues", "What waits in which queue, how long and why"),
        "usage": ("cluster.usage:usage", "Who uses how much, at what cost, and who is entitled"),
        "stats": ("cluster.stats:stats", "How jobs fared, per user and period"),
        "report": (
            "cluster.report:report",
            "A week or month on one page: use, cost, waits",
        ),
        "reserve": ("cluster.reserve:reserve", "Reserve GPUs or nodes, plan maintenance"),
    },
    "Rules": {
        "policy": ("rules.policy:policy", "Show, try or change the rules of scheduling"),
        "sim": ("rules.sim:sim", "Play a recorded workload under one policy or several"),
        "replay": ("rules.replay:replay", "Check that recorded decisions can be reproduced"),
        "quota": ("rules.quota:quota", "What users and projects may hold"),
        "project": ("rules.accounts:project", "Projects and their shares"),
        "user": ("rules.accounts:user", "Users and their shares"),
        "vdc": ("rules.vdc:vdc", "Virtual data centres: pools of clusters with their own rules"),
        "queue-admin": ("rules.queue_admin:queue_admin", "Make, change or remove queues"),
    },
    "Service": {
        "up": ("service.service:up", "Start Rota on this machine"),
        "down": ("service.service:down", "Stop Rota; running jobs go on"),
        "status": ("service.service:status", "Is Rota running, and what is it doing"),
        "failover": ("service.service:failover", "Hand over to a head that stands by"),
        "agent": ("service.service:agent", "Join this machine to a controller"),
        "service": ("service.install:service", "Rota as a service of systemd"),
        "backup": ("service.backup:backup", "Database, keys and settings into one file"),
        "restore": ("service.backup:restore", "Put such a file into an empty state folder"),
        "archive": ("service.archive:archive", "Old finished jobs into files to keep"),
        "engine": ("engines.engine:engine", "Slurm, Kubernetes or Ray as nodes of Rota"),
        "notify": ("service.notify:notify", "Who is told of jobs, and whether that works"),
        "login": ("service.login:login", "Speak to a Rota elsewhere; keeps several"),
        "logout": ("service.login:logout", "Forget one of them"),
        "token": ("service.token:token", "Credentials for use over the network"),
        "audit": ("service.audit:audit", "Who did what to which object"),
        "secret": ("service.secret:secret", "Values that only your jobs see"),
        "slurm": ("service.slurm:slurm", "sbatch, squeue and the others, answered by Rota"),
        "doctor": ("service.doctor:doctor", "Find out what is wrong here"),
        "mcp": ("service.mcp:mcp", "Serve Rota to an agent (Model Context Protocol)"),
        "completion": ("completion:completion", "Tab completion for your shell"),
        "version": ("version:version", "Print the version"),
    },
}

_FOUND = {name: place for section in COMMANDS.values() for name, place in section.items()}
#: Other names, which the help does not list.
ALIASES = {"events": "audit"}
#: What other programs call it: offered, and never done unasked.
ELSEWHERE = {
    **dict.fromkeys(("kill", "stop", "delete", "rm", "remove"), "cancel"),
    **dict.fromkeys(("ps", "ls", "list", "jobs", "stat"), "queue"),
    **dict.fromkeys(("log", "tail", "cat"), "logs"),
    **dict.fromkeys(("info", "describe", "job"), "show"),
    **dict.fromkeys(("start", "serve", "init"), "up"),
    **dict.fromkeys(("add", "batch", "enqueue"), "submit"),
    **dict.fromkeys(("retry", "restart", "rerun"), "redo"),
    "template": "new",
    # Those of Slurm are there after 'rota slurm install'; these are the nearest of ours.
    **dict.fromkeys(("sbatch", "srun"), "submit"),
    **dict.fromkeys(("squeue", "sacct"), "queue"),
    **dict.fromkeys(("scancel",), "cancel"),
    **dict.fromkeys(("sinfo",), "nodes"),
}

EPILOG = """\b
Examples:
  rota up --detach                     start Rota on this machine
  rota run -- python train.py          run a command and follow it
  rota submit --gpus 1 --time 2h -- python train.py
  rota submit train.sh                 a script, with #ROTA or #SBATCH lines
  rota queue                           what waits and what runs

\b
Environment: ROTA_URL, ROTA_TOKEN, ROTA_SITE, ROTA_STATE_DIR, ROTA_CONFIG.
Exit codes: 0 ok, 1 negative answer, 2 usage or refused, 3 not running, 124 timeout."""


class LazyGroup(click.Group):
    """Knows its commands by name and imports a module only when its command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_FOUND)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = _FOUND.get(ALIASES.get(cmd_name, cmd_name))
        if place is None:
            return None
        module, _, attribute = place[0].partition(":")
        command: click.Command = getattr(import_module(f"rota.cli.{module}"), attribute)
        if ctx.resilient_parsing:
            # A shell asks for completions.
            import_module("rota.cli.shared.complete").teach(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, known = args[0], _FOUND.keys() | ALIASES.keys()
        if name not in known and not name.startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches

            meant = ELSEWHERE.get(name)
            close = [meant] if meant else get_close_matches(name, _FOUND, n=1)
            hint = f"did you mean '{close[0]}'?" if close else "see 'rota --help'"
            raise click.UsageError(f"there is no command '{name}'; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, commands in COMMANDS.items():
            with formatter.section(section):
                formatter.write_dl([(name, text) for name, (_, text) in commands.items()])


@click.command(
    "rota",
    cls=LazyGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    help="Print the version.",
    callback=lambda ctx, _param, value: _print_version(ctx) if value else None,
)
@click.option(
    "--site",
    metavar="NAME",
    expose_value=False,
    help="Speak to this Rota; see 'rota login'.",
    callback=lambda _ctx, _param, value: _speak_to(value) if value else None,
)
def cli() -> None:
    """Rota schedules AI/ML work on this machine or a cluster."""


def _speak_to(site: str) -> None:
    """What is said on the command line goes before the environment."""
    for name in ("ROTA_URL", "ROTA_TOKEN"):
        os.environ.pop(name, None)
    os.environ["ROTA_SITE"] = site


def _print_version(ctx: click.Context) -> None:
    from rota import __version__

    click.echo(f"rota {__version__}")
    ctx.exit()


#: What a full disk, or one that broke, says to a program that prints into it.
_UNWRITTEN = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command. Whatever goes wrong is one line on stderr and an exit code."""
    sys.exit(_run(list(sys.argv[1:] if arguments is None else arguments)))


def _run(arguments: list[str]) -> int:
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    try:
        status = cli.main(arguments, prog_name="rota", standalone_mode=False)
        sys.stdout.flush()
    except (BrokenPipeError, click.exceptions.Exit, click.Abort, KeyboardInterrupt) as stop:
        return _quiet(stop)
    except click.exceptions.NoArgsIsHelpError as usage:
        click.echo(usage.format_message(), err=True)
        return exits.USAGE
    except (click.ClickException, RotaError, OSError, RecursionError) as error:
        complain(one_line(error))
        if _is_unwritten(error):
            _write_no_more()
        return exit_code(error)
    return status if isinstance(status, int) else exits.OK


def _quiet(stop: BaseException) -> int:
    """Ends that need no words."""
    if isinstance(stop, click.exceptions.Exit):
        return stop.exit_code
    if isinstance(stop, BrokenPipeError):
        _write_no_more()
        return exits.PIPE_CLOSED
    click.echo("", err=True)
    return exits.INTERRUPTED


def _write_no_more() -> None:
    """The interpreter flushes stdout once more on its way out: let that go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_unwritten(error: Exception) -> bool:
    """Whether it was our own output that found no room."""
    return isinstance(error, OSError) and not error.filename and error.errno in _UNWRITTEN


def complain(line: str) -> None:
    """``rota: …`` on stderr, even when the terminal cannot show every character."""
    text = f"rota: {line}\n".encode(sys.stderr.encoding or "utf-8", "backslashreplace")
    click.echo(text, err=True, nl=False)


def one_line(error: Exception) -> str:
    """What to tell the user."""
    if isinstance(error, click.UsageError):
        return _usage_line(error)
    if isinstance(error, OSError) and error.strerror:
        named = "standard output" if _is_unwritten(error) else error.filename
        return f"{named}: {error.strerror}" if named else error.strerror
    text = error.format_message() if isinstance(error, click.ClickException) else str(error)
    if isinstance(error, Refused):
        text = _in_times(error) or text
    if isinstance(error, Refused) and error.code == "unauthenticated":
        text += f"; {_about_tokens()}"
    return " ".join(text.split()) or type(error).__name__


def _in_times(error: Refused) -> str:
    """A length that the server refused in seconds, as people write lengths; empty: it is none."""
    value, allowed = str(error.problem.get("value")), error.problem.get("allowed")
    if not (error.field.endswith("_s") and is_digits(value) and isinstance(allowed, str)):
        return ""
    from rota.core.words.units import format_duration

    bounds = allowed.replace("expected a whole number <=", "at most")
    bounds = bounds.replace("expected a whole number >=", "at least")
    told = re.sub(r"\b[0-9]{2,}\b", lambda found: format_duration(int(found[0])), bounds)
    return f"{error.field[:-2]}: {format_duration(int(value))} is not valid; {told}"


def _about_tokens() -> str:
    """What to do about one that is missing or not taken."""
    if os.environ.get("ROTA_TOKEN"):
        return "it is the one in ROTA_TOKEN: set another, or unset it on the server's machine"
    return "set ROTA_TOKEN ('rota token create' on the server's machine makes one)"


def _usage_line(error: click.UsageError) -> str:
    text = " ".join(error.format_message().split()).rstrip(".")
    text = text[:1].lower() + text[1:]
    command = error.ctx.command_path if error.ctx is not None else "rota"
    return text if "see '" in text or "id you mean" in text else f"{text} (see '{command} --help')"


def exit_code(error: Exception) -> int:
    """Which code tells scripts what happened."""
    if isinstance(error, click.ClickException):
        return error.exit_code if error.exit_code != 1 else exits.USAGE
    if isinstance(error, Unreachable | Unavailable):
        return exits.UNREACHABLE
    if isinstance(error, Rejected | ClientError):
        return exits.USAGE
    return exits.NEGATIVE


if __name__ == "__main__":
    main()
