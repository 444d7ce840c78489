"""Jobs that differ in their command: taken in as if each had come alone."""

import pytest

from rota.api.alike import Alike
from rota.api.requests import JobRequest, Parameters, Resources
from rota.api.submission import Desk, to_submission
from rota.core.errors import Rejected
from rota.core.tenant import Access, Actor

ANN, BEN = Actor("ann", Access.USER, "local"), Actor("ben", Access.USER, "local")
PLAIN = {"env": {"PATH": "/bin", "HOME": "/home/ann"}, "workdir": "/home/ann"}


class Store:
    """Which blobs are at hand, what time it is, and which jobs there are."""

    def __init__(self) -> None:
        self.blobs: set[str] = set()
        self.now_s = 1_800_000_000.0

    def desk(self) -> Desk:
        return Desk(self.blobs.__contains__, lambda: self.now_s, lambda text: int(text[:1]))


@pytest.fixture
def store() -> Store:
    return Store()


def taken(alike: Alike, store: Store, actor: Actor = ANN, **fields: object):
    """What comes of a request, which must be the same as without any memory."""
    request = JobRequest(**(PLAIN | fields))
    expected = to_submission(request, actor, store.desk())

    made = alike.submission(request, actor)

    assert made == expected
    store.blobs.update(made.blobs)
    return made


def test_jobs_in_a_row_are_what_they_would_be_alone(store):
    alike = Alike(store.desk())

    for number in range(3):
        taken(alike, store, command=["train", str(number)])
        taken(alike, store, command=f"train {number} | tee log", name=f"run {number}")
    taken(alike, store, command=["train", "4"], resources=Resources(cpus=2))
    taken(alike, store, command=["train", "5"], env={"PATH": "/usr/bin"})
    taken(alike, store, command=["train", "6"], stdin="words")
    taken(alike, store, command=["train", "7"], stdin="words")
    taken(alike, store, command=["train", "8"], actor=BEN)
    taken(alike, store, command=["train", "9"], actor=BEN, hold=True)
    taken(alike, store, script="#!/bin/sh\ntrue\n")
    taken(alike, store, script="#!/bin/sh\nfalse\n")
    taken(alike, store, command="x" * 120_000)
    taken(alike, store, command=["x"], array="0-9%2")
    taken(alike, store, command=["y"], array="0-9%2")
    taken(alike, store, command=["x"], parameters=Parameters(names=["A"], rows=[["1"], ["2"]]))
    taken(alike, store, command=["y"], parameters=Parameters(names=["A"], rows=[["1"], ["3"]]))
    taken(alike, store, command=["x"], parameters=Parameters(names=["A"], rows=[[1]]))
    taken(alike, store, command=["y"], parameters=Parameters(names=["A"], rows=[[1.0]]))


def test_an_environment_that_the_store_let_go_of_is_brought_again(store):
    alike = Alike(store.desk())
    first = taken(alike, store, command=["a"])
    assert taken(alike, store, command=["b"]).blobs == {}

    store.blobs.clear()

    assert taken(alike, store, command=["c"]).blobs == first.blobs != {}


def test_what_depends_on_the_hour_or_on_other_jobs_is_asked_each_time(store):
    alike = Alike(store.desk())
    first = taken(alike, store, command=["a"], begin_at="+1h")

    store.now_s += 60
    second = taken(alike, store, command=["b"], begin_at="+1h")

    assert second.spec.begin_s - first.spec.begin_s == 60


def test_a_bad_command_behind_a_good_one_is_refused_as_always(store):
    alike = Alike(store.desk())
    taken(alike, store, command=["true"])

    for field, bad in {
        "command": {"command": ""},
        "command[1]": {"command": ["echo", "a\0b"]},
        "name": {"command": ["true"], "name": "two\nlines"},
        "script": {"command": ["true"], "script": "true"},
    }.items():
        with pytest.raises(Rejected) as caught:
            alike.submission(JobRequest(**(PLAIN | bad)), ANN)
        assert caught.value.field == field
