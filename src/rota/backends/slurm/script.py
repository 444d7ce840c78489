"""The batch script of an attempt: what sets it up before its program begins.

Slurm starts a script in another folder where its own is missing, adds to its environment, and
forgets its exit code after a while. So the script carries everything with it: no file has to be on
the nodes before it runs, and what it leaves is in the attempt's folder.
"""

from __future__ import annotations

import base64
import math
import re
import shlex
from types import MappingProxyType
from typing import TYPE_CHECKING

from rota.backends.api import EngineRefused
from rota.backends.slurm import shim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rota.backends.orders import AttemptOrder, Gang
    from rota.rpc.messages import Launch

#: The letters of a shell for limits, and how many bytes it counts by.
_LIMITS = MappingProxyType(
    {
        **{"as": ("v", 1024), "core": ("c", 1024), "data": ("d", 1024), "fsize": ("f", 1024)},
        **{"memlock": ("l", 1024), "rss": ("m", 1024), "stack": ("s", 1024)},
        **{"cpu": ("t", 1), "nofile": ("n", 1), "nproc": ("u", 1), "sigpending": ("i", 1)},
        **{"msgqueue": ("q", 1), "nice": ("e", 1), "rtprio": ("r", 1)},
    }
)
#: Slurm's word on these counts where it has one.
_SLURMS = (
    "SLURM",
    "CUDA_VISIBLE_",
    "GPU_DEVICE_ORDINAL",
    "ROCR_VISIBLE_",
    "HIP_VISIBLE_",
    "ZE_AFF",
)
#: A shell adds these to what it starts.
_ADDED = ("_", "SHLVL", "PWD", "OLDPWD")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Read-only in a shell.
_SHELLS = frozenset({"BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID"})
_END = "ROTA-END"
#: A step does not take this from its job.
_CPUS = "${SLURM_CPUS_PER_TASK:+--cpus-per-task=$SLURM_CPUS_PER_TASK}"
#: What cannot stand in a script as it is: ``sbatch`` refuses one with line ends of DOS, and neither
#: it nor JSON takes bytes that are no text.
_CODED = re.compile("[\r\udc80-\udcff]")


def quote(text: str) -> str:
    """One word of a shell, whatever is in it."""
    if not _CODED.search(text):
        return shlex.quote(text)
    body = text.encode(errors="surrogateescape")
    safe = "".join(chr(b) if 32 <= b < 127 and b not in b"'\\" else f"\\x{b:02x}" for b in body)
    return f"$'{safe}'"


def check(launch: Launch) -> None:
    """Refuse in one line what cannot be done in Slurm."""
    for has, what in (
        (launch.image, "a container image"),
        (launch.bundle, "a bundle"),
        (launch.terminal, "a terminal"),
        (launch.ports, "named ports"),
        (launch.health, "a health check"),
    ):
        if has:
            raise EngineRefused(f"{what}: jobs in Slurm cannot have one")
    for name in launch.environment:
        if not _NAME.fullmatch(name) or name in _SHELLS:
            raise EngineRefused(
                f"environment: {name!r} cannot be set in Slurm; expected a plain name"
            )
    for name in launch.ulimits:
        if name not in _LIMITS:
            known = ", ".join(sorted(_LIMITS))
            raise EngineRefused(f"ulimit {name}: not known in Slurm; known limits: {known}")
    if not launch.script and "=" in launch.argv[0]:
        raise EngineRefused(
            f"command: {launch.argv[0]!r} has a = in its name, which Slurm cannot start"
        )


def script(order: AttemptOrder, folder_of: Callable[[str], str]) -> str:
    """All of it. ``folder_of`` gives the folder of an attempt by its uid."""
    if order.gang is None or len(order.gang.uids) < 2:
        return _task(order.launch, f"folder={quote(folder_of(order.uid))}\n", "")
    return _gang(order, order.gang, folder_of)


def _gang(order: AttemptOrder, gang: Gang, folder_of: Callable[[str], str]) -> str:
    """One job for all: Slurm starts a task for each member, which finds its folder by its rank."""
    folders = " ".join(quote(folder_of(uid)) for uid in gang.uids)
    known = f"folders=({folders})\nfolder=${{folders[$SLURM_PROCID]}}\n"
    known += f"rota_uids=({' '.join(map(quote, gang.uids))})\n"
    launch = order.launch
    if gang.outputs:
        # Each member has files of its own.
        for name, at in (("out", 0), ("err", 1)):
            paths = " ".join(quote(paths[at]) for paths in gang.outputs)
            known += f"{name}s=({paths})\n{name}=${{{name}s[$SLURM_PROCID]}}\n"
    ranks = shim.BESIDE.lstrip() + "".join(f"export {line}\n" for line in _ranks(len(gang.uids)))
    task = _task(launch, known, ranks, own=bool(gang.outputs))
    first = quote(folder_of(order.uid))
    return (
        f"#!/bin/bash\nfolder={first}\n{shim.OWN.lstrip()}"
        f"cat >{first}/task <<'{_END}-TASK' || exit {shim.UNSTARTED}\n{task}{_END}-TASK\n"
        f"{shim.FIRST.lstrip()}"
        "trap : HUP INT QUIT USR1 USR2 TERM\n"
        f"srun --export=ALL --kill-on-bad-exit=1 --ntasks={len(gang.uids)} {_CPUS} "
        f"bash {first}/task\n"
        # It holds the environment, which nobody needs any more.
        f"code=$?\nrm -f {first}/task\nfolders=({folders})\n{shim.WHOLE.strip()}\n"
    )


def _ranks(size: int) -> Iterator[str]:
    """Where a member stands, by what Slurm tells each task."""
    yield from ("ROTA_RANK=$SLURM_PROCID", "RANK=$SLURM_PROCID", "ROTA_TASK_INDEX=$SLURM_PROCID")
    yield from (f"ROTA_NUM_TASKS={size}", f"WORLD_SIZE={size}", "LOCAL_WORLD_SIZE=$beside")
    yield "ROTA_ATTEMPT_UID=${rota_uids[$SLURM_PROCID]}"
    yield from ("LOCAL_RANK=$SLURM_LOCALID", "NODE_RANK=$SLURM_NODEID", "MASTER_ADDR=$first")
    yield "MASTER_PORT=${MASTER_PORT:-$((20000 + SLURM_JOB_ID % 20000))}"
    yield "ROTA_NODELIST=$SLURM_JOB_NODELIST"


def _task(launch: Launch, folder: str, ranks: str, *, own: bool = False) -> str:
    """``own``: the paths of its output are in variables."""
    setup = "".join(_setup(launch, ranks, own=own))
    watch = f"{shim.OWN.strip()}\n{shim.WATCH.strip()}"
    return (
        f"#!/bin/bash\n{folder}"
        f'if [ "$1" != setup ]; then\n{watch}\nfi\n{shim.SETUP.strip()}\n{setup}'
    )


def _setup(launch: Launch, ranks: str, *, own: bool) -> Iterator[str]:
    if launch.script:
        yield _stored("script", launch.script)
        yield 'chmod 700 "$folder/script"\n'
    if launch.stdin:
        yield _stored("stdin", launch.stdin)
    yield f"enter {quote(launch.workdir)}\n"
    yield from _outputs(launch, own=own)
    yield f"umask {launch.umask:04o}\n"
    for name, most in launch.ulimits.items():
        letter, unit = _LIMITS[name]
        amount = "unlimited" if most < 0 else str(math.ceil(most / unit))
        yield f"limit -{letter} {amount} {quote(f'{name}={most}')}\n"
    yield "first=$ROTA_FIRST\n" + shim.PURGE.lstrip()
    for name, value in launch.environment.items():
        given = f"export {name}={quote(value)}\n"
        yield f'[ -n "${{{name}+set}}" ] || {given}' if name.startswith(_SLURMS) else given
    yield 'export ROTA_PROGRESS_FILE="$folder/progress"\n'
    yield ranks
    yield f"set -- {' '.join(_command(launch))}\n"
    yield shim.BEGIN.lstrip()
    dropped = " ".join(f"-u {name}" for name in _ADDED if name not in launch.environment)
    yield f'exec "$env" {dropped} -- "$@"\n'


def _command(launch: Launch) -> Iterator[str]:
    if launch.script:
        if not launch.script.startswith(b"#!"):
            yield "/bin/sh"
        yield '"$folder/script"'
    yield from map(quote, launch.argv)


def _stored(name: str, body: bytes) -> str:
    return f"stored {name} <<'{_END}'\n{base64.encodebytes(body).decode()}{_END}\n"


def _outputs(launch: Launch, *, own: bool) -> Iterator[str]:
    """Those that were named are found by links in the attempt's folder."""
    both = bool(launch.stdout) and launch.stdout == launch.stderr
    for stream, named, words, number, variable in (
        ("stdout", launch.stdout, "output", 1, '"$out"'),
        ("stderr", launch.stderr, "error output", 2, '"$err"'),
    ):
        path = variable if own else quote(named)
        if not named:
            yield f'exec {number}>>"$folder/{stream}" || fail node "$folder: cannot be written"\n'
            continue
        yield f"umask {launch.umask:04o}\n"
        if number == 1 or not both:
            yield f"opened {path} {quote(launch.outputs)} {quote(words)}\n"
        yield f"exec {number}>>{path}\numask 077\n"
        yield f'ln -sfn -- "$(realpath -- {path})" "$folder/{stream}"\n'
    yield 'exec <"$folder/stdin"\n' if launch.stdin else "exec </dev/null\n"
