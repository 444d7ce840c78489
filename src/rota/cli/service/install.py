"""``rota service``: Rota as a service of systemd, for the machine or for one person."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota import paths
from rota.cli.service import units
from rota.cli.shared import exits, render
from rota.cli.shared.asking import confirm
from rota.cli.shared.options import json_option
from rota.cli.shared.session import warn
from rota.core.facts.errors import Rejected
from rota.digits import is_digits
from rota.given_tokens import NoToken, read_token

if TYPE_CHECKING:
    from collections.abc import Callable

_SYSTEM_UNITS = Path("/etc/systemd/system")
#: There while systemd is in charge of the machine.
_IN_CHARGE = Path("/run/systemd/system")
_TOKEN = "join.token"
_SHOWN = "LoadState,ActiveState,SubState,UnitFileState,MainPID,StatusText"


class ServicePlace:
    """Where the files of a service are: of the machine, of one person, or below another root."""

    def __init__(self, user: bool, agent: bool, root: str = "", *, changes: bool = True) -> None:
        self.user, self.root = user, Path(root) if root else None
        self.name = units.AGENT if agent else units.HEAD
        self.agent = agent
        personal = paths.personal_folder(os.environ)
        self.config = personal / paths.CONFIG_NAME if user else paths.SYSTEM_CONFIG
        self.state = paths.state_dir(os.environ) if user else paths.SYSTEM_STATE_DIR
        self.folder = personal.parent / "systemd" / "user" if user else _SYSTEM_UNITS
        if changes and not user and not root and os.geteuid() != 0:
            raise Rejected("only root sets up the service of a machine; --user makes one of yours")

    def real(self, path: Path) -> Path:
        return self.root / path.relative_to("/") if self.root else path

    @property
    def unit(self) -> Path:
        return self.real(self.folder / self.name)

    def systemctl(self, *words: str, check: bool = True) -> str:
        """What it prints; trouble is one line."""
        words = ("systemctl", *(["--user"] if self.user else []), *words)
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise Rejected("there is no systemctl here: Rota's service needs systemd") from None
        if check and done.returncode:
            said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
            raise Rejected(f"{' '.join(words)}: {said}{_what_to_do(said)}")
        return done.stdout


def _what_to_do(said: str) -> str:
    """In words, where systemd's are about its own insides."""
    if "Failed to connect to" not in said:
        return ""
    return (
        "; no systemd listens to this session: log in anew (su and sudo give none), or --no-start"
    )


def _chosen(command: Callable[..., object]) -> Callable[..., object]:
    """The options that say which service is meant."""
    for option in (
        click.option("--agent", is_flag=True, help="The agent of a node, not a whole Rota."),
        click.option("--user", is_flag=True, help="A service of yours, not of the machine."),
    ):
        command = option(command)
    return command


@click.group()
def service() -> None:
    """Rota as a service of systemd: started with the machine, and again whenever it ends.

    A restart or an upgrade does not touch jobs. Settings of the machine's service are in
    /etc/rota/rota.toml, its state in /var/lib/rota, and every user reaches it at /run/rota.
    """


@service.command()
@_chosen
@click.option("--join", metavar="URL", default="", help="With --agent: the controller.")
@click.option(
    "--token-file", metavar="FILE", default="", help="With --agent: holds a token to join with."
)
@click.option("--name", default="", help="With --agent: the node's name.  [default: the host name]")
@click.option("--no-agent", is_flag=True, help="A controller that runs no jobs on this machine.")
@click.option("--no-start", is_flag=True, help="Write the files only.")
@click.option(
    "--root", metavar="DIR", default="", help="Write below DIR (an image); start nothing."
)
def install(
    user: bool,
    agent: bool,
    join: str,
    token_file: str,
    name: str,
    no_agent: bool,
    no_start: bool,
    root: str,
) -> None:
    """Write the unit and first settings, and start the service.

    \b
    rota service install                                 a Rota for this machine (as root)
    rota service install --user                          one of your own
    rota service install --agent --join https://head:8082 --token-file FILE

    A rota.toml that is there already stays as it is.
    """
    if agent and (not join or no_agent):
        raise click.UsageError("--agent goes with --join URL and not with --no-agent")
    if not agent and (join or token_file or name):
        raise click.UsageError("--join, --token-file and --name go with --agent")
    place = ServicePlace(user, agent, root)
    words = _agent_words(place, join, token_file, name) if agent else ["up"]
    wanted = units.UnitOrder(
        [*_program(user), *words, *(["--no-agent"] if no_agent else [])],
        not user,
        "agent" if agent else "scheduler",
        "" if user else str(place.state),
        _systemd_version(),
    )
    for line in _write_files(place, units.unit(wanted)):
        click.echo(line)
    if root or no_start or not (user or _IN_CHARGE.is_dir()):
        if not root and not no_start:
            warn("systemd is not in charge of this machine: nothing was started")
        return
    place.systemctl("daemon-reload")
    place.systemctl("enable", place.name)
    # One that runs takes up the new unit; jobs go on.
    place.systemctl("restart", place.name)
    click.echo(f"started {place.name}: {_facts(place)['StatusText'] or 'see rota service status'}")
    if user:
        warn("it ends when you log out, unless an admin runs: loginctl enable-linger " + _me())


def _me() -> str:
    return os.environ.get("USER") or str(os.getuid())


def _agent_words(place: ServicePlace, join: str, token_file: str, name: str) -> list[str]:
    """The command of an agent. The token is copied: the one it was handed over in may go away."""
    from rota.client.wire.ways import check_url

    check_url(join, "--join")
    words = ["agent", "--join", join, *(["--name", name] if name else [])]
    if token_file:
        try:
            token = read_token(token_file, {})
        except NoToken as error:
            raise click.UsageError(str(error)) from None
        copy = place.config.parent / _TOKEN
        _write(place.real(copy), f"{token}\n", 0o600)
        words += ["--token-file", str(copy)]
    return words


def _program(user: bool) -> list[str]:
    """How this very ``rota`` is started. As root only what nobody else can change."""
    own = Path(sys.executable).parent / "rota"
    words = [str(own)] if own.exists() else [sys.executable, "-m", "rota.cli.main"]
    if not user:
        for path in (Path(words[0]), Path(words[0]).parent):
            found = path.stat()
            if found.st_uid != 0 or found.st_mode & stat.S_IWOTH:
                raise Rejected(
                    f"{path} can be changed by others, and root would run it: install Rota for "
                    "root first, such as: python3 -m venv /opt/rota; /opt/rota/bin/pip install rota"
                )
    return words


def _systemd_version() -> int:
    if shutil.which("systemctl") is None:
        return 0
    said = subprocess.run(["systemctl", "--version"], capture_output=True, text=True, check=False)
    word = [*said.stdout.split(), "", ""][1]
    return int(word) if is_digits(word) else 0


def _write_files(place: ServicePlace, text: str) -> list[str]:
    """Make what is missing; what was done, in lines."""
    lines = []
    try:
        place.real(place.state).mkdir(
            mode=0o700 if place.user else 0o711, parents=True, exist_ok=True
        )
        config = place.real(place.config)
        if config.exists():
            lines.append(f"kept {config}")
        else:
            _write(config, units.settings(str(place.state)), 0o600)
            lines.append(f"wrote {config}")
        _write(place.unit, text, 0o644)
    except OSError as error:
        raise Rejected(f"{error.filename}: {error.strerror}") from None
    return [*lines, f"wrote {place.unit}"]


def _write(path: Path, text: str, mode: int) -> None:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)


def _facts(place: ServicePlace) -> dict[str, str]:
    said = place.systemctl("show", place.name, f"--property={_SHOWN}", check=False)
    found = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
    return {name: found.get(name, "") for name in _SHOWN.split(",")}


@service.command()
@_chosen
@json_option
def status(user: bool, agent: bool, as_json: bool) -> int:
    """Say how the service is. Exits with 3 if it does not run, or is none."""
    place = ServicePlace(user, agent, changes=False)
    if not place.unit.exists():
        warn(_absent(place))
        return exits.UNREACHABLE
    facts = _facts(place)
    if as_json:
        click.echo(json.dumps({"unit": str(place.unit), **facts}, indent=2))
    else:
        click.echo("\n".join(_status_lines(place, facts)))
    return exits.OK if facts["ActiveState"] == "active" else exits.UNREACHABLE


def _absent(place: ServicePlace) -> str:
    """What is said where no unit was written, and whether the other kind was."""
    whose = "of yours" if place.user else "of this machine"
    other = ServicePlace(not place.user, place.agent, changes=False)
    if other.unit.exists():
        flags = " --agent" * place.agent + " --user" * other.user
        return f"no service {whose}; see 'rota service status{flags}'"
    flags = " --agent --join URL" * place.agent + " --user" * place.user
    return f"no service {whose}: there is no {place.unit}; 'rota service install{flags}' makes one"


def _status_lines(place: ServicePlace, facts: dict[str, str]) -> list[str]:
    running = f"{facts['ActiveState'] or 'unknown'} ({facts['SubState'] or '?'})"
    enabled = facts["UnitFileState"] or "not known to systemd"
    return render.block(
        [
            ("unit", f"{place.unit}, {enabled}"),
            ("state", f"{running}, pid {facts['MainPID'] or 0}"),
            ("says", facts["StatusText"]),
            ("settings", str(place.config)),
            ("state in", str(place.state)),
        ]
    )


@service.command()
@_chosen
@click.option("--yes", "-y", is_flag=True, help="Do not ask first.")
def remove(user: bool, agent: bool, yes: bool) -> None:
    """Stop the service and remove its unit. Settings, state and running jobs stay."""
    place = ServicePlace(user, agent)
    if not place.unit.exists():
        raise click.UsageError(f"there is no {place.unit}")
    confirm(f"stop {place.name} and remove its unit", yes)
    if user or _IN_CHARGE.is_dir():
        place.systemctl("disable", "--now", place.name)
    place.unit.unlink()
    if user or _IN_CHARGE.is_dir():
        place.systemctl("daemon-reload")
    click.echo(f"removed {place.unit}; {place.config} and {place.state} are left as they are")
