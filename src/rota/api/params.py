"""Parameters of paths and queries, declared once: their types, limits and documentation."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar.params import PathParameter, QueryParameter

from rota.api.views.lookup import ID_MAX, parse_id
from rota.api.views.paging import no_cursor
from rota.core.facts.errors import Rejected
from rota.core.facts.policy import HIGH_MIN, LOW_MAX
from rota.core.facts.states import FINAL, WAITING, JobState
from rota.core.words.units import BANDS

JobPath = Annotated[
    str, PathParameter(description="A job's id, `5_3` for element 3 of array 5, or a uid")
]
Preview = Annotated[
    bool,
    QueryParameter(
        name="preview", description="Say what it would do or why it is refused; change nothing"
    ),
]
NamePath = Annotated[str, PathParameter(description="Its name", max_length=200)]

States = Annotated[
    str,
    QueryParameter(
        name="state",
        description="States, separated by commas; or `active`, `finished`, `all`. What other"
        " tools say is understood: `pending`, `succeeded`, `killed`, in large letters, too",
    ),
]
User = Annotated[str, QueryParameter(description="Only jobs of this user", max_length=200)]
ProjectName = Annotated[str, QueryParameter(name="project", description="Only of this project")]
QueueName = Annotated[str, QueryParameter(name="queue", description="Only in this queue")]
JobName = Annotated[str, QueryParameter(name="name", description="Only of this name")]
Label = Annotated[str, QueryParameter(description="Only with this label: `key` or `key=value`")]
UserId = Annotated[
    str, QueryParameter(name="user_id", description="Another name for `user`", max_length=200)
]
Priority = Annotated[
    str,
    QueryParameter(
        description="Only of this priority: a number, a range (`30-60`), or a word; `low`,"
        " `normal` and `high` mean all of these bands"
    ),
]
ArrayId = Annotated[
    int, QueryParameter(name="array", description="Only elements of this array", ge=0, lt=ID_MAX)
]
Ids = Annotated[
    str, QueryParameter(description="Ids, separated by commas; an array's id means its elements")
]
Status = Annotated[str, QueryParameter(name="status", description="Another name for `state`")]
ProjectId = Annotated[
    str, QueryParameter(name="project_id", description="Another name for `project`")
]
JobType = Annotated[
    Literal["", "training", "inference", "workflow"],
    QueryParameter(name="type", description="Only of this type"),
]
Run = Annotated[
    str,
    QueryParameter(
        name="run", description="Only of this run of an experiment: its label `run`", max_length=200
    ),
]
Engine = Annotated[
    str, QueryParameter(name="engine", description="Only bound to this engine", max_length=200)
]
Executor = Annotated[
    str,
    QueryParameter(name="executor", description="Another name for `engine`", max_length=200),
]
Search = Annotated[str, QueryParameter(description="Only with this in their names", max_length=200)]
PageNumber = Annotated[
    int,
    QueryParameter(
        name="page",
        description="The page of this number, of `page_size`; 0: by `cursor`",
        ge=0,
        le=10_000,
    ),
]
PageSize = Annotated[int, QueryParameter(name="page_size", description="With `page`", ge=1, le=100)]
Limit = Annotated[int, QueryParameter(description="Items per page", ge=1, le=1000)]
#: Of lists that come whole without it.
PartSize = Annotated[
    int | None,
    QueryParameter(name="limit", description="Items per page; absent: all of them", ge=1, le=1000),
]
Cursor = Annotated[str, QueryParameter(description="`cursor` of the page before")]
Order = Annotated[
    Literal["id", "-id"], QueryParameter(description="`id`: oldest first; `-id`: newest first")
]
Arrays = Annotated[
    Literal["expand", "collapse"],
    QueryParameter(description="`collapse` shows what waits of an array as one item"),
]

_GROUPS = {
    "all": frozenset[JobState](),
    "active": frozenset(JobState) - FINAL,
    "finished": FINAL,
}
#: What other tools say.
_OTHER_WORDS = {
    "pending": WAITING,
    "succeeded": frozenset({JobState.COMPLETED}),
    "killed": frozenset({JobState.CANCELLED}),
}
IDS_MAX = 10_000
PRIORITY_MIN, PRIORITY_MAX = 0, 100
PRIORITIES = {str(number): number for number in range(PRIORITY_MIN, PRIORITY_MAX + 1)}
#: The three bands that jobs are counted by.
BAND_RANGES = {
    "low": (PRIORITY_MIN, LOW_MAX),
    "normal": (LOW_MAX + 1, HIGH_MIN - 1),
    "high": (HIGH_MIN, PRIORITY_MAX),
}


def parse_states(text: str) -> frozenset[JobState]:
    """Empty: no filter."""
    wanted: set[JobState] = set()
    groups = _GROUPS | _OTHER_WORDS
    for given in filter(None, (part.strip() for part in text.split(","))):
        word = given.lower()
        if word == "all":
            return frozenset()
        if word not in groups and word not in JobState.__members__.values():
            known = ", ".join([*JobState, *_GROUPS])
            raise Rejected.bad("state", given, f"known states: {known}")
        wanted |= groups.get(word) or {JobState(word)}
    return frozenset(wanted)


def parse_priorities(text: str) -> tuple[int, int]:
    """The lowest and the highest that are wanted; empty: all of them."""
    if not text:
        return PRIORITY_MIN, PRIORITY_MAX
    if text in BAND_RANGES:
        return BAND_RANGES[text]
    known = BANDS.get(text)
    low, dash, high = (str(known) if known is not None else text).partition("-")
    ends = (low, high if dash else low)
    if not all(end in PRIORITIES for end in ends):
        words = ", ".join(BANDS)
        raise Rejected.bad("priority", text, f"0 to 100, a range such as 30-60, or {words}")
    return PRIORITIES[ends[0]], PRIORITIES[ends[1]]


def parse_cursor(text: str) -> int:
    if not text:
        return 0
    number = parse_id(text)
    if number is None:
        raise no_cursor(text)
    return number


def split_ids(text: str) -> list[str]:
    words = [word for part in text.split(",") if (word := part.strip())]
    if len(words) > IDS_MAX:
        raise Rejected.many("ids", len(words), IDS_MAX, "ids")
    return words
