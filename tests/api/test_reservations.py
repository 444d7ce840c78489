"""Reservations: what can be promised is, and what is promised already is not promised twice."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.api.pretended import PretendedAgent
from tests.api.running import Answer, Caller

DAY = "2096-03-01"


@pytest.fixture
def two_nodes(make_agent: Callable[..., PretendedAgent]) -> None:
    """Four GPUs on each of two nodes."""
    make_agent(name="box", gpus=4)
    make_agent(name="crate", gpus=4)


def book(caller: Caller, hour: int, hours: int, **fields: Any) -> Answer:
    whose = {} if {"user", "project", "maintenance"} & fields.keys() else {"user": "ada"}
    body = {"start_at": f"{DAY}T{hour:02d}:00", "duration_s": hours * 3600, **whose, **fields}
    return caller.post("/reservations", body)


def test_a_reservation_is_made_shown_listed_and_removed(caller: Caller, two_nodes: None) -> None:
    made = book(caller, 18, 4, gpus=2, gpu_type="A100", zone="Europe/Berlin", note="demo")

    number = made.json["id"]
    assert made.status == 201, made.body
    assert (made.json["start_at"], made.json["end_at"]) == (f"{DAY}T17:00:00Z", f"{DAY}T21:00:00Z")
    assert (made.json["kind"], made.json["gpus"], made.json["state"]) == ("gpus", 2, "planned")
    assert caller.get(f"/reservations/{number}").json == made.json
    assert caller.get("/reservations").json["items"] == [made.json]
    assert caller.submit() > number
    assert caller.delete(f"/reservations/{number}").status == 204
    assert caller.delete(f"/reservations/{number}").status == 404
    assert caller.get(f"/reservations/{number}").status == 404


def test_counts_hold_against_the_sum_of_what_overlaps(caller: Caller, two_nodes: None) -> None:
    book(caller, 8, 4, gpus=4)
    book(caller, 10, 4, gpus=3)

    at_the_peak = book(caller, 9, 2, gpus=2)
    beside_it = book(caller, 12, 4, gpus=5)
    afterwards = book(caller, 16, 2, gpus=8)

    assert at_the_peak.status == 409
    assert "2 cannot be promised at 2096-03-01T10:00:00Z: 1 too few" in at_the_peak.json["detail"]
    assert (beside_it.status, afterwards.status) == (201, 201)
    assert book(caller, 20, 1, gpus=9).status == 409


def test_a_node_or_an_index_is_promised_once(caller: Caller, two_nodes: None) -> None:
    assert book(caller, 8, 2, nodes=["box"]).status == 201
    assert book(caller, 8, 2, node="crate", devices=[0, 1]).status == 201

    same_node = book(caller, 9, 2, nodes=["crate", "box"], maintenance=True)
    inside = book(caller, 9, 1, node="box", devices=[3])
    same_index = book(caller, 9, 1, node="crate", devices=[1, 2], project="p")

    assert [same_node.status, inside.status, same_index.status] == [409, 409, 409]
    assert "GPU 1 of node crate is promised to ada" in same_index.json["detail"]
    assert book(caller, 10, 1, nodes=["box"], maintenance=True).status == 201


def test_what_is_promised_by_name_is_not_there_to_be_counted(
    caller: Caller, two_nodes: None
) -> None:
    book(caller, 8, 2, nodes=["box"])
    book(caller, 8, 2, node="crate", devices=[0])

    assert book(caller, 8, 2, gpus=4).status == 409
    assert book(caller, 8, 2, gpus=3).status == 201
    assert book(caller, 9, 1, nodes=["crate"], maintenance=True).status == 409


def test_an_earlier_count_makes_way_for_one_that_is_less_free(
    caller: Caller, two_nodes: None
) -> None:
    book(caller, 8, 2, gpus=4)

    first = book(caller, 8, 2, gpus=4, nodes=["box"])
    second = book(caller, 8, 2, gpus=1, nodes=["crate"])

    assert first.status == 201
    assert second.status == 409


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({}, "gpus", "give gpus, devices or nodes"),
        ({"gpus": 1, "devices": [0], "node": "box"}, "devices", "either gpus or devices"),
        ({"devices": [0]}, "node", "is required with devices"),
        ({"devices": [9], "node": "box"}, "devices", "it has 0, 1, 2, 3"),
        ({"nodes": ["shed"]}, "nodes", "known nodes: box, crate"),
        ({"node": "box"}, "node", "it needs devices"),
        ({"gpus": 1, "user": "", "project": ""}, "user", "exactly one of"),
        ({"gpus": 1, "maintenance": True}, "maintenance", "not a count"),
        ({"gpus": 1, "zone": "Mars/Base"}, "zone", "Europe/Berlin"),
        ({"gpus": 1, "start_at": "whenever"}, "start_at", "tomorrow 9:00"),
        ({"gpus": 1, "start_at": "2001-01-01T00:00"}, "start_at", "over already"),
        ({"gpus": 1, "duration_s": 0}, "duration_s", "either duration_s or end_at"),
        ({"gpus": 1, "duration_s": 99999999}, "duration_s", "a year"),
        ({"gpus": 9, "gpu_type": "H100"}, "gpus", "9 too few; not more exist"),
    ],
)
def test_what_makes_no_sense_is_told_in_a_line(
    caller: Caller, two_nodes: None, fields: dict[str, Any], field: str, words: str
) -> None:
    if "user" not in fields and "maintenance" not in fields:
        fields = {"user": "ada", **fields}

    answer = book(caller, 8, 2, **fields)

    assert answer.status in (400, 409), answer.body
    assert answer.json["field"] == field
    assert words in answer.json["detail"]


def test_a_reservation_survives_a_restart(caller: Caller, two_nodes: None, server: Any) -> None:
    book(caller, 8, 2, gpus=1)

    kept = server.store.load().reservations

    assert [reservation.device_count for reservation in kept] == [1]
