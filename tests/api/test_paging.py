"""Every list in pages: one shape, nothing twice, nothing left out."""

from collections.abc import Callable

import pytest

from tests.api.pretended import PretendedAgent
from tests.api.running import Caller

#: Lists of which the site below has several items, and what tells these apart.
LISTS = {
    "/queues": "name",
    "/groups": "name",
    "/projects": "name",
    "/users": "name",
    "/nodes": "name",
    "/gpus": "uuid",
    "/pools": "name",
    "/clusters": "name",
    "/vdcs": "name",
    "/reservations": "id",
    "/allocations": "id",
    "/tokens": "id",
    "/secrets": "name",
    "/jobs": "id",
    "/queues:stats": "name",
    "/usage": "user",
    "/stats": "user",
    "/jobs/stats": "user",
    "/audit": "seq",
    "/gpu/availability": "type",
    "/jobs/1/events": "seq",
}


@pytest.fixture
def site(server: object, caller: Caller, make_agent: Callable[..., PretendedAgent]) -> Caller:
    """Three of everything, made out of order."""
    caller.submit()
    for name in ("c", "a", "b"):
        make_agent(name=name, gpus=2)
        caller.patch(f"/nodes/{name}", {"labels": {"pool": name, "cluster": name}})
        caller.put(f"/queues/{name}", {})
        caller.put(f"/projects/{name}", {})
        caller.put(f"/vdcs/{name}", {"clusters": [{"name": name}]})
        caller.put(f"/secrets/{name}", {"value": "x"})
        caller.post("/tokens", {"user": name})
        room = {"nodes": [name], "user": "ann", "duration_s": 60}
        caller.post("/reservations", room)
        caller.post("/reservations", room | {"start_at": "+1h"})
        job = caller.submit(group=name)
        caller.patch(f"/jobs/{job}", {"priority": 60})
    for name in ("c", "a"):
        caller.patch(f"/users/{name}", {"shares": 2})
    return caller


def walked(caller: Caller, path: str, limit: int) -> list[dict]:
    items: list[dict] = []
    cursor = ""
    while cursor is not None:
        page = caller.get(f"{path}?limit={limit}&cursor={cursor}")
        assert page.status == 200, page.body
        assert len(page.json["items"]) <= limit
        items += page.json["items"]
        cursor = page.json["cursor"]
    return items


@pytest.mark.parametrize("path", LISTS)
def test_pages_together_are_the_whole_list(site: Caller, path: str) -> None:
    whole = site.get(path).json

    pages = walked(site, path, 1)

    names = [item[LISTS[path]] for item in whole["items"]]
    assert names
    assert [item[LISTS[path]] for item in pages] == names
    assert whole["cursor"] is None


def test_what_goes_between_two_pages_hides_nothing(site: Caller) -> None:
    first = site.get("/queues?limit=2").json

    site.delete("/queues/b")
    site.put("/queues/aa", {})
    rest = site.get(f"/queues?limit=9&cursor={first['cursor']}").json

    assert [queue["name"] for queue in first["items"]] == ["a", "b"]
    assert [queue["name"] for queue in rest["items"]] == ["c", "default"]


@pytest.mark.parametrize("cursor", ["x", "e30", "MTI", "%C3%BC", "bnVsbA", "WzEsMl0"])
def test_what_is_no_cursor_is_refused_by_name(site: Caller, cursor: str) -> None:
    answer = site.get(f"/queues?limit=1&cursor={cursor}")

    assert (answer.status, answer.json["field"]) == (400, "cursor")
    assert "use cursor from the previous page" in answer.json["detail"]


#: A report is one answer, and progress is that of the jobs which are named.
WHOLE = {"/api/v1/report", "/api/v1/jobs/progress"}


def test_every_list_of_the_document_takes_limit_and_cursor(caller: Caller) -> None:
    document = caller.get("/openapi.json").json
    schemas = document["components"]["schemas"]
    lists, silent = 0, []
    for path, operations in document["paths"].items():
        content = operations.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        name = content.get("application/json", {}).get("schema", {}).get("$ref", "")
        shown = schemas.get(name.rpartition("/")[2], {}).get("properties", {})
        if "items" not in shown or operations["get"].get("deprecated") or path in WHOLE:
            continue
        lists += 1
        taken = {entry["name"] for entry in operations["get"].get("parameters", ())}
        if not ({"limit", "cursor"} <= taken and "cursor" in shown):
            silent.append(path)

    assert lists > 20
    assert silent == []
