"""``#SBATCH`` lines in Rota's words: what most scripts use; the rest is refused by name."""

from __future__ import annotations

import getopt
import re
from typing import TYPE_CHECKING

from rota.client.errors import ClientError
from rota.core.words.units import BANDS

if TYPE_CHECKING:
    from collections.abc import Callable

#: Slurm's option -> ours, value as it is.
_SAME = {
    "job-name": "--name",
    "array": "--array",
    "partition": "--queue",
    "account": "--project",
    "ntasks": "--tasks",
    "cpus-per-task": "--cpus",
    "priority": "--priority",
    "chdir": "--workdir",
    "output": "--output",
    "error": "--error",
    "input": "--stdin",
    "nodelist": "--nodelist",
    "exclude": "--exclude",
    "ntasks-per-node": "--tasks-per-node",
}
_FLAGS = {
    "hold": ["--hold"],
    "no-requeue": [],
    "requeue": ["--retries", "1", "--retry-on", "node_lost"],
    "exclusive": ["--exclusive"],
}
#: Options that change nothing about how the job runs: taken, with a word of warning.
_HARMLESS = (
    "comment=",
    "mail-type=",
    "mail-user=",
    "open-mode=",
    "nice=",
    "quiet",
    "verbose",
    "parsable",
    "kill-on-invalid-dep=",
    "profile=",
    "wckey=",
    "no-kill",
)
_SHORT = "J:t:c:a:o:e:i:d:p:n:A:D:b:N:G:C:w:x:q:HQv"
_SHORT_NAMES = {
    "-J": "job-name",
    "-t": "time",
    "-c": "cpus-per-task",
    "-a": "array",
    "-o": "output",
    "-e": "error",
    "-i": "input",
    "-d": "dependency",
    "-p": "partition",
    "-n": "ntasks",
    "-A": "account",
    "-D": "chdir",
    "-b": "begin",
    "-N": "nodes",
    "-G": "gpus",
    "-C": "constraint",
    "-w": "nodelist",
    "-x": "exclude",
    "-q": "qos",
    "-H": "hold",
    "-Q": "quiet",
    "-v": "verbose",
}
_KINDS = {
    "after": "--after",
    "afterok": "--after-ok",
    "afterany": "--after-any",
    "afternotok": "--after-not-ok",
    "aftercorr": "--after-ok",
}


def translate(tokens: list[str], place: str) -> tuple[list[str], list[str]]:
    """Our words for the words of one ``#SBATCH`` line, and warnings."""
    long = [f"{name}=" for name in (*_SAME, *_OWN)] + list(_FLAGS) + list(_HARMLESS)
    try:
        options, rest = getopt.getopt(tokens, _SHORT, long)
    except getopt.GetoptError as error:
        raise ClientError(
            f"{place}: {error.msg}: Rota does not know this #SBATCH option; remove it or use #ROTA"
        ) from None
    if rest:
        raise ClientError(f"{place}: '{rest[0]}' is not an option")
    ours: list[str] = []
    warnings: list[str] = []
    for option, value in options:
        name = _SHORT_NAMES.get(option, option.removeprefix("--"))
        try:
            words = _words(name, value)
        except ValueError as error:
            raise ClientError(f"{place}: --{name}={value}: {error}") from None
        if words is None:
            warnings.append(f"{place}: --{name} has no effect in Rota")
        ours += words or []
    return ours, warnings


def _words(name: str, value: str) -> list[str] | None:
    """None: the option is taken and has no effect."""
    if name in _FLAGS:
        return _FLAGS[name]
    if name in _OWN:
        return _OWN[name](value)
    if name in _SAME:
        return [_SAME[name], value]
    return None


def slurm_time_s(text: str) -> int:
    """Slurm's forms: M, M:S, H:M:S, D-H, D-H:M, D-H:M:S; 0 for no limit."""
    if text.upper() in {"UNLIMITED", "INFINITE"}:
        return 0
    found = re.fullmatch(
        r"(?:([0-9]{1,5})-)?([0-9]{1,7})(?::([0-9]{1,4}))?(?::([0-9]{1,4}))?", text
    )
    if found is None:
        raise ValueError("expected minutes, MM:SS, HH:MM:SS or D-HH[:MM[:SS]]")
    days = int(found[1] or 0)
    parts = [int(part) for part in found.groups()[1:] if part is not None]
    if found[1] is None and len(parts) < 3:
        parts = [0, *parts]
    hours, minutes, seconds = (*parts, 0, 0)[:3]
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _time(text: str) -> list[str]:
    return ["--time", str(slurm_time_s(text))]


def _memory(text: str) -> list[str]:
    """A bare number is megabytes in Slurm; 0 is all there is, which is our 'not counted'."""
    return ["--mem", _megabytes(text)]


def _memory_per_cpu(text: str) -> list[str]:
    return ["--mem-per-cpu", _megabytes(text)]


def _megabytes(text: str) -> str:
    return f"{text}m" if text.isdecimal() and text != "0" else text


def _gpus(text: str) -> list[str]:
    """``4``, ``a100``, ``a100:4``."""
    model, _, count = text.rpartition(":")
    if not count.isdecimal():
        model, count = text, "1"
    if ":" in model or not re.fullmatch(r"[\w.-]*", model):
        raise ValueError("expected [TYPE:]NUMBER")
    return ["--gpus", count, *(["--gpu-type", model] if model else [])]


def _gres(text: str) -> list[str]:
    """``gpu``, ``gpu:4``, ``gpu:a100:4``."""
    if text.lower() in {"", "none"}:
        return []
    kind, _, rest = text.partition(":")
    if kind != "gpu" or "," in rest:
        raise ValueError("Rota knows gpu[:TYPE][:NUMBER]")
    return _gpus(rest.split("(")[0] or "1")


def _dependency(text: str) -> list[str]:
    """``afterok:1:2,afterany:3``; with ``?`` between them one is enough."""
    words = ["--any"] if "?" in text else []
    for part in re.split(r"[,?]", text):
        kind, _, ids = part.partition(":")
        if kind not in _KINDS or not ids:
            raise ValueError(f"expected {', '.join(_KINDS)}, each with job ids")
        suffix = "_*" if kind == "aftercorr" else ""
        for job in ids.split(":"):
            words += [_KINDS[kind], job.partition("+")[0] + suffix]
    return words


def _begin(text: str) -> list[str]:
    return [] if text.lower() == "now" else ["--begin", _moment(text)]


def _deadline(text: str) -> list[str]:
    return ["--deadline", _moment(text)]


def _moment(text: str) -> str:
    """``now+1hour`` and the like have words for units where ours have letters."""
    return re.sub(r"(?<=[0-9]) ?(second|minute|hour|day|week)s?$", lambda m: m[1][0], text)


def _nodes(text: str) -> list[str]:
    """``2`` or ``2-2``: Rota gives exactly what is asked."""
    least, _, most = text.partition("-")
    if not least.isdecimal() or (most and most != least):
        raise ValueError("expected one number: Rota gives exactly so many nodes")
    return ["--nodes", least]


def _constraint(text: str) -> list[str]:
    """Features are labels that a node has: ``intel&ssd``."""
    if "=" not in text and re.search(r"[|\[\]*()]", text):
        raise ValueError("Rota knows feature&feature; for alternatives give labels: cpu=intel|amd")
    return ["--constraint", text]


def _qos(text: str) -> list[str]:
    """A service class of ours, or the name of a band of priorities."""
    word = text.lower().replace("_", "-")
    if word in {"guaranteed", "burstable", "best-effort"}:
        return ["--qos", word]
    if word in BANDS:
        return ["--priority", word]
    known = ", ".join(["guaranteed", "burstable", "best-effort", *BANDS])
    raise ValueError(f"Rota knows {known}")


def _export(text: str) -> list[str]:
    """ALL, NONE, or names and NAME=VALUE."""
    parts = [part for part in text.split(",") if part]
    words = [] if "ALL" in parts else ["--no-env"]
    for part in parts:
        words += [] if part in {"ALL", "NONE", "NIL"} else ["--env", part]
    return words


_OWN: dict[str, Callable[[str], list[str]]] = {
    "time": _time,
    "mem": _memory,
    "mem-per-cpu": _memory_per_cpu,
    "gres": _gres,
    "gpus": _gpus,
    "gpus-per-node": _gpus,
    "gpus-per-task": _gpus,
    "dependency": _dependency,
    "begin": _begin,
    "deadline": _deadline,
    "nodes": _nodes,
    "constraint": _constraint,
    "qos": _qos,
    "export": _export,
}
