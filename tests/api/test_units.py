"""Amounts under names that say their unit, beside the names that clients know."""

import pytest

from tests.api.pretended import PretendedAgent
from tests.api.running import Caller

AMOUNTS = {"memory_mib": 64, "disk_mib": 8, "gpu_memory_mib": 0}


def test_a_job_asks_in_mib_and_is_shown_under_both_names(caller: Caller) -> None:
    job = caller.submit(resources=AMOUNTS)

    shown = caller.job(job)["resources"]

    assert (shown["memory_mib"], shown["disk_mib"], shown["gpu_memory_mib"]) == (64, 8, 0)
    assert (shown["memory_mb"], shown["disk_mb"], shown["gpu_memory_mb"]) == (64, 8, 0)


def test_both_names_at_once_must_mean_the_same(caller: Caller) -> None:
    same = {"command": "true", "resources": {"memory_mib": 64, "memory_mb": 64}}
    other = {"command": "true", "resources": {"memory_mib": 64, "memory_mb": 65}}

    refused = caller.post("/jobs", other)

    assert caller.post("/jobs", same).status == 201
    assert refused.status == 400
    assert refused.json["field"] == "resources"
    assert "give memory_mib or memory_mb, one of them" in refused.json["detail"]


def test_the_name_makes_no_other_request_under_a_key(caller: Caller) -> None:
    first = caller.post(
        "/jobs", {"command": "true", "resources": {"memory_mb": 64}}, Idempotency_Key="k"
    )

    again = caller.post(
        "/jobs", {"command": "true", "resources": {"memory_mib": 64}}, Idempotency_Key="k"
    )

    assert (again.status, again.json["id"]) == (200, first.json["id"])


@pytest.mark.parametrize("name", ["memory_mib", "memory_mb"])
def test_a_change_takes_either_name(caller: Caller, name: str) -> None:
    job = caller.submit(resources={"memory_mb": 64, "cpus": 2})

    changed = caller.patch(f"/jobs/{job}", {"resources": {name: 128}}).json

    assert (changed["resources"]["memory_mib"], changed["resources"]["cpus"]) == (128, 2)


def test_a_change_of_what_resources_do_not_have_is_refused(caller: Caller) -> None:
    job = caller.submit()

    answer = caller.patch(f"/jobs/{job}", {"resources": {"memory": 128}})

    assert (answer.status, answer.json["field"]) == (400, "resources.memory")


def test_quotas_take_and_show_either_name(caller: Caller) -> None:
    caller.put("/projects/p", {"quota": {"hard": {"memory_mib": 1024}}})

    hard = caller.get("/projects/p").json["quota"]["hard"]
    cleared = caller.patch("/projects/p", {"quota": {"hard": {"memory_mib": None}}}).json

    assert (hard["memory_mib"], hard["memory_mb"]) == (1024, 1024)
    assert cleared["quota"]["hard"]["memory_mib"] is None


def test_a_pilot_takes_either_name(caller: Caller) -> None:
    made = caller.put("/pilots/p", {"kind": "slurm", "cpus": 4, "memory_mib": 512})
    changed = caller.patch("/pilots/p", {"memory_mib": 256})

    assert (made.status, made.json["memory_mib"]) == (200, 512), made.body
    assert (changed.json["memory_mib"], changed.json["memory_mb"]) == (256, 256)


def test_a_node_is_shown_under_both_names(caller: Caller, agent: PretendedAgent) -> None:
    total = caller.get("/nodes/box").json["total"]

    assert total["memory_mib"] == total["memory_mb"] == 8192
    assert total["disk_mib"] == total["disk_mb"] == 1000


def test_wherever_mb_stands_mib_stands_beside_it_and_mb_is_deprecated(caller: Caller) -> None:
    schemas = caller.get("/openapi.json").json["components"]["schemas"]
    older = {
        (name, field): shown
        for name, schema in schemas.items()
        for field, shown in schema.get("properties", {}).items()
        if field.endswith("_mb")
    }

    assert len(older) > 15
    for (name, field), shown in older.items():
        newer = field.removesuffix("_mb") + "_mib"
        assert newer in schemas[name]["properties"], (name, field)
        assert shown["deprecated"], (name, field)
