"""Requests for calls: what a connection sends so that functions run as jobs.

The same for programs with threads and for programs with an event loop: nothing is sent here.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.client import asking, calls, outcomes
from rota.client.http import new_key
from rota.client.members import task_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rota.client.calls import References
    from rota.client.handle import JobReference

#: Kept over a restart of the machine, unlike what is in ``/tmp``.
LASTING = "/var/tmp"


class RequestOrder(NamedTuple):
    """A request, and what its sender must remember of it."""

    request: dict[str, Any]
    #: How many results each job has.
    tasks: int
    #: How many elements it has; 0: it is a single job.
    elements: int
    #: The jobs whose results it needs.
    parents: tuple[JobReference, ...]


class Maker:
    """Makes the requests of one connection."""

    def __init__(self, folder: str, python: str) -> None:
        # Made by the first that puts something there: a call that is large, or a job its result.
        key = new_key()[:16]
        self.calls = calls.CallFolder(
            Path(folder or tempfile.gettempdir()).absolute() / f"rota-calls-{key}"
        )
        lasting = LASTING if os.path.isdir(LASTING) else tempfile.gettempdir()
        #: Where jobs leave their results; the last part is known to this user alone.
        self.results = (
            Path(folder or lasting).absolute() / f"{outcomes.RESULTS}{key}" / new_key()[:16]
        )
        self._command = [python or sys.executable, *calls.COMMAND]
        #: What is put on every job of this connection.
        self.labels: dict[str, str] = {}

    def call(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        options: Mapping[str, Any],
        home: str,
    ) -> RequestOrder:
        """One call as a job."""
        asking.check_call(function, args, kwargs)
        found: References = []
        stdin = self.calls.pack(function, args, kwargs, found)
        request = self._common(function, options, home)
        _wait_for(request, [found], home, alone=True)
        return RequestOrder({**request, "stdin": stdin}, task_count(request), 0, tuple(found))

    def family(
        self,
        function: Callable[..., Any],
        items: Iterable[tuple[Any, ...]],
        kwargs: Mapping[str, Any],
        options: Mapping[str, Any],
        home: str,
        max_concurrent: int = 0,
    ) -> list[RequestOrder]:
        """One job per tuple of arguments: arrays whose elements share the function."""
        if max_concurrent < 0:
            raise ValueError(f"max_concurrent: {max_concurrent} is not valid; 0 (no cap) or more")
        asking.refuse_keywords(function, options)
        shared: References = []
        stdin = self.calls.pack(function, (), kwargs, shared)
        common = {**self._common(function, options, home), "stdin": stdin}
        portions = calls.portions(self._rows(function, items, kwargs))
        if max_concurrent:
            common["max_concurrent"] = max_concurrent
            if len(portions) > 1:
                # A cap over several arrays is the cap of a group that they belong to.
                common["group"] = f"map-{new_key()[:12]}"
        orders = []
        for rows in portions:
            parameters = {"names": [calls.PARAMETER], "rows": [[text] for text, _ in rows]}
            request = {**common, "parameters": parameters}
            _wait_for(request, [found for _, found in rows], home, alone=len(portions) == 1)
            _wait_for(request, [shared], home, alone=False)
            found = tuple(job for _, jobs in rows for job in jobs)
            orders.append(RequestOrder(request, task_count(request), len(rows), (*found, *shared)))
        return orders

    def _rows(
        self,
        function: Callable[..., Any],
        items: Iterable[tuple[Any, ...]],
        kwargs: Mapping[str, Any],
    ) -> list[tuple[str, References]]:
        made: list[tuple[str, References]] = []
        for item in items:
            if not made:
                asking.check_call(function, item, kwargs)
            found: References = []
            made.append((self.calls.row(item, found), found))
        return made

    def _common(self, function: object, options: Mapping[str, Any], home: str) -> dict[str, Any]:
        base = asking.surroundings(os.environ, str(self.results))
        base["name"] = calls.name_of(function)
        base["command"] = self._command
        request = asking.options(options, base, home)
        if self.labels:
            request["labels"] = {**self.labels, **request.get("labels", {})}
        return request


def _wait_for(request: dict[str, Any], rows: list[References], home: str, *, alone: bool) -> None:
    """Let a job, or each element of an array, begin after those whose results it needs.

    ``alone``: the rows are all elements of one array, from the first on.
    """
    needed = {job.id: job for row in rows for job in row}
    for job in needed.values():
        if job.home != home:
            raise ValueError(
                f"job {job.id} belongs to the cluster at {job.home}, and this one is at {home}: "
                "give its result"
            )
    if not needed:
        return
    entries: list[dict[str, Any]] = []
    families = {job.family.array: job.family.size for job in needed.values() if job.family}
    for array, count in families.items():
        # One entry for a whole array: there may be more elements than a request may name.
        members = [job.id for job in needed.values() if job.family and job.family.array == array]
        if len(members) == count:
            entries.append({"kind": "after-ok", "job": array})
            if alone and count == len(rows) and _side_by_side(rows, array):
                entries[-1]["element"] = True
            for member in members:
                del needed[member]
    entries += asking.parents(needed, home)
    request["depends_on"] = [*request.get("depends_on", []), *entries]


def _side_by_side(rows: list[References], array: int) -> bool:
    """Whether each element needs the one with its own index, and no other of that array."""
    return all(
        {job.family.place for job in row if job.family and job.family.array == array} == {place}
        for place, row in enumerate(rows)
    )
