"""Tells a tracker of experiments how the run of a job fares: running, finished, crashed, killed.

A job is linked to a run by a label: ``--label run=4f2a``. The site switches it on as a notifier
(docs/notify.md), which brings retries, order and a bookmark that outlives a restart.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

from rota.core.facts.notices import check_url
from rota.notify.channels import LATER, NotNow, Unwanted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.notify.notice import Notice

#: What happens to a job -> what becomes of its run.
STATUS = {
    "started": "running",
    "completed": "finished",
    "failed": "crashed",
    "node_failed": "crashed",
    "unschedulable": "crashed",
    "cancelled": "killed",
    "timeout": "killed",
}
#: In the path of a URL: the run.
RUN = "{run}"


class Tracker:
    """``url`` takes a POST with ``run_id``, ``status``, ``job_id`` and, at an end, ``end_time``.

    ``names`` are the tracker's own words for ours; the address of the notifier is the label that
    names the run.
    """

    def __init__(
        self,
        url: str,
        names: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        check_url(url.replace(RUN, "run"))
        self._url, self._headers = url, dict(headers or {})
        self._names = {status: status for status in STATUS.values()} | dict(names or {})
        strange = sorted(set(self._names) - set(STATUS.values()))
        if strange:
            known = ", ".join(dict.fromkeys(STATUS.values()))
            raise ValueError(f"names: {strange[0]!r} is not valid; known: {known}")

    def send(self, notice: Notice, address: str, timeout_s: float) -> None:
        """Jobs without the label have no run, and nobody is told of them."""
        run, status = notice.job.get("labels", {}).get(address, ""), STATUS.get(notice.event)
        if not run or status is None:
            return
        body: dict[str, Any] = {"run_id": run, "status": self._names[status]}
        body["job_id"] = notice.job["id"]
        if status != "running":
            body["end_time"] = int(notice.at_s * 1000)
        head = {"Content-Type": "application/json", "Idempotency-Key": notice.id, **self._headers}
        url = self._url.replace(RUN, quote(run, safe=""))
        request = Request(url, json.dumps(body).encode(), head, method="POST")
        try:
            urlopen(request, timeout=timeout_s).close()
        except HTTPError as error:
            error.close()
            text = f"run {run}: it answered {error.code}"
            raise (NotNow if error.code >= 500 or error.code in LATER else Unwanted)(text) from None
