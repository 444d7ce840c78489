"""Which jobs people mean: ids, ranges, elements, names, and what they filter by."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.cli.shared import job_fields, session
from rota.client.errors import ClientError
from rota.digits import is_digits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rota.client.http import Client

#: A range of more jobs than this is a slip of the finger.
RANGE_MAX = 100_000
_RANGE = re.compile(r"([0-9]{1,15})-([0-9]{1,15})")
_ELEMENTS = re.compile(r"([0-9]{1,15}|@(?:~[0-9]{1,6})?)_(?:\[([0-9,-]+)\]|([0-9]+-[0-9]+))")
#: One condition of a word such as ``label:exp=7+state:failed``.
_CONDITION = r"(?:label|state|name|queue|project):[^+\x00-\x1f\x7f]{1,200}"
_CONDITIONS = re.compile(rf"{_CONDITION}(?:\+{_CONDITION})*")
#: How a text looks that names several jobs at once.
PATTERN = re.compile(rf"{_RANGE.pattern}|{_ELEMENTS.pattern}|{_CONDITIONS.pattern}")
FORMS = "12-15, 12_0-3, 12_[0-3,7], state:failed, label:exp=7"
#: Other words for states, and words for several of them.
_ALIASES = {"pending": "queued", "waiting": "queued", "done": "finished", "canceled": "cancelled"}
_GROUPS = ("active", "finished", "all")


class Meant(NamedTuple):
    """How a verb reads words that may stand for several jobs."""

    #: A mere name is the newest job of that name, and not all unfinished ones.
    newest: bool = False
    #: Conditions find jobs that have ended, too.
    ended: bool = False


#: Verbs that end or stop jobs, or let them go.
CHANGED = Meant()
#: Those that say something of jobs, or build on them.
LOOKED_AT = Meant(newest=True, ended=True)


def jobs_named(client: Client, texts: Sequence[str], meant: Meant = CHANGED) -> list[int | str]:
    """What to send to the server, each once: ids, and ``12_3`` for elements."""
    found: list[int | str] = []
    for text in texts:
        found += _named(client, text, meant)
    return list(dict.fromkeys(found))


def _named(client: Client, text: str, meant: Meant) -> list[int | str]:
    if whole := _RANGE.fullmatch(text):
        return [*_span(int(whole[1]), int(whole[2]), text)]
    if some := _ELEMENTS.fullmatch(text):
        array = session.job_name(client, some[1])
        return [f"{array}_{index}" for index in _indices(some[2] or some[3], text)]
    if _CONDITIONS.fullmatch(text):
        return _on_condition(client, text, meant)
    if session.is_name(text) and not meant.newest:
        jobs = chosen_jobs(client, {"name": text, "user": session.my_name(client)})
        ids: list[int | str] = [_whole(job) for job in jobs]
        if ids:
            return ids
    found = session.job_name(client, text)
    if isinstance(found, str) and session.is_name(text):
        raise ClientError(f"there is no job {text}")
    return [found]


def _on_condition(client: Client, text: str, meant: Meant) -> list[int | str]:
    """My jobs that meet all conditions of a word; an array is one, unless a state tells."""
    filters = {"user": session.my_name(client)}
    for condition in text.split("+"):
        what, _, value = condition.partition(":")
        if what in filters:
            raise ClientError(f"'{text[:60]}' is not valid; each condition once")
        filters[what] = parse_states(value, text) if what == "state" else value
    if "state" in filters:
        found: list[int | str] = [
            job_fields.display_id(job) for job in chosen_jobs(client, filters)
        ]
    elif meant.ended:
        jobs = session.list_jobs(client, {**filters, "arrays": "collapse"})
        found = [int(job.get("array_id") or job["id"]) for job in jobs]
    else:
        found = [_whole(job) for job in chosen_jobs(client, filters)]
    if not found:
        kind = "job" if meant.ended or "state" in filters else "unfinished job"
        raise ClientError(f"no {kind} of yours is '{text}'")
    return found


def parse_states(text: str, named: str = "--state") -> str:
    """States with commas, checked here so that a typing error gets a near name."""
    states = []
    for word in text.lower().split(","):
        state = _ALIASES.get(word.strip(), word.strip())
        if state not in job_fields.STATES and state not in _GROUPS:
            from difflib import get_close_matches

            close = get_close_matches(state, job_fields.STATES, n=1)
            known = ", ".join((*job_fields.STATES, *_GROUPS))
            hint = f"did you mean {close[0]}?" if close else f"known: {known}"
            raise ClientError(f"{named}: there is no state '{word}'; {hint}")
        states.append(state)
    return ",".join(states)


def parents_of(client: Client) -> Callable[[str], Sequence[int | str]]:
    """What ``--after-ok`` and its siblings mean by a word."""
    return lambda text: jobs_named(client, [text], LOOKED_AT)


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
