"""[limits]: what one user may ask of the site. A limit of 0 is none; admins have none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.core.words.units import parse_memory_mib
from rota.settings.checks import at_least

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MIB = 1 << 20


class UserLimits(msgspec.Struct, frozen=True, kw_only=True):
    """[limits]: by default, for each user."""

    #: Jobs that wait, elements of arrays one by one; a quota of the user's own goes before it.
    queued: int = 1_000_000
    #: The most that the captured environment of a job may weigh.
    environment: str = "2m"
    #: The most that the standard input of a job may weigh.
    input: str = "8m"
    #: Environments, scripts and inputs that are new to the site, in a day.
    blobs_per_day: str = "4g"
    #: Packed working folders that are uploaded, in a day.
    bundles_per_day: str = "64g"
    #: Promises (``--by``) whose jobs have not started.
    promises: int = 50
    #: Requests in a second, and how many may come at once after a pause.
    requests_per_s: int = 500
    requests_burst: int = 2000
    #: Connections at one time: streams of events, terminals, and what waits for an answer.
    connections: int = 500

    @property
    def environment_bytes(self) -> int:
        return parse_memory_mib(self.environment) * MIB

    @property
    def input_bytes(self) -> int:
        return parse_memory_mib(self.input) * MIB

    @property
    def blob_bytes_per_day(self) -> int:
        return parse_memory_mib(self.blobs_per_day) * MIB

    @property
    def bundle_bytes_per_day(self) -> int:
        return parse_memory_mib(self.bundles_per_day) * MIB


def _size(most_mib: int) -> Callable[[str], None]:
    """A size of at least 1 MiB and at most what the server takes in any case."""

    def check(text: str) -> None:
        if not 1 <= parse_memory_mib(text) <= most_mib:
            raise ValueError(f"{text!r} is not valid; expected a size from 1m to {most_mib}m")

    return check


#: Setting -> what refuses a bad value of it.
CHECKS: dict[str, Callable[[Any], object]] = {
    "limits.queued": at_least(0),
    "limits.environment": _size(2),
    "limits.input": _size(8),
    "limits.blobs_per_day": parse_memory_mib,
    "limits.bundles_per_day": parse_memory_mib,
    "limits.promises": at_least(0),
    "limits.requests_per_s": at_least(0),
    "limits.requests_burst": at_least(1),
    "limits.connections": at_least(0),
}
