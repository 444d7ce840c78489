"""The program ``rota``: a table of commands that loads only the one it runs."""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click

from rota.cli import exits
from rota.client.errors import ClientError, Refused, Unreachable
from rota.core.facts.errors import Rejected, RotaError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Section of the help -> command -> (where it is, what it does in a line).
COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "Jobs": {
        "run": ("rota.cli.run:run", "Submit a job and follow it; exits with the job's code"),
        "submit": ("rota.cli.submit:submit", "Submit a job; prints its id"),
        "redo": ("rota.cli.redo:redo", "Submit a job again, with other options if you like"),
        "queue": ("rota.cli.queue:queue", "List jobs"),
        "show": ("rota.cli.show:show", "Everything about one job"),
        "why": ("rota.cli.show:why", "Why a job waits, or how it ended"),
        "plan": ("rota.cli.plan:plan", "Would a job start now, and if not, when and why"),
        "attach": ("rota.cli.attach:attach", "Use the terminal of a running job"),
        "forward": ("rota.cli.forward:forward", "Reach ports of a running job from here"),
        "logs": ("rota.cli.logs:logs", "What a job printed"),
        "wait": ("rota.cli.wait:wait", "Wait for jobs to end"),
        "cancel": ("rota.cli.change:cancel", "Cancel jobs, waiting or running"),
        "hold": ("rota.cli.change:hold", "Keep waiting jobs from starting"),
        "release": ("rota.cli.change:release", "Let held jobs start"),
        "requeue": ("rota.cli.change:requeue", "Put jobs back into the queue"),
        "suspend": ("rota.cli.change:suspend", "Stop running jobs where they are"),
        "resume": ("rota.cli.change:resume", "Let suspended jobs go on"),
        "update": ("rota.cli.update:update", "Change a waiting job"),
        "group": ("rota.cli.group:group", "How many jobs of a group may run at once"),
        "checkpoint": ("rota.cli.checkpoint:checkpoint", "Say that a job's work is saved"),
    },
    "Cluster": {
        "top": ("rota.cli.top:top", "Live view of nodes, GPUs and jobs"),
        "nodes": ("rota.cli.nodes:nodes", "List nodes"),
        "node": ("rota.cli.nodes:node", "Show, drain, resume or mark a node, choose its GPUs"),
        "drain": ("rota.cli.nodes:drain", "Let a node finish its jobs, or move them elsewhere"),
        "gpus": ("rota.cli.nodes:gpus", "List GPUs and who uses them"),
        "inventory": ("rota.cli.inventory:inventory", "GPUs by model and state, and who has them"),
        "queues": ("rota.cli.queue_stats:queues", "What waits in which queue, how long and why"),
        "usage": ("rota.cli.usage:usage", "Who uses how much, and who is entitled to what"),
        "stats": ("rota.cli.stats:stats", "How jobs fared, per user and period"),
        "reserve": ("rota.cli.reserve:reserve", "Reserve GPUs or nodes, plan maintenance"),
    },
    "Rules": {
        "policy": ("rota.cli.policy:policy", "Show, try or change the rules of scheduling"),
        "sim": ("rota.cli.sim:sim", "Play a recorded workload under one policy or several"),
        "replay": ("rota.cli.replay:replay", "Is every decision on record what the rules say"),
        "quota": ("rota.cli.quota:quota", "What users and projects may hold"),
        "project": ("rota.cli.accounts:project", "Projects and their shares"),
        "user": ("rota.cli.accounts:user", "Users and their shares"),
        "queue-admin": ("rota.cli.queue_admin:queue_admin", "Make, change or remove queues"),
    },
    "Service": {
        "up": ("rota.cli.service:up", "Start Rota on this machine"),
        "down": ("rota.cli.service:down", "Stop Rota; running jobs go on"),
        "status": ("rota.cli.service:status", "Is Rota running, and what is it doing"),
        "agent": ("rota.cli.service:agent", "Join this machine to a controller"),
        "notify": ("rota.cli.notify:notify", "Who is told of jobs, and whether that works"),
        "token": ("rota.cli.token:token", "Credentials for use over the network"),
        "slurm": ("rota.cli.slurm:slurm", "sbatch, squeue and the others, answered by Rota"),
        "doctor": ("rota.cli.doctor:doctor", "Find out what is wrong here"),
        "mcp": ("rota.cli.mcp:mcp", "Serve Rota to an agent (Model Context Protocol)"),
        "completion": ("rota.cli.completion:completion", "Tab completion for your shell"),
        "version": ("rota.cli.version:version", "Print the version"),
    },
}

_FOUND = {name: place for section in COMMANDS.values() for name, place in section.items()}

EPILOG = """\b
Examples:
  rota up --detach                     start Rota on this machine
  rota run -- python train.py          run a command and follow it
  rota submit --gpus 1 --time 2h -- python train.py
  rota submit train.sh                 a script, with #ROTA or #SBATCH lines
  rota queue                           what waits and what runs

\b
Environment: ROTA_URL, ROTA_TOKEN, ROTA_STATE_DIR, ROTA_CONFIG.
Exit codes: 0 ok, 1 negative answer, 2 usage or refused, 3 not running, 124 timeout."""


class LazyGroup(click.Group):
    """Knows its commands by name and imports a module only when its command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_FOUND)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = _FOUND.get(cmd_name)
        if place is None:
            return None
        module, _, attribute = place[0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in _FOUND and not name.startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches

            close = get_close_matches(name, _FOUND, n=1)
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
def cli() -> None:
    """Rota schedules AI/ML work on this machine or a cluster."""


def _print_version(ctx: click.Context) -> None:
    from rota import __version__

    click.echo(f"rota {__version__}")
    ctx.exit()


#: What a full disk, or one that broke, says to whoever prints into it.
_UNWRITTEN = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command. Whatever goes wrong is one line on stderr and an exit code."""
    sys.exit(_run(list(sys.argv[1:] if arguments is None else arguments)))


def _run(arguments: list[str]) -> int:
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
        return exit_code(error)
    return status if isinstance(status, int) else exits.OK


def _quiet(stop: BaseException) -> int:
    """Ends that need no words."""
    if isinstance(stop, click.exceptions.Exit):
        return stop.exit_code
    if isinstance(stop, BrokenPipeError):
        # The interpreter flushes stdout once more on its way out: let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.PIPE_CLOSED
    click.echo("", err=True)
    return exits.INTERRUPTED


def complain(line: str) -> None:
    """``rota: …`` on stderr, even when the terminal cannot show every character."""
    text = f"rota: {line}\n".encode(sys.stderr.encoding or "utf-8", "backslashreplace")
    click.echo(text, err=True, nl=False)


def one_line(error: Exception) -> str:
    """What to tell the user."""
    if isinstance(error, click.UsageError):
        return _usage_line(error)
    if isinstance(error, OSError) and error.strerror:
        named = error.filename or ("standard output" if error.errno in _UNWRITTEN else "")
        return f"{named}: {error.strerror}" if named else error.strerror
    text = error.format_message() if isinstance(error, click.ClickException) else str(error)
    if isinstance(error, Refused) and error.code == "unauthenticated":
        text += "; set ROTA_TOKEN ('rota token create' on the server's machine makes one)"
    return " ".join(text.split()) or type(error).__name__


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
