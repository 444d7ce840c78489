"""Two admins at once: what one of them changed meanwhile is not overwritten unseen."""

import pytest

from tests.api.pretended import PretendedAgent
from tests.api.running import Caller, Running

#: What is edited where, and a change that each of them takes.
EDITS = {
    "/queues/night": {"priority": 60},
    "/projects/vision": {"shares": 3},
    "/queues/quota/vision": {"gpu_quota": 2},
    "/users/ann": {"shares": 2},
    "/users/*": {"shares": 4},
    "/policy": {"rules": {"order.primary": "wfp3"}},
    "/vdcs/science": {"max_per_user": 2},
    "/nodes/box": {"labels": {"rack": "a"}},
}


@pytest.fixture
def site(caller: Caller, agent: PretendedAgent) -> Caller:
    for path, body in (("/queues/night", {}), ("/projects/vision", {})):
        assert caller.put(path, body).status == 200
    assert caller.put("/vdcs/science", {"clusters": [{"name": "local"}]}).status == 200
    return caller


def tag(caller: Caller, path: str) -> str:
    return caller.get(path).headers["etag"]


@pytest.mark.parametrize("path", EDITS)
def test_an_edit_of_what_was_changed_meanwhile_is_refused(site: Caller, path: str) -> None:
    read = tag(site, path)

    first = site.call("PATCH", path, EDITS[path], If_Match=read)
    second = site.call("PATCH", path, EDITS[path], If_Match=read)
    again = site.call("PATCH", path, EDITS[path], If_Match=tag(site, path))

    assert first.status == 200, first.body
    assert first.headers["etag"] != read
    assert (second.status, second.json["code"]) == (412, "changed")
    assert second.json["field"] == "If-Match"
    assert first.headers["etag"] in second.json["detail"]
    assert again.status == 200


def test_without_if_match_an_edit_works_as_ever(site: Caller) -> None:
    site.get("/queues/night")

    assert site.patch("/queues/night", {"priority": 70}).status == 200
    assert site.delete("/queues/night").status == 204


def test_a_removal_names_what_it_removes(site: Caller) -> None:
    read = tag(site, "/queues/night")
    site.patch("/queues/night", {"priority": 61})

    refused = site.call("DELETE", "/queues/night", If_Match=read)
    done = site.call("DELETE", "/queues/night", If_Match=tag(site, "/queues/night"))
    gone = site.call("DELETE", "/queues/night", If_Match=read)

    assert (refused.status, done.status) == (412, 204)
    assert (gone.status, gone.json["detail"]) == (
        412,
        "If-Match: queue night does not exist; read it again",
    )


def test_what_must_not_exist_yet_is_not_replaced(site: Caller) -> None:
    refused = site.call("PUT", "/queues/night", {}, If_None_Match="*")
    made = site.call("PUT", "/queues/day", {}, If_None_Match="*")

    assert (refused.status, made.status) == (412, 200)


def test_a_tag_does_not_change_with_the_jobs_of_a_queue(site: Caller) -> None:
    before = tag(site, "/queues/default")

    site.submit()

    assert site.get("/queues/default").json["total_jobs"] == 1
    assert tag(site, "/queues/default") == before


def test_a_reservation_and_a_drained_node_have_tags_too(site: Caller) -> None:
    made = site.post("/reservations", {"nodes": ["box"], "user": "ann", "duration_s": 60}).json
    read = tag(site, "/nodes/box")

    other = site.call("DELETE", f"/reservations/{made['id']}", If_Match='"another"')
    drained = site.call("POST", "/nodes/box:drain", If_Match=read)
    again = site.call("POST", "/nodes/box:resume", If_Match=read)

    assert (other.status, drained.status, again.status) == (412, 200, 412)


def test_a_caller_without_the_right_learns_nothing_of_a_tag(server: Running, site: Caller) -> None:
    answer = server.as_user("ben").call("PATCH", "/queues/night", {}, If_Match='"guess"')

    assert answer.status == 403


def test_the_document_tells_of_tags_and_conditions(caller: Caller) -> None:
    path = caller.get("/openapi.json").json["paths"]["/api/v1/nodes/{name}"]

    assert "ETag" in path["get"]["responses"]["200"]["headers"]
    assert "412" in path["patch"]["responses"]
    assert {"If-Match", "If-None-Match"} <= {p["name"] for p in path["patch"]["parameters"]}
