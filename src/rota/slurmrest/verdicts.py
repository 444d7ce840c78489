"""What an error of Slurm means, by its number or by its words.

Slurm's HTTP status says little: a refusal, a bad token and a dead slurmctld are all 500, a
database that is away is 200. The number inside tells them apart, and the commands print its words.
"""

from __future__ import annotations

from types import MappingProxyType


class SlurmError(Exception):
    """Base of the four. ``code`` is Slurm's own number of it; 0: it is not one of Slurm's."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


class SlurmRefused(SlurmError):
    """It never will, as it was asked."""


class SlurmFull(SlurmError):
    """Not now: a limit, or something that is closed for a while. Nothing has happened."""


class SlurmAway(SlurmError):
    """It does not answer, or does not know who asks. Nothing has happened."""


class SlurmUnsure(SlurmError):
    """The answer was lost on its way: it may have happened."""


NO_PARTITION = 2000
BAD_LIMIT = 2051
UNKNOWN_JOB = 2017
ALREADY_DONE = 2021
#: Said of a job that was taken and cannot start now.
NOT_NOW = 2015
#: A bad token reads as a dead slurmctld, word for word.
UNSPECIFIED = -1
#: A question that has an empty answer.
NOTHING_FOUND = 9003
NO_CONNECTION = 1001
#: Below this a number is one of the operating system: trouble on the way to slurmctld.
OWN = 1000
#: These are about who asks, whatever is asked.
_OF_IDENTITY = range(6000, 6100)
#: A command that says this does not find its own settings, or what it needs on this machine.
_FATAL = "fatal: "
#: Said for the sake of a node that was named, not of the job.
OF_NODE = frozenset({2004, 2018, 2029, 2068})

#: The words of the numbers that are no refusal, as slurm_strerror has them.
FULL = MappingProxyType(
    {
        2007: "Unable to create job record, try again",
        2016: "Requested nodes are busy",
        2019: "I/O error writing script/environment to file",
        2050: "Job violates accounting/QOS policy",
        2068: "Required node not available",
        2070: "Required partition not available",
        2074: "Requested account has breached requested QOS usage threshold",
        2101: "Partition in DOWN state",
        2105: "System submissions disabled",
    }
)
AWAY = MappingProxyType(
    {
        NO_CONNECTION: "Communication connection failure",
        1007: "Protocol authentication error",
        1800: "Unable to contact slurm controller (connect failure)",
        2027: "Slurm backup controller in standby mode",
        7000: "Unable to connect to database",
    }
)
#: Of a question: silence. Of an order: it may have arrived.
LOST = MappingProxyType(
    {
        UNSPECIFIED: "Unspecified error",
        1002: "Message send failure",
        1003: "Message receive failure",
        1004: "Communication shutdown failure",
        1801: "Unable to contact slurm controller (send failure)",
        1802: "Unable to contact slurm controller (receive failure)",
        1803: "Unable to contact slurm controller (shutdown failure)",
        5000: "Received zero length message",
        5001: "Received message length < 0",
        5002: "Failed to send entire message",
        5003: "Header lengths are longer than data received",
        5004: "Socket timed out on send/recv operation",
        5005: "Zero Bytes were transmitted or received",
    }
)
_NAMED = MappingProxyType(
    {
        NO_PARTITION: "Invalid partition name specified",
        2004: "Requested nodes not in this partition",
        UNKNOWN_JOB: "Invalid job id specified",
        2018: "Invalid node name specified",
        ALREADY_DONE: "Job/step already completing or completed",
        2029: "Invalid feature specification",
        2045: "Invalid account or account/partition combination specified",
        BAD_LIMIT: "Requested time limit is invalid",
        2066: "Invalid qos specification",
    }
)


def verdict(code: int, text: str, *, order: bool) -> SlurmError:
    """The error of a number. ``order``: it was asked to do something, not to tell something."""
    if code in FULL:
        return SlurmFull(text, code)
    if code in AWAY or code in _OF_IDENTITY:
        return SlurmAway(text, code)
    if code in LOST or 0 < code < OWN:
        return SlurmUnsure(text, code) if order else SlurmAway(text, code)
    return SlurmRefused(text, code)


def verdict_of_words(text: str, *, order: bool) -> SlurmError:
    """The error that a command printed."""
    low = text.lower()
    if low.startswith(_FATAL):
        return SlurmAway(text, NO_CONNECTION)
    for words in (FULL, AWAY, LOST, _NAMED):
        for code, said in words.items():
            if said.lower() in low:
                return verdict(code, text, order=order)
    return SlurmRefused(text)
