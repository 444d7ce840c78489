"""Projects and their members, and what a local user may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.journeys.box import acting_as

if TYPE_CHECKING:
    from tests.api.running import Caller, Running


def asked(caller: Caller, **fields: Any) -> tuple[int, str]:
    answer = caller.post("/jobs", {"command": "true", "hold": True, **fields})
    return answer.status, answer.json.get("detail", "")


def test_projects_are_free_names_until_the_first_one_is_made(server: Running) -> None:
    admin = server.local()

    before = asked(admin, project="anything")
    admin.put("/projects/vision", {})
    after = asked(admin, project="visoin")

    assert before[0] == 201
    assert after == (
        400,
        "project: there is no project visoin; did you mean vision? (known projects: vision)",
    )
    assert asked(admin)[0] == asked(admin, project="vision")[0] == 201


def test_only_members_charge_a_project_and_those_below_it(server: Running) -> None:
    admin, ann, bob = server.local(), server.as_user("ann"), server.as_user("bob")
    admin.put("/projects/lab", {"members": ["ann"]})
    admin.put("/projects/vision", {"parent": "lab"})
    admin.put("/projects/open", {})

    assert [asked(ann, project=name)[0] for name in ("lab", "vision", "open")] == [201] * 3
    assert asked(bob, project="open")[0] == 201
    assert asked(bob, project="vision") == (
        403,
        "project: bob is not a member of vision; an operator can change that",
    )
    assert asked(admin, project="vision")[0] == 201


def test_a_waiting_job_cannot_be_moved_into_a_project_of_others(server: Running) -> None:
    admin, bob = server.local(), server.as_user("bob")
    job = bob.post("/jobs", {"command": "true", "hold": True}).json["id"]
    admin.put("/projects/lab", {"members": ["ann"]})

    refused = bob.patch(f"/jobs/{job}", {"project": "lab"})
    admin.patch("/projects/lab", {"members": ["ann", "bob"]})

    assert refused.status == 403
    assert bob.patch(f"/jobs/{job}", {"project": "lab"}).status == 200
    assert admin.get("/projects/lab").json["members"] == ["ann", "bob"]


def test_shares_of_a_user_change_nothing_else(server: Running) -> None:
    admin = server.local()
    admin.patch("/users/*", {"quota": {"hard": {"jobs": 20}}, "shares": 2})
    admin.patch("/users/ann", {"shares": 3})
    admin.patch("/users/bob", {"quota": {"hard": {"gpus": 1}}})

    admin.patch("/users/*", {"quota": {"hard": {"jobs": 50}}, "shares": 4})

    ann, bob = (admin.get(f"/users/{name}").json for name in ("ann", "bob"))
    assert (ann["shares"], ann["quota"]["hard"]["jobs"]) == (3, 50)
    assert (bob["shares"], bob["quota"]["hard"]["jobs"]) == (4, 20)


@pytest.mark.root
def test_a_local_user_has_the_role_on_record(server: Running) -> None:
    admin = server.local()
    with acting_as("nobody"):
        nobody = server.local()
        nobody.get("/status")

    before = nobody.get("/status").json["access"], nobody.put("/queues/fast", {}).status
    made = admin.patch("/users/nobody", {"role": "operator"}).json["role"]
    after = nobody.get("/status").json["access"], nobody.put("/queues/fast", {}).status

    assert (before, made, after) == (("user", 403), "operator", ("operator", 200))


def test_only_admins_give_roles(server: Running) -> None:
    operator = server.as_user("ann", "operator")

    refused = operator.patch("/users/ann", {"role": "admin"})

    assert (refused.status, refused.json["code"]) == (403, "forbidden")
    assert operator.patch("/users/ann", {"shares": 2}).status == 200
