"""Journeys that any client of the API can make, each told once, in the verbs of a ``Driver``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.journeys.box import until
from tests.journeys.two_clients import Driver, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    Journey = Callable[[Driver], None]

JOURNEYS: list[Journey] = []
SLEEP = ["sleep", "600"]


def journey(told: Journey) -> Journey:
    JOURNEYS.append(told)
    return told


def starts(drive: Driver, job: int) -> dict[str, Any]:
    """The job once it runs."""
    return until(
        lambda: (shown := drive.job(job))["state"] == "running" and shown, f"job {job} to run"
    )


def refused(drive: Driver, operation: str, body: Any = None, **given: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        drive.do(operation, body, **given)
    return caught.value


@journey
def a_job_runs_and_completes(drive: Driver) -> None:
    job = drive.submit(command=["true"], name="first")

    ended = drive.wait(job)

    assert (ended["state"], ended["exit_code"], ended["name"]) == ("completed", 0, "first")


@journey
def what_a_job_prints_can_be_read(drive: Driver) -> None:
    job = drive.submit(command="echo one; echo two; echo bad >&2")
    drive.wait(job)

    assert drive.logs(job) == "one\ntwo\n"
    assert drive.logs(job, "stderr") == "bad\n"
    assert drive.logs(job, tail=1) == "two\n"


@journey
def a_job_that_fails_says_with_what(drive: Driver) -> None:
    ended = drive.wait(drive.submit(command="exit 3"))

    assert (ended["state"], ended["exit_code"], ended["cause_code"]) == ("failed", 3, "exit")


@journey
def a_running_job_is_cancelled(drive: Driver) -> None:
    job = drive.submit(command=SLEEP, grace_s=1)
    starts(drive, job)

    drive.cancel(job)

    assert drive.wait(job)["state"] == "cancelled"


@journey
def an_array_has_elements(drive: Driver) -> None:
    array = drive.submit(command="echo $ROTA_ARRAY_INDEX", array="0-2")

    drive.wait(array)

    shown = drive.job(array)
    assert (shown["count"], shown["states"]) == (3, {"completed": 3})
    elements = drive.jobs(array=array)
    assert [drive.logs(element["id"]) for element in elements] == ["0\n", "1\n", "2\n"]


@journey
def a_sweep_fills_in_its_values(drive: Driver) -> None:
    sweep = drive.submit(
        command=["echo", "{lr}"], parameters={"names": ["lr"], "rows": [["0.1"], ["0.2"]]}
    )

    drive.wait(sweep)

    elements = drive.jobs(array=sweep)
    assert [drive.logs(element["id"]) for element in elements] == ["0.1\n", "0.2\n"]
    assert elements[1]["parameters"] == {"lr": "0.2"}


@journey
def a_job_waits_for_another_one(drive: Driver) -> None:
    first = drive.submit(command=["true"], hold=True)
    second = drive.submit(command=["true"], depends_on=[{"kind": "after-ok", "job": first}])
    drive.release(first)

    after = drive.wait(second)

    assert after["state"] == "completed"
    assert drive.job(first)["ended_at"] <= after["started_at"]


@journey
def a_job_whose_parent_fails_is_cancelled(drive: Driver) -> None:
    first = drive.submit(command=["false"])
    second = drive.submit(command=["true"], depends_on=[{"kind": "after-ok", "job": first}])

    assert drive.wait(second)["state"] == "cancelled"


@journey
def a_held_job_starts_when_it_is_released(drive: Driver) -> None:
    job = drive.submit(command=["true"], hold=True)
    held = drive.job(job)["state"]

    drive.release(job)

    assert (held, drive.wait(job)["state"]) == ("held", "completed")


@journey
def a_waiting_job_is_held(drive: Driver) -> None:
    job = drive.submit(command=["true"], begin_at="2099-01-01T00:00:00Z")

    assert drive.hold(job)["held"]
    drive.cancel(job)


@journey
def a_waiting_job_is_changed(drive: Driver) -> None:
    job = drive.submit(command=["true"], hold=True)

    changed = drive.update(job, priority=60, name="renamed", labels={"a": "b"})

    assert (changed["priority"], changed["name"], changed["labels"]) == (60, "renamed", {"a": "b"})
    drive.cancel(job)


@journey
def why_tells_what_a_job_waits_for(drive: Driver) -> None:
    job = drive.submit(command=["true"], hold=True)

    told = drive.why(job)

    assert (told["id"], told["state"]) == (job, "held")
    assert told["lines"]
    drive.cancel(job)


@journey
def a_plan_submits_nothing(drive: Driver) -> None:
    before = len(drive.jobs(name="planned"))

    plan = drive.plan(command=["true"], name="planned", resources={"cpus": 1})

    assert plan["starts"]
    assert [held["node"] for held in plan["allocations"]] == ["box"]
    assert len(drive.jobs(name="planned")) == before


@journey
def what_can_never_run_is_refused_with_its_field(drive: Driver) -> None:
    with pytest.raises(Refusal) as caught:
        drive.submit(command=["true"], resources={"cpus": 1, "gpus": 99})

    assert (caught.value.status, caught.value.code) == (400, "invalid")
    assert caught.value.field == "resources.gpus"


@journey
def several_jobs_are_submitted_and_cancelled_together(drive: Driver) -> None:
    one = {"command": SLEEP, "workdir": "/tmp", "hold": True}
    ids = drive.do("batch", {"jobs": [one, one]})["ids"]

    changed = drive.do("cancel_many", {"ids": ids})

    assert changed == {"changed": ids, "refused": []}


@journey
def a_repeat_under_a_key_makes_no_second_job(drive: Driver) -> None:
    key = f"{drive.name}-repeat"
    body = {"command": ["true"], "workdir": "/tmp"}

    first = drive.do("submit", body, idempotency_key=key)
    again = drive.do("submit", body, idempotency_key=key)
    other = refused(drive, "submit", {**body, "name": "x"}, idempotency_key=key)

    drive.wait(first["id"])
    assert first["id"] == again["id"]
    assert (other.status, other.code) == (422, "key_reused")


@journey
def a_job_is_tried_again(drive: Driver) -> None:
    job = drive.submit(command=["false"], retries=1, backoff_s=0)
    drive.wait(job)

    tries = drive.do("attempts", job_id=str(job))["items"]

    assert [(one["number"], one["exit_code"]) for one in tries] == [(1, 1), (2, 1)]


@journey
def what_happened_to_a_job_is_told_in_order(drive: Driver) -> None:
    job = drive.submit(command=["true"])
    drive.wait(job)

    events = drive.events(job)

    kinds = [event["kind"] for event in events]
    assert kinds[0] == "job-submitted"
    assert {"attempt-placed", "attempt-ended", "job-settled"} <= set(kinds)
    settled = events[kinds.index("job-settled")]
    assert settled["detail"]["outcome"]["state"] == "completed"


@journey
def figures_and_artifacts_of_a_job_are_told(drive: Driver) -> None:
    job = drive.submit(command="echo x")
    drive.wait(job)

    figures = drive.do("job_metrics", job_id=str(job))
    left = drive.do("artifacts", job_id=str(job))["items"]

    assert (figures["state"], figures["tries"]) == ("completed", 1)
    assert {one["kind"] for one in left} == {"stdout", "stderr"}


@journey
def the_request_of_a_job_makes_it_again(drive: Driver) -> None:
    job = drive.submit(command=["echo", "again"], name="again")
    drive.wait(job)

    request = drive.do("show_request", job_id=str(job))
    twin = drive.do("submit", request)["id"]

    drive.wait(twin)
    assert drive.logs(twin) == "again\n"


@journey
def jobs_are_listed_a_page_at_a_time(drive: Driver) -> None:
    label = {"page": drive.name}
    made = [drive.submit(command=["true"], hold=True, labels=label) for _ in range(3)]
    query = {"label": f"page={drive.name}", "limit": 2}

    first = drive.do("list_jobs", **query)
    second = drive.do("list_jobs", **query, cursor=first["cursor"])

    assert [job["id"] for job in first["items"] + second["items"]] == made
    assert second["cursor"] is None
    drive.do("cancel_many", {"ids": made})


@journey
def a_job_holds_a_gpu(drive: Driver) -> None:
    job = drive.submit(command=SLEEP, resources={"cpus": 1, "gpus": 1}, grace_s=1)
    starts(drive, job)

    gpus = drive.do("gpus")["items"]

    assert [gpu["jobs"] for gpu in gpus if gpu["jobs"]] == [[job]]
    drive.cancel(job)
    drive.wait(job)


@journey
def room_is_held_without_a_program(drive: Driver) -> None:
    room = drive.do("allocate", {"resources": {"cpus": 1}, "wait_s": 30})

    held = [one["id"] for one in drive.do("list_allocations")["items"]]

    assert room["id"] in held
    assert room["allocations"][0]["node"] == "box"
    drive.do("release", job_id=str(room["id"]))
    drive.wait(room["id"])


@journey
def a_group_caps_how_many_run_at_once(drive: Driver) -> None:
    name = f"{drive.name}-group"
    job = drive.submit(command=["true"], group=name, max_concurrent=1)
    drive.wait(job)

    changed = drive.do("set_group", {"max_concurrent": 2}, name=name)

    assert changed["max_concurrent"] == 2
    assert name in [one["name"] for one in drive.do("list_groups")["items"]]


@journey
def the_node_is_shown_and_labelled(drive: Driver) -> None:
    (node,) = drive.nodes()

    marked = drive.do("mark_node", {"labels": {"rack": drive.name}}, name="box")

    assert (node["name"], node["state"], node["total"]["gpus"]) == ("box", "up", 4)
    assert marked["marked_labels"]["rack"] == drive.name
    drive.do("mark_node", {"labels": {"rack": None}}, name="box")


@journey
def a_drained_node_starts_nothing_until_it_is_resumed(drive: Driver) -> None:
    drained = drive.do("drain", {"note": "memory"}, name="box")
    job = drive.submit(command=["true"])
    waits = drive.job(job)["state"]

    drive.do("resume", {}, name="box")

    assert (drained["drained"], waits) == (True, "queued")
    assert drive.wait(job)["state"] == "completed"


@journey
def a_queue_is_made_used_and_removed(drive: Driver) -> None:
    name = f"{drive.name}-queue"
    drive.do("make_queue", {"name": name, "priority": 60})
    drive.do("change_queue", {"max_running": 1}, name=name)
    job = drive.submit(command=["true"], queue=name)
    drive.wait(job)

    shown = drive.do("show_queue", name=name)
    drive.do("remove_queue", name=name)

    assert (shown["priority"], shown["max_running"]) == (60, 1)
    assert name not in [one["name"] for one in drive.do("list_queues")["items"]]
    assert refused(drive, "show_queue", name=name).status == 404


@journey
def a_project_has_a_quota(drive: Driver) -> None:
    name = f"{drive.name}-project"
    drive.do("set_project", {"shares": 2, "quota": {"hard": {"cpus": 1}}}, name=name)

    with pytest.raises(Refusal) as caught:
        drive.submit(command=["true"], project=name, resources={"cpus": 2})
    drive.do("change_project", {"quota": {"hard": {"cpus": None}}}, name=name)
    job = drive.submit(command=["true"], project=name, resources={"cpus": 2})

    assert caught.value.status in (400, 409)
    assert drive.wait(job)["state"] == "completed"
    assert drive.do("show_project", name=name)["shares"] == 2
    assert drive.do("show_quota", project_id=name)["jobs"]["used"] == 0


@journey
def a_user_has_shares(drive: Driver) -> None:
    name = f"{drive.name}-user"

    drive.do("change_user", {"shares": 3}, name=name)

    users = {one["name"]: one["shares"] for one in drive.do("list_users")["items"]}
    assert users[name] == 3
    drive.do("remove_user", name=name)
    assert drive.do("show_user", name=name)["own"] is False


@journey
def a_reservation_keeps_gpus(drive: Driver) -> None:
    wish = {"gpus": 1, "user": drive.name, "start_at": "+1h", "duration_s": 60}

    made = drive.do("add_reservation", wish)

    shown = drive.do("show_reservation", reservation_id=made["id"])
    assert (shown["owner"], shown["state"], shown["kind"]) == (drive.name, "planned", "gpus")
    drive.do("remove_reservation", reservation_id=made["id"])
    listed = [one["id"] for one in drive.do("list_reservations")["items"]]
    assert made["id"] not in listed


@journey
def a_token_is_made_and_revoked(drive: Driver) -> None:
    made = drive.do("make_token", {"user": drive.name, "note": "journey"})

    listed = {one["id"]: one for one in drive.do("list_tokens")["items"]}
    drive.do("revoke_token", token_id=made["id"])

    assert listed[made["id"]]["user"] == drive.name
    assert made["token"].startswith("rota_")
    assert made["id"] not in [one["id"] for one in drive.do("list_tokens")["items"]]


@journey
def a_secret_is_listed_without_what_is_in_it(drive: Driver) -> None:
    name = f"KEY_{drive.name.upper()}"
    drive.do("set_secret", {"value": "hidden"}, name=name)

    listed = drive.do("list_secrets")

    assert name in [one["name"] for one in listed["items"]]
    assert "hidden" not in str(listed)
    drive.do("remove_secret", name=name)


@journey
def the_rules_are_shown_and_a_change_is_tried(drive: Driver) -> None:
    rules = drive.do("show_policy")

    trial = drive.do("test_policy", {"rules": {"order.primary": "wfp3"}})

    assert trial["changes"][0]["key"] == "order.primary"
    assert drive.do("show_policy") == rules


@journey
def usage_and_statistics_count_what_ran(drive: Driver) -> None:
    job = drive.wait(drive.submit(command=["true"]))

    used = drive.do("usage", user=job["user"])
    fared = drive.do("stats", user=job["user"])

    assert used["items"][0]["attempts"] >= 1
    assert fared["total"]["states"]["completed"] >= 1


@journey
def the_state_of_rota_is_told(drive: Driver) -> None:
    status = drive.do("status")

    queue = drive.do("queue")
    pools = drive.do("list_pools")["items"]

    assert (status["nodes"], status["access"]) == (1, "admin")
    assert set(queue["bands"]) == {"high", "normal", "low"}
    assert pools[0]["nodes"] == ["box"]


@journey
def who_did_what_is_on_record(drive: Driver) -> None:
    job = drive.submit(command=["true"], hold=True)
    drive.cancel(job)

    done = drive.do("show_audit", object=f"job {job}")["items"]

    assert [one["action"] for one in done] == ["cancel", "submit"]


@journey
def what_is_not_there_is_not_found(drive: Driver) -> None:
    missing = refused(drive, "show", job_id="999999")

    assert (missing.status, missing.code) == (404, "not_found")
