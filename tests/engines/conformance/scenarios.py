"""The 52 scenarios, what each needs of a backend, and what each backend says that it has.

docs/engines.md shows the table that follows from these two, and a test holds it to that.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from rota.backends.api import Feature
from rota.backends.registry import kinds


class Power(StrEnum):
    """What an engine can do by itself, whoever drives it. Own agents have none of these."""

    QUEUE = "a queue of the engine"
    DRAIN = "nodes drained in the engine"
    CANCEL = "jobs cancelled in the engine"
    REQUEUE = "jobs requeued by the engine"
    PREEMPT = "jobs preempted by the engine"
    HOLD = "jobs held in the engine"
    REUSE = "ids that are given again"
    SERVER = "a server of the engine"
    PURGE = "jobs that the engine forgets"
    QUOTA = "quotas of the engine"


Need = Feature | Power


class Scenario(NamedTuple):
    """One of the 52."""

    number: int
    title: str
    needs: frozenset[Need] = frozenset()


def _list(first: int, *entries: str | tuple[str, Need]) -> list[Scenario]:
    made = []
    for number, entry in enumerate(entries, first):
        title, *needs = (entry,) if isinstance(entry, str) else entry
        made.append(Scenario(number, title, frozenset(needs)))
    return made


GROUPS: dict[str, list[Scenario]] = {
    "Start": _list(
        1,
        "exit 0",
        "exit 3",
        "death by a signal",
        "no such command",
        "no such folder",
        "the environment is exact",
        ("standard input", Feature.STDIN),
        "a script with arguments",
        "files for output and error",
        "1 MB of output",
        "the log of a running job, from an offset",
        ("as the user who submitted", Feature.USERS),
        ("umask and ulimits", Feature.ULIMITS),
    ),
    "Stop": _list(
        14,
        "cancelled before the engine knows it",
        ("cancelled while it waits there", Power.QUEUE),
        "cancelled while it starts",
        "running, obeys TERM",
        "ignores TERM: grace, then KILL",
        "cancelled as it ends",
        ("checkpoint signal, then TERM", Feature.SIGNALS),
        "time limit reached",
        "time limit raised in time",
        "time limit lowered below the past",
    ),
    "Ends": _list(
        24,
        ("out of memory", Feature.MEMORY),
        "node lost while running",
        "node lost and back",
        "node lost while starting",
        ("drained by the engine's operator", Power.DRAIN),
        ("cancelled by somebody inside the engine", Power.CANCEL),
        ("requeued inside the engine", Power.REQUEUE),
        ("preempted by the engine", Power.PREEMPT),
        ("held inside the engine", Power.HOLD),
    ),
    "Identity": _list(
        33,
        "submit answered late",
        "submit answered with an error, and happened",
        "submit never answered",
        "submit that arrives twice",
        "desired set repeated",
        "gap in the session",
        "end reported twice",
        "a stranger with a similar key is left alone",
        "a key of another Rota is left alone",
        ("engine id given to another job", Power.REUSE),
    ),
    "Restarts": _list(
        43,
        "controller killed among many jobs",
        "engine agent killed among many jobs",
        "both killed among many jobs",
        ("the engine's own server killed", Power.SERVER),
        "engine away, then back",
        "journal lost",
        ("finished jobs purged before anybody looked", Power.PURGE),
    ),
    "Many": _list(
        50,
        "array with a cap",
        ("gang of 3: all or none, ranks, a meeting place", Feature.GANGS),
        ("quota full: waits with the engine's reason", Power.QUOTA),
    ),
}
SCENARIOS = {entry.number: entry for group in GROUPS.values() for entry in group}

_SLURM = frozenset(
    {
        *(Feature.PLACES, Feature.USERS, Feature.STREAMS, Feature.STDIN, Feature.SIGNALS),
        *(Feature.ULIMITS, Feature.GANGS, Feature.WHOLE_GANGS, Feature.KEEPS_LOGS, Feature.VISITS),
        *(Feature.REPORTS, *Power),
    }
)
#: What each backend has, as its driver declares it and as its engine is made.
HAS: dict[str, frozenset[Need]] = {
    "agents": frozenset(Feature),
    "slurm-rest": _SLURM,
    "slurm-commands": _SLURM,
    "kubernetes": frozenset(
        {
            *(Feature.PLACES, Feature.STDIN, Feature.IMAGES, Feature.MEMORY),
            *(Feature.GANGS, Feature.ROLES, Feature.VISITS),
            *(set(Power) - {Power.REQUEUE, Power.HOLD, Power.REUSE}),
        }
    ),
}


RAY_POWERS = frozenset({Power.CANCEL, Power.SERVER, Power.PURGE})
if "ray" in kinds():
    _ray = (Feature.PLACES, Feature.STREAMS, Feature.STDIN, Feature.ULIMITS)
    HAS["ray"] = frozenset({*_ray, Feature.GANGS, Feature.WHOLE_GANGS, *RAY_POWERS})


#: On these backends these scenarios are run with all other tests: how jobs start, print, are
#: stopped and end, who a submit belongs to, and what is left when a part is killed.
CORE_BACKENDS = ("slurm-rest", "slurm-commands", "kubernetes")
CORE = frozenset({1, 2, 3, 4, 5, 6, 8, 9, 12, 14, 17, 18, 25, 29, 34, 36, 41, 44, 48, 51, 52})


def lacking(backend: str, number: int) -> str:
    """What the backend does not have for this scenario; empty: it runs there."""
    return ", ".join(sorted(SCENARIOS[number].needs - HAS[backend]))
