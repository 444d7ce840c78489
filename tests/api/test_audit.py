"""Who did what, by which token and from where; changes with their commit, reads soon after."""

from tests.api.pretended import PretendedAgent
from tests.api.running import Caller, Running


def audit(caller: Caller, query: str = "") -> list[dict]:
    answer = caller.get(f"/audit?{query}")
    assert answer.status == 200, answer.body
    return list(answer.json["items"])


def test_a_record_names_user_token_and_address(server: Running, caller: Caller) -> None:
    made = caller.post("/tokens", {"user": "ann"}).json
    job = server.network(made["token"]).submit(hold=True)

    (record,) = audit(caller, f"object=job%20{job}")

    assert (record["user"], record["via"]) == ("ann", f"token {made['id']}")
    assert (record["address"], record["action"], record["refused"]) == ("127.0.0.1", "submit", None)


def test_a_change_is_on_record_in_the_commit_that_makes_it(server: Running, caller: Caller) -> None:
    job = caller.submit(hold=True)
    before = server.disk.commits

    caller.post("/jobs:cancel", {"ids": [job]})

    assert server.disk.commits == before + 1
    assert [r.action for r in server.disk.tables.audit][-1] == "cancel"


def test_who_is_kept_out_is_on_record_with_the_reason(server: Running, caller: Caller) -> None:
    job = server.as_user("ann").submit(hold=True)
    bob = server.as_user("bob")

    bob.post("/jobs:cancel", {"ids": [job]})
    bob.get(f"/jobs/{job}/logs")
    bob.get("/audit")

    records = audit(caller, "user=bob")
    assert [record["action"] for record in records] == ["denied", "denied", "cancel"]
    assert [record["object"] for record in records] == [
        "GET /api/v1/audit",
        f"GET /api/v1/jobs/{job}/logs",
        f"job {job}",
    ]
    assert all(record["refused"] for record in records)


def test_the_same_read_counts_once_and_costs_no_commit_of_its_own(
    server: Running, caller: Caller, agent: PretendedAgent
) -> None:
    job = caller.submit()
    agent.report_end(agent.launched(job))
    caller.until(job, "completed")
    before = server.disk.commits

    for _ in range(20):
        caller.get(f"/jobs/{job}/request")
    assert server.disk.commits == before

    reads = audit(caller, "action=request")
    assert [record["object"] for record in reads] == [f"job {job}"]


def test_rules_of_the_site_and_secrets_are_on_record_by_name_and_never_by_value(
    server: Running, caller: Caller
) -> None:
    caller.put("/queues/fast", {"priority": 60})
    caller.put("/secrets/KEY", {"value": "hu5h"})
    made = caller.post("/tokens", {"user": "ann"}).json

    records = audit(caller)

    done = [(record["action"], record["object"]) for record in records]
    assert done == [
        ("make-token", f"token {made['id']}"),
        ("set-secret", "secret KEY"),
        ("set-queue", "queue fast"),
    ]
    assert "hu5h" not in str(records)


def test_pages_go_back_to_the_first_record(caller: Caller) -> None:
    jobs = [caller.submit(hold=True) for _ in range(5)]

    first = caller.get("/audit?limit=3").json
    second = caller.get(f"/audit?limit=3&before={first['before']}").json

    shown = [record["object"] for record in first["items"] + second["items"]]
    assert shown == [f"job {job}" for job in reversed(jobs)]
    assert second["before"] is None


def test_many_jobs_at_once_are_one_record(caller: Caller) -> None:
    caller.post("/jobs:batch", {"jobs": [{"command": "true", "hold": True}] * 150})

    (record,) = audit(caller)

    assert record["object"] == "jobs 1 to 150 (150)"


def test_the_audit_is_for_admins_and_a_bad_filter_is_refused(server: Running) -> None:
    assert server.as_user("o", "operator").get("/audit").status == 403
    refused = server.local().get("/audit?since=soon")
    assert (refused.status, refused.json["field"]) == (400, "since")
