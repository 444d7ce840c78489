"""How values of options are read that have a form of their own. ``ValueError``: they cannot be."""

from __future__ import annotations

from rota.core.words.licenses import read_licenses
from rota.slurm.words import values

_MAILS = frozenset(
    {
        *("NONE", "BEGIN", "END", "FAIL", "REQUEUE", "ALL", "INVALID_DEPEND", "STAGE_OUT"),
        *("TIME_LIMIT", "TIME_LIMIT_90", "TIME_LIMIT_80", "TIME_LIMIT_50", "ARRAY_TASKS"),
    }
)


def off(_text: str) -> bool:
    return False


def seconds(text: str) -> int:
    """The length of a limit."""
    return 60 * values.minutes(text)


def gpus(text: str) -> tuple[str, int]:
    """Several models in one list are added up: Rota gives a job GPUs of one model."""
    model, total = "", 0
    for part in text.split(","):
        one, count = values.gpus(part)
        model, total = model or one, total + count
    return model, total


def gres(text: str) -> tuple[str, int]:
    model, total = "", 0
    for one, count in values.gres(text):
        model, total = model or one, total + count
    return model, total


def nice(text: str) -> int:
    """What is no number changes nothing, as in Slurm."""
    try:
        return int(text[:12]) if text else 100
    except ValueError:
        return 0


def exclusive(text: str) -> bool:
    """Against all others; ``user`` and ``mcs`` would let some of them in."""
    if text.lower() not in ("", "exclusive", "user", "mcs"):
        raise ValueError(text)
    return text.lower() in ("", "exclusive")


def open_mode(text: str) -> str:
    if text[:1].lower() not in ("a", "t"):
        raise ValueError(text)
    return text


def mail_type(text: str) -> str:
    if not _MAILS.issuperset(text.upper().split(",")):
        raise ValueError(text)
    return text


def warning(text: str) -> str:
    """``B:USR1@90`` with the number of the signal."""
    flags, number, ahead_s = values.warning(text)
    return f"{flags + ':' if flags else ''}{number}@{ahead_s}"


def distribution(text: str) -> str:
    """``block`` or ``cyclic`` over nodes; what follows is about sockets and cores."""
    word = text.partition(":")[0].partition(",")[0].lower()
    if word not in ("block", "cyclic", "arbitrary", "*", "plane") and not word.startswith("plane="):
        raise ValueError(text)
    return "cyclic" if word == "cyclic" else "block"


def licenses(text: str) -> list[str]:
    """``name:2,other``, in the words of a request."""
    return [f"{name}:{count}" for name, count in read_licenses(text)]


def waits_on(text: str) -> bool:
    """``--kill-on-invalid-dep=yes`` ends a job that waits for what can no longer come."""
    return text != "yes"
