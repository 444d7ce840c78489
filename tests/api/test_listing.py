"""Lists: pages, filters, both orders, and arrays whose elements have no rows yet."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from rota.api.views import listing
from rota.core.facts.indices import IndexSet
from tests.api.pretended import PretendedAgent
from tests.api.running import Caller, Running


def ids(page: dict) -> list[int]:
    return [item["id"] for item in page["items"]]


def every_page(caller: Caller, **query: object) -> list[int]:
    found: list[int] = []
    cursor = ""
    while True:
        page = caller.list(**query, cursor=cursor)
        found += ids(page)
        if page["cursor"] is None:
            return found
        cursor = page["cursor"]


def test_pages_follow_each_other_without_gap_or_repeat(caller: Caller) -> None:
    for _ in range(7):
        caller.submit()

    assert every_page(caller, limit=3) == [1, 2, 3, 4, 5, 6, 7]
    assert every_page(caller, limit=3, order="-id") == [7, 6, 5, 4, 3, 2, 1]


def test_elements_without_rows_take_their_place_among_jobs(caller: Caller) -> None:
    caller.submit()
    caller.submit(array="0-4")
    caller.submit()

    expected = [1, 3, 4, 5, 6, 7, 8]
    assert every_page(caller, limit=2) == expected
    assert every_page(caller, limit=2, order="-id") == expected[::-1]


def test_an_element_that_runs_is_listed_once(caller: Caller, agent: PretendedAgent) -> None:
    caller.submit(array="0-9")
    agent.report_start(agent.launched(2))
    caller.until(2, "running")

    assert every_page(caller, limit=3) == list(range(2, 12))
    assert ids(caller.list(state="running")) == [2]
    assert every_page(caller, state="queued", limit=2) == [6, 7, 8, 9, 10, 11]


def test_a_page_of_a_million_elements_looks_at_those_that_it_shows_in_both_orders(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []

    class Counted(IndexSet):
        def walk(self, start: int = 0) -> Iterator[int]:
            return (looked_at.append(one) or one for one in super().walk(start))

        def walk_back(self, start: int) -> Iterator[int]:
            return (looked_at.append(one) or one for one in super().walk_back(start))

    monkeypatch.setattr(listing, "IndexSet", Counted)
    caller.submit(array="0-999999")

    for query in ("order=id", "order=-id", "cursor=500000", "cursor=500000&order=-id"):
        looked_at.clear()
        answer = caller.get(f"/jobs?limit=100&{query}")
        assert len(answer.json["items"]) == 100
        assert len(looked_at) == 101, "one more shows that there is a next page"


def test_a_collapsed_array_is_one_item_with_its_indices(
    caller: Caller, agent: PretendedAgent
) -> None:
    caller.submit(array="0-99%3")
    agent.launched(2)

    page = caller.list(arrays="collapse")

    assert ids(page) == [1, 2, 3, 4]
    assert page["items"][0]["array_waiting"] == "3-99%3"
    assert page["items"][0]["count"] == 97
    assert page["items"][1]["array_index"] == 0


def test_a_cancelled_array_is_listed_with_its_end(caller: Caller) -> None:
    caller.submit(array="0-4")
    caller.delete("/jobs/1")

    listed = caller.list(state="cancelled")["items"]

    assert [item["id"] for item in listed] == [2, 3, 4, 5, 6]
    assert listed[0]["cause"].startswith("cancelled: by ")
    assert listed[0]["ended_at"]
    assert ids(caller.list(state="cancelled", arrays="collapse")) == [1]
    assert ids(caller.list(state="active")) == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"state": "held"}, [2]),
        ({"state": "queued,held"}, [1, 2, 4, 5]),
        ({"state": "active"}, [1, 2, 4, 5]),
        ({"state": "finished"}, []),
        ({"state": "all"}, [1, 2, 4, 5]),
        ({"name": "a"}, [1]),
        ({"project": "p"}, [2]),
        ({"label": "colour"}, [1, 4, 5]),
        ({"label": "colour=red"}, [1]),
        ({"label": "colour=blue"}, [4, 5]),
        ({"label": "colour=green"}, []),
        ({"array": 3}, [4, 5]),
        ({"ids": "1,4,9"}, [1, 4]),
        ({"ids": "3"}, [4, 5]),
        ({"ids": "3_1,2"}, [2, 5]),
        ({"user": "nobody-here"}, []),
        ({"queue": "default"}, [1, 2, 4, 5]),
    ],
)
def test_filters_look_at_rows_and_at_elements_alike(
    filtered: Caller, query: dict, expected: list[int]
) -> None:
    assert ids(filtered.list(**query)) == expected


@pytest.mark.parametrize(
    ("priority", "expected"),
    [
        ("high", [2, 3]),
        ("normal", [4]),
        ("low", [1, 6, 7]),
        ("75", [2]),
        ("20-50", [1, 4, 6, 7]),
        ("critical", []),
        ("", [1, 2, 3, 4, 6, 7]),
    ],
)
def test_jobs_are_listed_by_state_user_and_priority(
    server: Running, priority: str, expected: list[int]
) -> None:
    ada, bob = server.as_user("ada"), server.as_user("bob")
    for number in (25, 75, 70, 50):
        ada.submit(priority=number)
    ada.submit(priority="low", array="0-1")
    bob.submit(priority="high")
    ada.submit(priority="high", hold=True)

    found = bob.list(state="queued", user_id="ada", priority=priority)

    assert ids(found) == expected
    assert ids(bob.list(state="held", user_id="ada", priority="high")) == [9]


@pytest.mark.parametrize("priority", ["101", "-5", "5-", "1-2-3", "hgih", "0x5"])
def test_a_priority_that_cannot_be_meant_is_refused(caller: Caller, priority: str) -> None:
    refused = caller.get(f"/jobs?priority={quote(priority)}")

    assert (refused.status, refused.json["field"]) == (400, "priority")


@pytest.fixture
def filtered(caller: Caller) -> Caller:
    caller.submit(name="a", labels={"colour": "red"})
    caller.submit(name="b", project="p", hold=True)
    caller.submit(array="0-1", labels={"colour": "blue"})
    return caller


def test_a_label_of_somebody_else_cannot_be_guessed_by_filtering(server: Running) -> None:
    server.as_user("ada").submit(labels={"secret": "x"})

    assert ids(server.as_user("bob").list(label="secret")) == []
    assert ids(server.local().list(label="secret")) == [1]


def test_finished_jobs_are_listed_from_the_store(caller: Caller, agent: PretendedAgent) -> None:
    caller.submit()
    agent.report_end(agent.launched(1), code=3)
    caller.until(1, "failed")

    (listed,) = caller.list(state="finished")["items"]

    assert listed["exit_code"] == 3
    assert listed["cause"] == "exit: exit code 3"
    assert listed["cause_code"] == "exit"


def test_a_search_that_takes_too_long_goes_on_with_the_next_page(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "SIEVE_ROWS", 2)
    monkeypatch.setattr(listing, "SIEVE_MAX", 2)
    for _ in range(5):
        caller.submit()
    caller.submit(labels={"a": "b"})
    caller.submit(array="0-1", labels={"a": "b"})

    first = caller.list(label="a")

    assert first == {"items": [], "cursor": "2"}
    assert every_page(caller, label="a") == [6, 8, 9]
    assert every_page(caller, label="a", order="-id") == [9, 8, 6]
