"""``rota up``, ``down``, ``status`` and ``agent``: the service on this machine."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from rota.cli.service.service_options import AgentOptions, DownOptions, UpOptions
from rota.cli.shared import exits, render, session, types
from rota.cli.shared.job_fields import STATES
from rota.cli.shared.options import json_option
from rota.core.words.units import format_duration
from rota.env_file import read_env
from rota.given_tokens import SEEN_BY_ALL, NoToken, read_token
from rota.heads import GONE_S, clock_remark
from rota.paths import state_dir as state_folder

if TYPE_CHECKING:
    from collections.abc import Callable

_STATE_DIR = click.option(
    "--state-dir",
    metavar="DIR",
    default="",
    help="Where everything is kept.  [default: ROTA_STATE_DIR, else the XDG state folder]",
)
_ACCEPT = click.option(
    "--accept-database",
    is_flag=True,
    help="Work for a database that was put back or replaced. Jobs that it does not know are ended.",
)


def _read_env(ctx: click.Context, option: click.Parameter, path: str) -> None:
    if path:
        read_env(path, os.environ)


_ENV_FILE = click.option(
    "--env-file",
    metavar="FILE",
    default="",
    is_eager=True,
    expose_value=False,
    callback=_read_env,
    help="Variables such as ROTA_SERVER_LISTEN in a file (.env); the environment wins over it.",
)


@click.command()
@click.option(
    "--listen", metavar="HOST:PORT", default="", help="Default: 127.0.0.1:8082, else any free port."
)
@click.option("--database", metavar="URL", default="", help="Default: SQLite in the state folder.")
@click.option("--grpc", metavar="PORT", default="", help="Serve gRPC, too.  [default: no]")
@_STATE_DIR
@click.option("--detach", is_flag=True, help="Go into the background once it answers.")
@click.option("--no-agent", is_flag=True, help="Run no jobs on this machine.")
@click.option(
    "--standby",
    is_flag=True,
    help="Share a PostgreSQL with other heads: wait, and take over when the leader is gone.",
)
@click.option(
    "--pretend",
    type=types.Number(1, 500),
    is_flag=False,
    flag_value=4,
    metavar="[NODES]",
    help="For a demonstration: made-up nodes (4) with 8 GPUs each, whose jobs run nothing.",
)
@click.option("--seed", default=0, metavar="NUMBER", help="What pretended jobs are drawn from.")
@_ENV_FILE
@_ACCEPT
def up(
    listen: str,
    database: str,
    grpc: str,
    state_dir: str,
    detach: bool,
    no_agent: bool,
    standby: bool,
    accept_database: bool,
    pretend: int | None,
    seed: int,
) -> int:
    """Start Rota on this machine: a controller, and an agent that runs jobs here.

    \b
    rota up                      in the foreground, until Ctrl-C; jobs go on after it
    rota up --detach             in the background; stop it with 'rota down'
    rota up --standby            one head of several (docs/heads.md); no agent on this machine
    rota up --pretend 4          four made-up nodes, to look at and to play with

    Settings come from rota.toml (ROTA_CONFIG, the state folder or ~/.config/rota) and from
    ROTA_SECTION_KEY variables such as ROTA_SERVER_LISTEN, also in a file that --env-file names; no
    .env is read unasked. Plain names that other programs use,
    such as DATABASE_URL and PORT, count only with ROTA_PLAIN_NAMES=1.
    """
    from rota.config import parse_listen, parse_port

    if listen:
        _check("--listen", parse_listen, listen)
    _check("--grpc", parse_port, grpc)
    _check("--database", _without_password, database)
    from rota.cli.service import serve

    return serve.up(
        UpOptions(
            listen,
            database,
            state_dir,
            detach,
            not no_agent,
            grpc,
            accept_database,
            standby,
            pretend or 0,
            seed,
        )
    )


def _without_password(url: str) -> None:
    if urlsplit(url).password:
        raise ValueError(
            "every user of this machine can read the password on a command line (ps); put the URL "
            "into rota.toml (server.database) or ROTA_SERVER_DATABASE"
        )


def _check(option: str, parse: Callable[[str], object], text: str) -> None:
    try:
        parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None


@click.command()
@_STATE_DIR
@click.option(
    "--stop-jobs",
    is_flag=True,
    help="Cancel what runs, too, and wait for its end; what waits is kept.",
)
@click.option(
    "--timeout", type=types.SHORT_DURATION, default="30", help="Wait this long.  [default: 30]"
)
@click.option(
    "-y",
    "--yes",
    is_flag=True,
    help="With --stop-jobs: do not ask where jobs are many or of others.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be stopped.")
def down(state_dir: str, stop_jobs: bool, timeout: float, yes: bool, dry_run: bool) -> int:
    """Stop Rota on this machine. Running jobs go on and are found again by the next 'rota up'."""
    from rota.cli.service import down as ending

    return ending.down(DownOptions(state_dir, stop_jobs, timeout, yes, dry_run))


def _refuse_token(ctx: click.Context, option: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise click.UsageError(SEEN_BY_ALL, ctx)


@click.command()
@click.option(
    "--join",
    metavar="URL[,URL…]",
    default="",
    help="The controller, or its heads.  [default: ROTA_URL, here]",
)
@click.option(
    "--token-file",
    metavar="FILE",
    default="",
    help="Holds a token made there with 'rota token create --join'; -: the standard input.",
)
@click.option("--token", hidden=True, expose_value=False, callback=_refuse_token)
@click.option("--name", default="", help="The node's name.  [default: the host name]")
@click.option(
    "--lifetime",
    type=types.LASTING,
    help="The node ends after this time (8h), or at 18:00: no job with a longer limit starts.  "
    "[default: it stays]",
)
@click.option("--unlimited", is_flag=True, help="With --lifetime: jobs without a limit may, too.")
@click.option(
    "--idle",
    type=types.DURATION,
    help="Leave for good when nothing ran here for this time.  [default: stay]",
)
@_STATE_DIR
@_ENV_FILE
@_ACCEPT
def agent(
    join: str,
    token_file: str,
    name: str,
    lifetime: int | None,
    unlimited: bool,
    idle: int | None,
    state_dir: str,
    accept_database: bool,
) -> int:
    """Run jobs on this machine for a controller elsewhere, until Ctrl-C; jobs go on after it.

    The first time it needs a join token: in a file, in ROTA_TOKEN, or typed in. With it the node
    gets a key of its own, kept in its state folder, and needs no token any more.

    With --lifetime or --idle it is a guest: TERM, too, ends its jobs, and the node is gone.
    """
    from rota.cli.service import serve
    from rota.client.wire.ways import check_url
    from rota.fingerprints import split_token

    url = join or os.environ.get("ROTA_URL", "")
    if url:
        check_url(url, "--join" if join else "ROTA_URL")
    try:
        token = read_token(token_file, os.environ)
    except NoToken as error:
        raise click.UsageError(str(error)) from None
    if url.startswith("http://") and split_token(token)[1]:
        raise click.UsageError(f"{url}: the token names a certificate, so it must be https://")
    if not token and _asks_for_token(url, state_dir):
        token = click.prompt("join token", hide_input=True, err=True).strip()
    stay = (float(lifetime or 0), float(idle or 0), unlimited)
    return serve.agent(AgentOptions(url, token, state_dir, name, accept_database, *stay))


def _asks_for_token(url: str, state_dir: str) -> bool:
    """A node that has no key yet cannot join without one, and a person can type it in."""
    folder = Path(state_dir) if state_dir else state_folder(os.environ)
    near = not url or url.startswith("unix:")
    return not near and sys.stdin.isatty() and not (folder / "agent" / "node.key").exists()


@click.command()
@_STATE_DIR
@json_option
def status(state_dir: str, as_json: bool) -> int:
    """Say whether Rota runs, where, and what it is doing. Exits with 3 if it does not run."""
    if state_dir:
        os.environ["ROTA_STATE_DIR"] = state_dir
        os.environ.pop("ROTA_URL", None)
    client = session.connect()
    answer = full_status(client.get("/status"), local_facts(), time.time())
    answer["database_problem"] = client.get("/status/database")["problem"]
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        click.echo("\n".join(status_lines(answer)))
    return exits.OK


@click.command()
def failover() -> int:
    """Hand over to a head that stands by, for an upgrade without a gap. For admins.

    The head that leads ends in order and stands by again; jobs and agents go on.
    """
    answer = session.connect().post("/failover")
    click.echo(f"{answer['successor']} takes over")
    return exits.OK


def local_facts() -> dict[str, Any]:
    """What the processes on this machine wrote down about themselves."""
    folder = state_folder(os.environ)
    return {
        "controller": _read(folder / "controller.json"),
        "agent": _read(folder / "agent" / "agent.json"),
    }


def _read(path: os.PathLike[str]) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            facts = json.load(file)
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def full_status(
    answer: dict[str, Any], local: dict[str, dict[str, Any]], now_s: float
) -> dict[str, Any]:
    """The server's word first; what it does not tell comes from this machine's files."""
    written = local["controller"]
    controller = {
        "pid": written.get("pid"),
        "url": written.get("url"),
        "version": written.get("version"),
        "uptime_s": round(now_s - written["started_s"], 1) if written.get("started_s") else None,
        **(answer.get("controller") or {}),
    }
    agent_facts = {key: local["agent"].get(key) for key in ("pid", "node")}
    return {
        **answer,
        "controller": controller,
        "agent": answer.get("agent") or agent_facts,
        "jobs": answer.get("jobs") or {},
        "database": answer.get("database") or written.get("database"),
    }


def _heads(found: list[dict[str, Any]]) -> str:
    """Who leads, who stands by, and who has not been heard of."""
    return ", ".join(f"{one['url']} {_role(one)}" for one in found)


def _role(head: dict[str, Any]) -> str:
    """Of one that stands by also how far behind it can be read, or why it would not take over."""
    silent_s, lag_s = head.get("silent_s", 0.0), head.get("lag_s")
    if silent_s > GONE_S:
        return f"silent for {silent_s:.0f} s"
    clock = clock_remark(head)
    if head["leads"]:
        return f"leads{clock}"
    lag = "" if lag_s is None else f", read {lag_s:.1f} s behind"
    unfit = f" ({head['unfit']})" if head.get("unfit") else ""
    return f"stands by{lag}{unfit}{clock}"


def _outside(found: dict[str, Any]) -> str:
    """How the inventory outside is."""
    problem = f": {found['problem']}" if found.get("problem") else ""
    return f"{found['url']} is {found['state']}{problem}"


def _database(answer: dict[str, Any]) -> str:
    problem = answer.get("database_problem")
    return f"{answer.get('database')}" + (f": AWAY, {problem}" if problem else "")


def status_lines(answer: dict[str, Any]) -> list[str]:
    """For people."""
    controller, agent = answer["controller"], answer["agent"]
    uptime = format_duration(int(controller.get("uptime_s") or 0))
    counts = answer["jobs"]
    jobs = ", ".join(f"{counts[state]} {state}" for state in STATES if counts.get(state))
    where = f"node {agent.get('node')}, pid {agent.get('pid')}" if agent.get("node") else "none"
    return render.block(
        [
            ("rota", f"{controller.get('version') or '?'}, up for {uptime}"),
            ("url", controller.get("url")),
            ("controller", f"pid {controller.get('pid')}"),
            ("agent", where),
            ("database", _database(answer)),
            ("jobs", jobs or "none"),
            *([("machines", "pretended: nothing is executed")] if answer.get("pretended") else []),
            *([("heads", _heads(answer["heads"]))] if answer.get("heads") else []),
            *([("warning", answer["warning"])] if answer.get("warning") else []),
            *([("inventory", _outside(answer["inventory"]))] if answer.get("inventory") else []),
        ]
    )
