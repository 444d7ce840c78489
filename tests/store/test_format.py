"""What rows say has a number: a Rota that knows less refuses the database instead of harming it."""

import hashlib
import re

import msgspec
import pytest
from msgspec import inspect

from rota.core.changes.events import AnyEvent
from rota.core.facts.array import Array
from rota.core.facts.errors import Rejected
from rota.core.facts.job import Job
from rota.store import migrations, rows
from tests.support.machine import REPOSITORY

#: The number, and what the structs were like when it was given. When the test below fails, raise
#: ``rows.FORMAT`` once per release, and put the new pair here.
#: Between two releases it changes in place: nobody keeps a database of a number not released.
KNOWN = {1: "1a25bc3020e8e773"}


#: Each release, and the number that it wrote; added in the commit that dates it in CHANGELOG.md.
RELEASED: dict[str, tuple[int, str]] = {}


def breaches(
    known: dict[int, str], released: dict[str, tuple[int, str]], changelog: str
) -> list[str]:
    """Where it is broken: what a release wrote keeps its number, and the next has one more."""
    dated = re.findall(r"^## (\S+) \((?!unreleased)", changelog, re.MULTILINE)
    found = [f"{version}: its number is not here" for version in dated if version not in released]
    found += [
        f"{version}: what rows said then had the number {number}, and it means something else now"
        for version, (number, digest) in released.items()
        if known.get(number) != digest
    ]
    most = max((number for number, _ in released.values()), default=0) + 1
    return found + [
        f"{number}: more than one since the release" for number in known if number > most
    ]


def kept_types():
    return [Job, Array, AnyEvent, *(decode.__self__.type for decode in rows.RECORDS.values())]


def shape() -> str:
    """One digest over the names and types of all fields of all structs that are kept."""
    found: dict[str, str] = {}

    def walk(node: object) -> None:
        if isinstance(node, inspect.StructType):
            name = f"{node.cls.__module__}.{node.cls.__qualname__}"
            if name in found:
                return
            found[name] = ""
            fields = [
                (f.encode_name, str(node.cls.__annotations__.get(f.name))) for f in node.fields
            ]
            found[name] = f"{node.tag} {fields}"
        if isinstance(node, inspect.EnumType):
            found[node.cls.__qualname__] = str([member.value for member in node.cls])
        for value in getattr(node, "__struct_fields__", ()):
            part = getattr(node, value)
            for inner in part if isinstance(part, tuple) else (part,):
                if isinstance(inner, inspect.Type | inspect.Field):
                    walk(inner)

    for kind in kept_types():
        walk(inspect.type_info(kind))
    text = msgspec.json.encode(sorted(found.items()))
    return hashlib.sha256(text).hexdigest()[:16]


def test_a_struct_that_changes_gets_a_new_number():
    assert KNOWN.get(rows.FORMAT) == shape()


def test_what_a_release_wrote_keeps_its_number_and_the_next_release_has_at_most_one_more():
    assert breaches(KNOWN, RELEASED, (REPOSITORY / "CHANGELOG.md").read_text()) == []


@pytest.mark.parametrize(
    ("known", "released", "said"),
    [
        ({1: "a"}, {}, []),
        ({1: "a"}, {"0.1.0": (1, "a")}, []),
        ({1: "a", 2: "c"}, {"0.1.0": (1, "a")}, []),
        ({1: "b"}, {"0.1.0": (1, "a")}, ["0.1.0: what rows said then"]),
        ({1: "a", 2: "b", 3: "c"}, {"0.1.0": (1, "a")}, ["3: more than one"]),
    ],
)
def test_a_number_that_is_changed_after_its_release_is_noticed(known, released, said):
    found = breaches(known, released, "## 0.2.0 (unreleased)\n")

    assert [line[: len(words)] for line, words in zip(found, said, strict=True)] == said
    assert breaches({1: "a"}, {}, "## 0.1.0 (2027-01-01)\n") == ["0.1.0: its number is not here"]


def test_a_database_whose_rows_say_more_is_refused_in_one_line(sql_place):
    store = sql_place.open()
    store.driver.write([("UPDATE meta SET value = '999' WHERE key = 'format'", ())])

    known = rf"newer Rota \(rows 999, this one knows {rows.FORMAT}\)"
    with pytest.raises(Rejected, match=known) as caught:
        sql_place.reopen()

    assert "\n" not in str(caught.value)


def test_a_database_from_before_there_was_a_number_gets_one(sql_place):
    store = sql_place.open()
    store.driver.write([("DELETE FROM meta WHERE key = 'format'", ())])

    sql_place.reopen()

    with pytest.raises(Rejected, match="newer Rota"):
        _refused_by_an_older_one(sql_place)


def _refused_by_an_older_one(place):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrations, "FORMAT", rows.FORMAT - 1)
        place.reopen()
