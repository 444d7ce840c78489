"""``rota slurm``: the commands of Slurm, answered by Rota."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click

from rota import paths
from rota.cli.shared import types
from rota.client.errors import ClientError

RELAYED = (
    *("sbatch", "squeue", "scancel", "sinfo", "sacct", "scontrol", "sacctmgr"),
    *("sprio", "sshare", "sdiag", "sstat", "sreport"),
)
#: They start tasks themselves, which the relay does not.
STEPPING = ("srun", "salloc", "sbcast", "sattach")
#: Where the programs are that the commands are links to.
OWN = ".rota"
COMPILERS = ("cc", "gcc", "clang")
#: How the relay is linked: the way that starts fastest, or what this machine can do.
WAYS = (
    (
        *("bare.c", "-static", "-no-pie", "-fno-pie", "-nostdlib", "-ffreestanding"),
        "-fno-stack-protector",
        *("-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=0"),
    ),
    ("-static",),
    (),
)


@click.group(short_help="The commands of Slurm, answered by Rota")
def slurm() -> None:
    """sbatch, squeue and the others, for tools that know Slurm and not Rota."""


@slurm.command(short_help="Put sbatch, squeue and the others into a folder.")
@click.argument("folder", metavar="DIR", type=types.Folder())
@click.option("--force", is_flag=True, help="Put them in the place of a real Slurm's, too.")
@click.option("--no-compile", is_flag=True, help="In Python, also where there is a C compiler.")
def install(folder: Path, force: bool, no_compile: bool) -> None:
    """Put sbatch, srun, salloc, sbcast, sattach, squeue, scancel, sinfo, sacct, scontrol, sacctmgr,
    sprio, sshare, sdiag, sstat and sreport into a folder for PATH.

    \b
    rota slurm install ~/.local/rota-slurm
    export PATH=~/.local/rota-slurm:$PATH

    Commands of a real Slurm that are there already stay, unless --force is given.
    Exit code 0: done; 2: refused, or the folder cannot be written.
    """
    folder = folder.absolute()
    strangers = [name for name in (*RELAYED, *STEPPING) if _is_strange(folder / name)]
    if strangers and not force:
        raise ClientError(
            f"{folder} has a {strangers[0]} that is not ours; choose another folder, or replace "
            "it with --force"
        )
    try:
        _install(folder, compiled=not no_compile)
    except OSError as error:
        raise ClientError(f"cannot write in {folder}: {error.strerror or error}") from None


def _is_strange(path: Path) -> bool:
    """Whether something is there that an install of ours did not put there."""
    if not os.path.lexists(path):
        return False
    return not (path.is_symlink() and Path(os.readlink(path)).parent.name == OWN)


def _install(folder: Path, *, compiled: bool) -> None:
    from rota.slurm.relay.programs import relay_script, step_script

    own = folder / OWN
    own.mkdir(parents=True, exist_ok=True)
    python = _python()
    socket = _socket()
    _write(own / "relay.py", relay_script(python, socket).encode())
    _write(own / "step.py", step_script(python, socket))
    relay = "relay.py"
    if compiled and _compile(own, python, socket):
        relay = "relay"
    for name in RELAYED:
        _link(folder / name, f"{OWN}/{relay}")
    for name in STEPPING:
        _link(folder / name, f"{OWN}/step.py")
    kind = "compiled" if relay == "relay" else "in Python"
    click.echo(f"{len(RELAYED) + len(STEPPING)} commands ({kind}) are in {folder}")
    found = shutil.which("sbatch")
    if found is None or Path(found).parent != folder:
        click.echo(f"put it first in PATH: export PATH={folder}:$PATH")


def _python() -> str:
    """Ours, unless it lies where others may not look: then the system's."""
    own = Path(os.path.realpath(sys.executable))
    if all(part.stat().st_mode & 0o001 for part in (own, *own.parents)):
        return str(own)
    return shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin") or str(own)


def _socket() -> str:
    """Where Rota listens: a command finds it also where no variable says so."""
    known = [str(path) for path in paths.sockets(os.environ)]
    return next((path for path in known if os.path.exists(path)), known[0])


def _write(path: Path, body: bytes) -> None:
    draft = path.with_name(path.name + ".new")
    draft.write_bytes(body)
    draft.chmod(0o755)
    draft.replace(path)


def _link(path: Path, target: str) -> None:
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    draft.symlink_to(target)
    draft.replace(path)


def _compile(own: Path, python: str, socket: str) -> bool:
    """The relay in C starts far faster; without a compiler the one in Python does."""
    from rota.slurm.relay.programs import relay_sources

    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        return False
    for name, text in relay_sources().items():
        (own / name).write_text(text)
    words = {"DEFAULT_SOCKET": socket, "PYTHON": python, "SCRIPT": str(own / "relay.py")}
    defined = [f"-D{name}={_quoted(value)}" for name, value in words.items()]
    draft = own / "relay.new"
    for way in WAYS:
        try:
            subprocess.run(
                [compiler, "-O2", "-Wall", "-Wextra", *defined, "-o", draft, "relay.c", *way],
                check=True,
                capture_output=True,
                timeout=120,
                cwd=own,
            )
            # One that cannot run here ends by a signal; any exit code is its own word.
            if subprocess.run([draft], capture_output=True, timeout=30).returncode < 0:
                continue
        except (OSError, subprocess.SubprocessError):
            continue
        draft.replace(own / "relay")
        return True
    return False


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@slurm.command("import", short_help="Take over the configuration of a Slurm site.")
@click.argument("conf", metavar="SLURM_CONF", type=click.Path(path_type=Path))
@click.option("--gres", type=click.Path(path_type=Path), help="A gres.conf, for GPUs.")
@click.option("--dump", type=click.Path(path_type=Path), help="What 'sacctmgr dump' wrote.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A folder for it.")
def import_site(conf: Path, gres: Path | None, dump: Path | None, out: Path) -> None:
    """Make the configuration of a Slurm site into one of Rota: nodes, queues, projects, quotas.

    \b
    rota slurm import /etc/slurm/slurm.conf --dump cluster.cfg --out site

    Writes rota.toml for the controller, nodes/NAME.toml for the agent of each machine, and
    setup.sh, which makes queues, projects and quotas on a running Rota. What has no counterpart
    is said on stderr. Exit code 0: done; 2: a file cannot be read or written.
    """
    from rota.slurm.site.site_import import read_site
    from rota.slurm.site.site_plan import files_of, notes_of

    texts = [_text_of(path) if path is not None else "" for path in (conf, gres, dump)]
    site = read_site(*texts)
    if not site.nodes:
        raise ClientError(f"{conf} names no nodes; expected lines such as NodeName=n[1-4] CPUs=4")
    try:
        for name, text in files_of(site).items():
            path = out / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    except OSError as error:
        raise ClientError(f"cannot write in {out}: {error.strerror or error}") from None
    (out / "setup.sh").chmod(0o755)
    for note in notes_of(site):
        click.echo(f"rota: {note}", err=True)
    counts = f"{len(site.nodes)} nodes, {len(site.partitions)} queues"
    click.echo(f"{counts}, {len(site.accounts)} projects in {out}")


def _text_of(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError as error:
        raise ClientError(f"cannot read {path}: {error.strerror or error}") from None
