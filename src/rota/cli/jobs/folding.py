"""Listings in which the finished part of an array is one line: ``15 sweep 9 completed, 1 failed``.

The elements of an array have a block of ids behind its own, so a reader who has met one of them
can go on behind the block: an array of a million costs as much as one of ten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.cli.shared import session
from rota.cli.shared.job_fields import FINISHED
from rota.core.words.units import format_indices

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rota.client.http import Client

UNWELL = ",".join(sorted(FINISHED - {"completed", "cancelled"}))
#: The most failed elements that are named.
NAMED = 10


def folded_jobs(
    client: Client, filters: Mapping[str, object], *, most: int = 0
) -> Iterator[dict[str, Any]]:
    """As ``session.list_jobs``, but of the ended elements of an array there is one line."""
    backwards = filters.get("order") == "-id"
    cursor: str | None = None
    folded: set[int] = set()
    given = 0
    while True:
        answer = client.get("/jobs", limit=session.PAGE, cursor=cursor, **filters)
        cursor = answer.get("cursor")
        for job in answer["items"]:
            row = job
            if job["state"] in FINISHED and job.get("array_id"):
                if job["array_id"] in folded:
                    continue
                folded.add(job["array_id"])
                array = client.get(f"/jobs/{job['array_id']}")
                row = _ended_part(client, array)
                beyond = array["id"] if backwards else array["id"] + array["count"]
                if cursor and array["state"] in FINISHED:
                    cursor = str((min if backwards else max)(beyond, int(cursor)))
            yield row
            given += 1
            if most and given >= most:
                return
        if not cursor or not answer["items"]:
            return


def _ended_part(client: Client, array: dict[str, Any]) -> dict[str, Any]:
    """One line for all elements that have ended."""
    counts = {state: n for state, n in array["states"].items() if n and state in FINISHED}
    unwell = counts.keys() - {"completed", "cancelled"}
    # Those that failed last: their indices follow.
    ordered = sorted(counts.items(), key=lambda entry: entry[0] in unwell)
    told = ", ".join(f"{count} {state}" for state, count in ordered)
    if unwell:
        told += f": {_failed(client, array)}"
    if array["state"] in FINISHED:
        return {**array, "cause": told}
    # Its other elements have lines of their own.
    return {**array, "state": "finished", "reason": told}


def _failed(client: Client, array: dict[str, Any]) -> str:
    """Which ones: ``3,7-9``."""
    wanted = {"array": array["id"], "state": UNWELL, "arrays": "expand"}
    found = list(session.list_jobs(client, wanted, most=NAMED + 1))
    shown = format_indices([job["array_index"] for job in found[:NAMED]])
    return shown + (", …" if len(found) > NAMED else "")
