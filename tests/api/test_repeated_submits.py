"""Jobs that differ in their command: taken in as if each had come alone."""

import pytest

from rota.api.bodies.repeated_submits import RepeatedSubmits
from rota.api.bodies.request_fields import Resources
from rota.api.bodies.requests import JobRequest, Parameters
from rota.api.bodies.submission import Desk, to_submission
from rota.core.facts.errors import Rejected
from rota.core.facts.tenant import Access, Actor

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


def taken(repeated: RepeatedSubmits, store: Store, actor: Actor = ANN, **fields: object):
    """What comes of a request; its blobs are in the store afterwards."""
    made = repeated.submission(JobRequest(**(PLAIN | fields)), actor)
    store.blobs.update(made.blobs)
    return made


#: One behind the other, each of them like or unlike the one before it in some respect.
IN_A_ROW = (
    *({"command": ["train", str(number)]} for number in range(3)),
    *({"command": f"train {number} | tee log", "name": f"run {number}"} for number in range(3)),
    {"command": ["train", "4"], "resources": Resources(cpus=2)},
    {"command": ["train", "5"], "env": {"PATH": "/usr/bin"}},
    {"command": ["train", "6"], "stdin": "words"},
    {"command": ["train", "7"], "stdin": "words"},
    {"command": ["train", "8"], "actor": BEN},
    {"command": ["train", "9"], "actor": BEN, "hold": True},
    {"script": "#!/bin/sh\ntrue\n"},
    {"script": "#!/bin/sh\nfalse\n"},
    {"command": "x" * 120_000},
    {"command": ["x"], "array": "0-9%2"},
    {"command": ["y"], "array": "0-9%2"},
    {"command": ["x"], "parameters": Parameters(names=["A"], rows=[["1"], ["2"]])},
    {"command": ["y"], "parameters": Parameters(names=["A"], rows=[["1"], ["3"]])},
    {"command": ["x"], "parameters": Parameters(names=["A"], rows=[[1]])},
    {"command": ["y"], "parameters": Parameters(names=["A"], rows=[[1.0]])},
)


def test_jobs_in_a_row_are_what_they_would_be_alone(store):
    repeated = RepeatedSubmits(store.desk())

    for asked in IN_A_ROW:
        fields = PLAIN | asked
        actor = fields.pop("actor", ANN)
        alone = to_submission(JobRequest(**fields), actor, store.desk())

        assert taken(repeated, store, **asked) == alone


def test_an_environment_that_the_store_let_go_of_is_brought_again(store):
    repeated = RepeatedSubmits(store.desk())
    first = taken(repeated, store, command=["a"])
    assert taken(repeated, store, command=["b"]).blobs == {}

    store.blobs.clear()

    assert taken(repeated, store, command=["c"]).blobs == first.blobs != {}


def test_what_jobs_in_a_row_have_in_common_is_looked_at_once(store):
    repeated = RepeatedSubmits(store.desk())

    first, second = (taken(repeated, store, command=["train", number]) for number in "12")

    assert second.spec.roles is first.spec.roles
    assert second.spec.labels is first.spec.labels


def test_what_depends_on_the_hour_or_on_other_jobs_is_asked_each_time(store):
    repeated = RepeatedSubmits(store.desk())
    first = taken(repeated, store, command=["a"], begin_at="+1h")

    store.now_s += 60
    second = taken(repeated, store, command=["b"], begin_at="+1h")

    assert second.spec.begin_s - first.spec.begin_s == 60


def test_a_bad_command_behind_a_good_one_is_refused_as_always(store):
    repeated = RepeatedSubmits(store.desk())
    taken(repeated, store, command=["true"])

    for field, bad in {
        "command": {"command": ""},
        "command[1]": {"command": ["echo", "a\0b"]},
        "name": {"command": ["true"], "name": "two\nlines"},
        "script": {"command": ["true"], "script": "true"},
    }.items():
        with pytest.raises(Rejected) as caught:
            repeated.submission(JobRequest(**(PLAIN | bad)), ANN)
        assert caught.value.field == field
