"""Why jobs wait, one line each, for lists: equal jobs share one answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.api.views.refs import with_refs
from rota.core.facts.array import Array
from rota.core.facts.states import ACTIVE
from rota.scheduling.answers.explain import Inquiry

if TYPE_CHECKING:
    from rota.core.derived.lanes import Lane
    from rota.core.facts.job import Job
    from rota.scheduling.scheduler import Scheduler


class Reasons:
    """The reasons of one listing."""

    def __init__(self, scheduler: Scheduler, now_s: float) -> None:
        self._scheduler = scheduler
        self._cluster = scheduler.cluster
        self._now_s = now_s
        self._inquiry: Inquiry | None = None
        self._of_lane: dict[int, str] = {}
        self._of_array: dict[int, str] = {}

    def of(self, item: Job | Array) -> str:
        """Empty for a job that runs or has ended."""
        if isinstance(item, Array):
            if item.id not in self._of_array:
                self._of_array[item.id] = self._explain(item.id, item)
            return self._of_array[item.id]
        if item.outcome is not None or item.state in ACTIVE:
            return ""
        return self._explain(item.id, item)

    def _explain(self, item_id: int, item: Job | Array) -> str:
        if item.held:
            return "held"
        lane: Lane | None = self._cluster.lanes.where.get(item_id)
        if lane is None:
            return self._ask(item_id)
        key = id(lane)
        if key not in self._of_lane:
            self._of_lane[key] = self._ask(item_id)
        return self._of_lane[key]

    def _ask(self, item_id: int) -> str:
        if self._inquiry is None:
            self._inquiry = Inquiry(self._scheduler, self._now_s)
        return with_refs(self._cluster, self._inquiry.reason(item_id))
