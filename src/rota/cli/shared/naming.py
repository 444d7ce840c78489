"""Which jobs people mean: ids, ranges, elements, names, and what they filter by."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rota.cli.shared import session
from rota.client.errors import ClientError
from rota.digits import is_digits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rota.client.http import Client

#: A range of more jobs than this is a slip of the finger.
RANGE_MAX = 100_000
_RANGE = re.compile(r"([0-9]{1,15})-([0-9]{1,15})")
_ELEMENTS = re.compile(r"([0-9]{1,15}|@(?:~[0-9]{1,6})?)_(?:\[([0-9,-]+)\]|([0-9]+-[0-9]+))")
#: How a text looks that names several jobs at once.
PATTERN = re.compile(rf"{_RANGE.pattern}|{_ELEMENTS.pattern}")
FORMS = "12-15, 12_0-3, 12_[0-3,7]"


def jobs_named(client: Client, texts: Sequence[str]) -> list[int | str]:
    """What to send to the server, each once: ids, and ``12_3`` for elements."""
    found: list[int | str] = []
    for text in texts:
        found += _named(client, text)
    return list(dict.fromkeys(found))


def _named(client: Client, text: str) -> list[int | str]:
    if whole := _RANGE.fullmatch(text):
        return [*_span(int(whole[1]), int(whole[2]), text)]
    if some := _ELEMENTS.fullmatch(text):
        array = session.job_name(client, some[1])
        return [f"{array}_{index}" for index in _indices(some[2] or some[3], text)]
    if session.is_name(text):
        mine = {"name": text, "user": session.my_name(client), "state": "active"}
        jobs = session.list_jobs(client, {**mine, "arrays": "collapse"})
        ids: list[int | str] = [_whole(job) for job in jobs]
        if ids:
            return ids
    return [session.job_name(client, text)]


def _indices(text: str, whole: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not is_digits(first) or (dash and not is_digits(last)):
            raise ClientError(f"'{whole}' is not valid; expected elements such as 12_[0-3,7]")
        found += _span(int(first), int(last or first), whole)
    return found


def _span(first: int, last: int, text: str) -> range:
    if last < first:
        raise ClientError(f"'{text}' is not valid; a range must rise")
    if last - first >= RANGE_MAX:
        raise ClientError(f"'{text}' is not valid; a range has at most {RANGE_MAX} jobs")
    return range(first, last + 1)


def _whole(job: Mapping[str, Any]) -> int:
    """Of an array all of it, of which the elements that wait are one item."""
    return int(job["array_id"] if job.get("array_indices") else job["id"])


def chosen_jobs(client: Client, filters: Mapping[str, str]) -> list[dict[str, Any]]:
    """Unfinished jobs that pass the filters. With a state an array is not one item any more."""
    fold = "expand" if filters.get("state") else "collapse"
    asked = {"state": "active", "arrays": fold, **filters}
    return list(session.list_jobs(client, asked))


def told(refs: Sequence[str]) -> list[str]:
    """Names without the elements of arrays that are among them as a whole."""
    arrays = set(refs)
    return [ref for ref in refs if "_" not in ref or ref.partition("_")[0] not in arrays]
