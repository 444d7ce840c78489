"""Which rows the store has to write."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.core.facts.array import Array
    from rota.core.facts.job import Job


class Dirty:
    """What changed since the last commit, by kind and key, in order of first change."""

    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        self.arrays: dict[int, Array] = {}
        self.blobs: dict[str, bytes] = {}
        self.nodes: dict[str, None] = {}
        self.queues: dict[str, None] = {}
        self.groups: dict[str, None] = {}
        self.projects: dict[str, None] = {}
        self.reservations: dict[int, None] = {}
        self.pilots: dict[str, None] = {}
        self.tokens: dict[str, None] = {}
        self.users: dict[str, None] = {}
        self.usage: dict[str, None] = {}
        self.outers: dict[str, None] = {}
        #: ``policy`` when the rules changed.
        self.settings: dict[str, None] = {}
