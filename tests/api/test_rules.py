"""The rules of scheduling, projects, users, quotas, marks of nodes and use, over REST."""

from collections.abc import Callable
from typing import Any

import pytest

from rota.core.words.policy_text import ORDERINGS
from rota.core.words.presets import PRESETS
from rota.scheduling.order import orderings as order
from tests.api.pretended import PretendedAgent
from tests.api.running import Caller, Running


def test_the_words_of_the_settings_are_those_of_the_scheduler() -> None:
    assert set(ORDERINGS) == set(order.ORDERINGS)
    named = {p.order.primary for p in PRESETS.values()} | {
        p.order.secondary for p in PRESETS.values()
    }
    assert named <= set(ORDERINGS)


def test_rules_are_changed_by_key_by_table_and_by_name(caller: Caller) -> None:
    first = caller.patch("/policy", {"rules": {"order.primary": "wfp3", "share.half_life_s": "2h"}})
    second = caller.patch("/policy", {"rules": {"backfill": {"kind": "conservative"}}})
    named = caller.patch("/policy", {"policy": "fifo"})

    assert first.json["changed"] == {"order.primary": "wfp3", "share.half_life_s": 7200}
    assert second.json["rules"]["backfill"]["kind"] == "conservative"
    assert second.json["name"] == "custom"
    assert named.json["name"] == "fifo"
    assert named.json["changed"]["share.half_life_s"] == 7200
    assert caller.get("/policy").json == named.json
    assert caller.get("/jobs/scheduler/info").json["policy"] == "fifo"


def test_a_trial_says_what_would_change_and_changes_nothing(caller: Caller) -> None:
    trial = caller.post("/policy:test", {"policy": "preemptive", "rules": {"preempt.gap": 5}}).json

    assert {change["key"]: change["after"] for change in trial["changes"]} == {
        "preempt.enabled": True,
        "preempt.gap": 5,
        "preempt.grace_s": 300,
        "order.primary": "priority",
        "order.secondary": "fairshare",
        "backfill.estimates": "user",
        "backfill.shortest": False,
        "backfill.trust_s": 0,
    }
    assert caller.get("/policy").json["changed"] == {}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"rules": {"order.primry": "fifo"}}, "did you mean order.primary?"),
        ({"rules": {"order.primary": "wfp"}}, "did you mean wfp3?"),
        ({"rules": {"gang.partial": 2}}, "expected 0.01 to 1"),
        ({"rules": {"preempt.enabled": 3}}, "true or false"),
        ({"rules": {"backfill.kind": "eazy"}}, "none, easy, conservative"),
        ({"rules": {"order": 3}}, "expected a table"),
        ({"policy": "fife"}, "did you mean fifo?"),
    ],
)
def test_an_unknown_rule_or_value_is_refused_with_the_nearest(
    caller: Caller, body: dict[str, Any], words: str
) -> None:
    for answer in (caller.patch("/policy", body), caller.post("/policy:test", body)):
        assert answer.status == 400
        assert words in answer.json["detail"]
    assert caller.get("/policy").json["changed"] == {}


def test_rules_are_for_admins_and_quotas_for_operators(server: Running) -> None:
    operator, user = server.as_user("olga", "operator"), server.as_user("ada")

    assert operator.patch("/policy", {"policy": "fifo"}).status == 403
    assert user.get("/policy").status == 200
    assert operator.patch("/users/ada", {"shares": 2}).status == 200
    for method, path, body in (
        ("PATCH", "/users/ada", {"shares": 9}),
        ("PUT", "/projects/p", {}),
        ("PATCH", "/queues/quota/p", {"gpu_quota": 1}),
        ("PATCH", "/nodes/box", {"labels": {"a": "b"}}),
        ("POST", "/reservations", {}),
    ):
        assert user.call(method, path, body).status == 403, path


def test_a_project_hangs_below_one_that_exists_and_never_below_itself(caller: Caller) -> None:
    assert caller.put("/projects/vision", {"parent": "research"}).status == 400
    caller.put("/projects/research", {})
    caller.put("/projects/vision", {"parent": "research", "shares": 3})

    own = caller.patch("/projects/vision", {"parent": "vision"})
    circle = caller.patch("/projects/research", {"parent": "vision"})

    assert (own.status, circle.status) == (400, 400)
    assert "research < vision < research" in circle.json["detail"]
    assert caller.get("/projects/vision").json["parent"] == "research"


def test_a_project_with_jobs_queues_or_children_stays(caller: Caller) -> None:
    caller.put("/projects/research", {})
    caller.put("/projects/vision", {"parent": "research"})
    caller.put("/queues/night", {"project": "vision"})
    caller.submit(project="vision")

    refusals = [caller.delete("/projects/research"), caller.delete("/projects/vision")]
    caller.post("/jobs:cancel", {"all": True})
    refusals.append(caller.delete("/projects/vision"))
    caller.delete("/queues/night")

    assert [answer.status for answer in refusals] == [409, 409, 409]
    assert ["below" in refusals[0].json["detail"], "queues" in refusals[2].json["detail"]] == [
        True,
        True,
    ]
    assert caller.delete("/projects/vision").status == 204
    assert caller.delete("/projects/vision").status == 404


def test_known_projects_are_named_when_another_one_is_used(caller: Caller) -> None:
    caller.put("/projects/vision", {})
    caller.patch("/policy", {"rules": {"known_projects": True}})

    wrong = caller.post("/jobs", {"command": "true", "project": "visoin"})
    none = caller.post("/jobs", {"command": "true"})

    assert wrong.json["detail"].startswith(
        "project: there is no project visoin; did you mean vision?"
    )
    assert none.json["detail"] == "project: is required here; known projects: vision"
    assert caller.submit(project="vision")


def test_limits_are_set_one_by_one_and_taken_away_with_null(caller: Caller) -> None:
    caller.put("/projects/p", {"quota": {"hard": {"gpus": 8, "memory_mb": 1024}}})

    changed = caller.patch(
        "/projects/p",
        {
            "quota": {
                "hard": {"memory_mb": None, "gpu_hours": 12.5},
                "soft": {"gpus": 2.5},
                "types": {"training": {"jobs": 3}},
                "borrow": False,
                "period_s": 86400,
            }
        },
    ).json["quota"]

    assert (changed["hard"]["gpus"], changed["hard"]["memory_mb"]) == (8, None)
    assert (changed["hard"]["gpu_hours"], changed["soft"]["gpus"]) == (12.5, 2.5)
    assert changed["types"]["training"]["jobs"] == 3
    assert (changed["borrow"], changed["period_s"]) == (False, 86400)
    beyond = caller.patch("/projects/p", {"quota": {"soft": {"gpus": 9}}})
    assert beyond.json["detail"] == "soft.gpus: 9 is more than the hard limit (8)"
    odd = caller.patch("/projects/p", {"quota": {"types": {"game": {"jobs": 1}}}})
    assert "training, inference, workflow" in odd.json["detail"]


def test_the_older_words_set_the_same_quota(caller: Caller, agent: PretendedAgent) -> None:
    body = {"cpu_quota": 100, "memory_quota": 500, "gpu_quota": 10, "max_concurrent_jobs": 50}
    made = caller.patch("/queues/quota/p", {**body, "job_types": {"training": 5}})
    caller.submit(project="p", type="training", resources={"cpus": 2, "memory_mb": 1024})
    agent.launched(1)

    found = caller.get("/queues/quota/p").json

    assert made.status == 200, made.body
    assert found["cpu"] == {"limit": 100, "used": 2, "available": 98, "percent": 2}
    assert found["memory_gb"]["limit"] == 500
    assert found["gpu"]["limit"] == 10
    assert (found["jobs"]["used"], found["jobs"]["limit"]) == (1, 50)
    assert (found["job_types"]["training"]["used"], found["enforce_quota"]) == (1, True)
    assert caller.get("/projects/p").json["quota"]["hard"]["cpus"] == 100


def test_the_use_of_a_project_is_that_of_all_below_it_and_a_sync_says_the_same(
    caller: Caller, agent: PretendedAgent
) -> None:
    caller.patch("/queues/quota/lab", {"memory_quota": 4})
    caller.put("/projects/team", {"parent": "lab"})
    caller.submit(project="team", resources={"cpus": 2, "memory_mb": 1024})
    agent.launched(1)

    found = caller.get("/queues/quota/lab").json
    synced = caller.post("/queues/quota/lab/sync")

    assert found["memory_gb"] == {"limit": 4, "used": 1, "available": 3, "percent": 25}
    assert found["cpu"] == {"limit": None, "used": 2, "available": None, "percent": None}
    assert synced.json["memory_gb"] == found["memory_gb"]
    assert (synced.json["provider"], synced.status) == ("local", 200)
    assert found["synced_at"].endswith("Z"), "in UTC, like every moment"


def test_a_quota_that_is_switched_off_is_kept_and_holds_nobody_back(caller: Caller) -> None:
    caller.patch("/queues/quota/p", {"cpu_quota": 1})
    wish = {"command": "true", "project": "p", "resources": {"cpus": 2}}
    held_back = caller.post("/jobs", wish)

    off = caller.patch("/queues/quota/p", {"enforce_quota": False})
    let_go = caller.post("/jobs", wish)
    caller.patch("/queues/quota/p", {"enforce_quota": True})

    assert held_back.status == 400
    assert "project p may hold at most 1 CPU" in held_back.json["detail"]
    assert (off.json["enforce_quota"], off.json["cpu"]["limit"]) == (False, 1)
    assert let_go.status == 201
    assert caller.post("/jobs", wish).status == 400


def test_the_default_quota_holds_for_everybody_without_one(caller: Caller, server: Running) -> None:
    caller.patch("/users/*", {"quota": {"hard": {"queued": 2}}})
    caller.patch("/users/bob", {"quota": {"hard": {"queued": 3}}})
    ada, bob = server.as_user("ada"), server.as_user("bob")

    at_once = ada.post("/jobs", {"command": "true", "array": "0-2"})
    batch = ada.post("/jobs:batch", {"jobs": [{"command": "true"}] * 3})
    ada.post("/jobs:batch", {"jobs": [{"command": "true"}] * 2})

    assert [at_once.status, batch.status] == [409, 409]
    assert ada.post("/jobs", {"command": "true"}).status == 409
    assert bob.post("/jobs", {"command": "true", "array": "0-2"}).status == 201
    assert caller.delete("/users/bob").status == 204
    assert caller.delete("/users/bob").status == 404
    assert not caller.get("/users/bob").json["own"]


def test_users_are_listed_with_shares_and_what_they_hold(
    caller: Caller, agent: PretendedAgent, server: Running
) -> None:
    server.as_user("ada").submit(resources={"cpus": 3, "memory_mb": 512})
    agent.launched(1)
    caller.patch("/users/ada", {"shares": 5})

    everybody, ada = caller.get("/users").json["items"][:2]

    assert everybody["name"] == "*"
    assert (ada["name"], ada["shares"], ada["own"]) == ("ada", 5, True)
    amounts = {"memory_mib": 512, "memory_mb": 512}
    assert ada["used"] == {"jobs": 1, "cpus": 3, "gpus": 0, **amounts}


def test_use_is_shown_by_account_with_targets(
    caller: Caller, agent: PretendedAgent, server: Running
) -> None:
    caller.put("/projects/p", {"shares": 3})
    server.as_user("ada").submit(project="p", resources={"cpus": 2})
    agent.launched(1)

    found = caller.get("/usage?user=ada").json

    (row,) = found["items"]
    assert (row["user"], row["project"], row["now"]["cpus"]) == ("ada", "p", 2)
    (share,) = found["shares"]
    assert (share["user"], share["project"], share["shares"]) == ("ada", "p", 1)
    assert 0 < share["target"] <= 1
    assert caller.get("/usage?project=other").json["items"] == []
    assert caller.get("/usage?period_s=0").status == 400


def test_an_operator_lets_use_be_forgotten(
    caller: Caller, agent: PretendedAgent, server: Running
) -> None:
    ada = server.as_user("ada")
    job = ada.submit(resources={"cpus": 2})
    uid = agent.launched(job)
    agent.report_start(uid)
    agent.report_end(uid)
    caller.until(job, "completed")

    used = caller.get("/usage?user=ada").json["items"]
    refused = ada.post("/usage:reset", {"user": "ada"})
    done = caller.post("/usage:reset", {"user": "ada"})

    assert [row["attempts"] for row in used] == [1]
    assert refused.status == 403
    assert (done.status, done.json["items"]) == (200, [{"user": "ada", "project": ""}])
    assert caller.get("/usage?user=ada").json["items"] == []
    assert caller.post("/usage:reset", {"user": "ada"}).status == 404
    assert caller.post("/usage:reset", {"all": True}).json["items"] == []
    for body in ({}, {"all": True, "user": "ada"}):
        assert "either all, or a user" in caller.post("/usage:reset", body).json["detail"]


def test_a_node_is_labelled_and_tainted_on_top_of_what_its_agent_says(
    caller: Caller, make_agent: Callable[..., PretendedAgent]
) -> None:
    make_agent()

    marked = caller.patch(
        "/nodes/box", {"labels": {"rack": "a"}, "taints": ["team=vision", "slow:avoid"]}
    ).json
    less = caller.patch("/nodes/box", {"labels": {"rack": None}, "untaint": ["team"]}).json

    assert marked["labels"] == {"rack": "a"}
    assert marked["taints"] == ["team=vision", "slow:avoid"]
    assert (less["labels"], less["marked_taints"]) == ({}, ["slow:avoid"])
    assert caller.patch("/nodes/box", {"untaint": ["team"]}).status == 404
    assert caller.patch("/nodes/box", {"labels": {"rack": None}}).status == 404
    bad = caller.patch("/nodes/box", {"taints": ["a:never"]})
    assert "effects: no-start, avoid" in bad.json["detail"]
    assert caller.patch("/nodes/nowhere", {"labels": {"a": "b"}}).status == 404


def test_a_queue_is_changed_field_by_field(caller: Caller) -> None:
    caller.put("/queues/night", {"priority": 10, "max_per_user": 2, "preempts": False})

    changed = caller.patch("/queues/night", {"max_per_project": 4, "preemptible": False}).json

    assert (changed["priority"], changed["max_per_user"], changed["max_per_project"]) == (10, 2, 4)
    assert (changed["preempts"], changed["preemptible"]) == (False, False)
    assert caller.patch("/queues/nowhere", {"priority": 1}).status == 404


def test_a_queue_has_hours_and_says_when_they_change(caller: Caller) -> None:
    made = caller.put("/queues/never", {"hours": "mon 3:00-3:01", "zone": "Asia/Tokyo"}).json
    always = caller.patch("/queues/never", {"hours": ""}).json

    assert (made["hours"], made["zone"]) == ("mon 3:00-3:01", "Asia/Tokyo")
    assert made["turns_at"].endswith("Z")
    assert (always["open"], always["turns_at"], always["zone"]) == (True, None, "Asia/Tokyo")
    bad = caller.patch("/queues/never", {"hours": "late"})
    assert (bad.status, bad.json["field"]) == (400, "hours")
