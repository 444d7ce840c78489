"""How values of options are read that have a form of their own. ``ValueError``: they cannot be."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rota.core.facts.job import ServiceClass
from rota.core.words.licenses import read_licenses
from rota.core.words.units import BANDS
from rota.digits import is_digits
from rota.slurm.words import values

if TYPE_CHECKING:
    from collections.abc import Callable

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


def per_task(text: str) -> list[tuple[str, str]]:
    """``cpu:2,gres/gpu:a100:1``, as the options that say the same."""
    found = []
    for part in text.split(","):
        kind, _, count = part.replace("=", ":").replace("gres:", "gres/").partition(":")
        if kind.lower() not in ("cpu", "gres/gpu") or not count:
            raise ValueError(text)
        found.append(("cpus-per-task" if kind.lower() == "cpu" else "gpus-per-task", count))
    return found


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
    return words("yes no")(text).lower() == "no"


def quality(text: str) -> dict[str, Any]:
    """What a job gets by a QOS: a service class of ours, or a band of priorities."""
    word = text.lower().replace("_", "-")
    if not word or word == "normal":
        return {}
    if word in {service.value for service in ServiceClass}:
        return {"qos": ServiceClass(word)}
    if word in BANDS:
        return {"priority": BANDS[word]}
    raise ValueError(text)


def words(known: str, between: str = "", numbers: bool = False) -> Callable[[str], str]:
    """Of options without effect, too, a value that Slurm does not know is a mistake.

    ``between``: what several words may stand apart by; ``numbers``: they may be numbers.
    """

    def read(text: str) -> str:
        parts = re.split(f"[{between}]", text) if between else [text]
        if text and not all(
            one.lower() in known.split() or (numbers and is_digits(one)) for one in parts
        ):
            raise ValueError(text)
        return text

    return read


def switches(text: str) -> str:
    """``COUNT`` or ``COUNT@TIME``."""
    count, _, longest = text.partition("@")
    values.whole(count, least=0)
    if longest:
        values.minutes(longest)
    return text


def binding(kinds: str) -> Callable[[str], str]:
    """``[verbose,]TYPE``, with a list behind some of them; the words stand in any order."""

    def read(text: str) -> str:
        known = [*kinds.split(), "verbose", "quiet", "v", "q"]
        # Behind a comma a number goes on with the list before it.
        for word in re.split(",(?![0-9])", text.lower()):
            if re.split("[:=]", word)[0] not in known:
                raise ValueError(text)
        return text

    return read


def login(text: str) -> str:
    """How long to wait for the variables of a login, and whether it is a long one."""
    if text and not re.fullmatch("[0-9]*[LSls]?", text):
        raise ValueError(text)
    return text
