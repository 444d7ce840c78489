"""What a job inherits from where it was submitted: environment, folder, umask."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.client.errors import ClientError
from rota.inherited import OF_THE_SHELL, is_inherited, is_text, looks_secret, umask

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rota.cli.submit.work import Work

#: The most that an environment may weigh; the server has the same limit.
MAX_ENVIRONMENT_BYTES = 2 << 20
#: The kernel refuses a longer single ``NAME=VALUE`` (MAX_ARG_STRLEN).
MAX_VARIABLE_BYTES = (128 << 10) - 1
#: What makes programs say more about what they do and where they die.
DEBUG = {
    "ROTA_DEBUG": "1",
    "PYTHONFAULTHANDLER": "1",
    "NCCL_DEBUG": "INFO",
    "TORCH_DISTRIBUTED_DEBUG": "DETAIL",
}


class Captured(NamedTuple):
    """The environment to send, and the names of what stays behind."""

    kept: dict[str, str]
    #: Look like secrets, and nobody asked for them.
    secret: list[str]
    #: Cannot be sent.
    odd: list[str]

    def warnings(self, asked: Collection[str] = ()) -> list[str]:
        """What to say of those that stayed behind, unless they were ``asked`` for by name."""
        lines = []
        if hidden := [name for name in self.secret if name not in asked]:
            names = ", ".join(hidden)
            lines.append(f"left out what looks like a secret: {names} (--env NAME takes one along)")
        if self.odd:
            lines.append(f"left out variables that are not UTF-8 text: {', '.join(self.odd)}")
        return lines


def captured(environment: Mapping[str, str]) -> Captured:
    """The environment to send, without secrets."""
    found = Captured({}, [], [])
    for name, value in environment.items():
        if not is_inherited(name):
            continue
        if not (is_text(name) and is_text(value)):
            found.odd.append(name.encode("utf-8", "replace").decode())
        elif looks_secret(name):
            found.secret.append(name)
        else:
            found.kept[name] = value
    check_size(found.kept)
    return found


def check_size(environment: Mapping[str, str]) -> None:
    """Refuse what the job could not be started with."""
    total = 0
    for name, value in environment.items():
        size = len(name.encode("utf-8", "replace")) + len(value.encode("utf-8", "replace")) + 2
        if size > MAX_VARIABLE_BYTES:
            raise ClientError(
                f"env: {name} has {size >> 10} KiB; a variable may have {MAX_VARIABLE_BYTES >> 10}"
                " (unset it, or use --no-env)"
            )
        total += size
    if total > MAX_ENVIRONMENT_BYTES:
        raise ClientError(
            f"env: the environment has {total >> 20} MiB; at most {MAX_ENVIRONMENT_BYTES >> 20}"
            " (use --no-env and --env NAME for what the job needs)"
        )


def variables(
    pairs: Iterable[tuple[str, str | None]], environment: Mapping[str, str]
) -> dict[str, str]:
    """``--env``: given values, or those of this shell for names alone."""
    chosen: dict[str, str] = {}
    for name, value in pairs:
        if value is None and name not in environment:
            raise ClientError(f"--env: {name} is not set here; write {name}=VALUE")
        chosen[name] = environment[name] if value is None else value
    return chosen


def venv_variables(folder: str, environment: Mapping[str, str]) -> dict[str, str]:
    """What activating a Python environment comes to."""
    root = os.path.abspath(os.path.expanduser(folder))
    if not os.path.exists(os.path.join(root, "bin", "python")):
        raise ClientError(f"--venv: there is no bin/python in {root}")
    path = environment.get("PATH", os.defpath)
    return {"VIRTUAL_ENV": root, "PATH": f"{root}/bin:{path}"}


def conda_variables(name: str, environment: Mapping[str, str]) -> dict[str, str]:
    """What activating a conda environment changes, by asking conda itself."""
    import shutil
    import subprocess

    conda = environment.get("CONDA_EXE") or shutil.which("conda") or shutil.which("mamba")
    if not conda:
        raise ClientError("--conda: there is no conda here (neither CONDA_EXE nor on the PATH)")
    by = "-p" if "/" in name else "-n"
    ended = subprocess.run(
        [conda, "run", "--no-capture-output", by, name, "env", "-0"],
        capture_output=True,
        check=False,
        env=dict(environment),
    )
    if ended.returncode:
        words = ended.stderr.decode("utf-8", "replace").split("\n")
        said = next((line.strip() for line in words if line.strip()), "conda failed")
        raise ClientError(f"--conda: {name}: {said}")
    lines = ended.stdout.decode("utf-8", "surrogateescape").split("\0")
    active = dict(line.partition("=")[::2] for line in lines if "=" in line)
    return {
        key: value
        for key, value in active.items()
        if environment.get(key) != value and key not in OF_THE_SHELL and is_text(value)
    }


def activated(work: Work, asked: tuple[str, str] | None) -> Work:
    """The work behind ``uv run``, if that was asked for; uv makes the environment on the node."""
    kind, project = asked or ("", "")
    if kind != "uv":
        return work
    root = os.path.abspath(os.path.expanduser(project))
    if not os.path.exists(os.path.join(root, "pyproject.toml")):
        raise ClientError(f"--activate uv: there is no pyproject.toml in {root}")
    if not work.argv:
        raise ClientError("--activate uv goes with '-- COMMAND'; a script can call 'uv run' itself")
    return work._replace(argv=("uv", "run", "--project", root, "--", *work.argv))


def workdir(given: str | None) -> str:
    """An absolute folder; a folder that was removed under us, or has no name, is refused."""
    if given == "":
        raise ClientError("--workdir: '' is not valid; expected an existing folder")
    try:
        here = os.getcwd()
    except OSError:
        raise ClientError("the current folder no longer exists; cd elsewhere") from None
    return os.path.normpath(os.path.join(here, os.path.expanduser(given or "")))


def basics(given: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """The part of a request that says where and in which environment."""
    chosen: dict[str, str] = {}
    kind, name = given.get("activate") or ("", "")
    if venv := given.get("venv") or (name if kind == "venv" else ""):
        chosen |= venv_variables(venv, environment)
    if conda := given.get("conda") or (name if kind == "conda" else ""):
        chosen |= conda_variables(conda, environment)
    if given.get("debug"):
        chosen |= DEBUG
    chosen |= variables(given.get("env", ()), environment)
    body: dict[str, Any] = {
        "workdir": workdir(given.get("workdir", given.get("bundle"))),
        "umask": given["umask"] if "umask" in given else umask(),
    }
    if chosen:
        body["variables"] = chosen
    return body


def refuse_absent(body: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    """A folder or a program that is not there is a slip of the pen: say so before it is a job.

    A job that waits for others may find them made by then, and is not asked.
    """
    if body.get("depends_on"):
        return
    folder = body["workdir"]
    if not os.path.isdir(folder):
        raise ClientError(f"--workdir: {folder!r} is not there; expected an existing folder")
    refuse_unwritable(body)
    command = body.get("command")
    # What an image has is not known here.
    name = command[0] if isinstance(command, list) and not body.get("image") else ""
    path = (body.get("variables") or {}).get("PATH") or environment.get("PATH")
    if name and "{" not in name and shutil.which(_beside(folder, name), path=path) is None:
        line = " " in name and len(command or ()) == 1
        meant = f"; for a line of the shell write: --shell {shlex.quote(name)}" if line else ""
        raise ClientError(
            f"command: {name!r} was not found; expected a program in PATH or a path{meant}"
        )


def refuse_unwritable(body: Mapping[str, Any]) -> None:
    """A file for the output that cannot be made; folders on the way to it are made at the start.

    Of a name with placeholders only the part in front of the first one is looked at.
    """
    if body.get("depends_on"):
        return
    for option in ("output", "error"):
        text = body.get(option)
        # What is relative to a bundle is relative to a folder that is not here.
        if not text or (body.get("bundle") and not os.path.isabs(text)):
            continue
        path = os.path.join(body["workdir"], text)
        if found := re.search(r"[%{]", path):
            path = os.path.dirname(path[: found.start()] + "x") + "/x"
        if why := _why_unwritable(path):
            raise ClientError(f"--{option}: {text!r} cannot be written: {why}")


def _why_unwritable(path: str) -> str:
    """What keeps a file from being made or added to; empty: nothing."""
    if os.path.isdir(path):
        return "it is a folder"
    if os.path.exists(path):
        return "" if os.access(path, os.W_OK) else "you may not write to it"
    there = os.path.dirname(path)
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    if not os.path.isdir(there):
        return f"{there} is not a folder"
    if there == "/":
        # Another machine may have what this one has not.
        return ""
    return "" if os.access(there, os.W_OK | os.X_OK) else f"you may not write to {there}"


def _beside(folder: str, name: str) -> str:
    """A path is relative to the folder of the job, not to ours."""
    return os.path.join(folder, name) if "/" in name else name
