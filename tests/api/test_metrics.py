"""Numbers for Prometheus: documented, true of what is down, and bounded for any number of users."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from rota.api.door.request_times import route_of
from rota.api.watch.metrics import NAMED_MAX, bounded, cluster_families, write_metrics
from rota.controller.commands import commands as cmd
from rota.controller.engine import Asked
from rota.core.facts.tenant import Access, Actor, Limits, Project, Quota
from rota.rpc.measures import AttemptReading, Measured, OnDevice, Reading
from rota.testing.scene import ADMIN, BOB, Scene
from tests.api.pretended import PretendedAgent
from tests.api.running import Caller
from tests.journeys.box import until

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"\| `(rota_\w+)` \| (\w+) \|([^|]*)\|")


def scraped(caller: Caller) -> dict[str, Metric]:
    text = caller.get("/metrics").body.decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(families: dict[str, Metric], name: str, **labels: str) -> float | None:
    family = families.get(name) or families[re.sub(r"_(total|count|sum)$", "", name)]
    found = [one.value for one in family.samples if (one.name, one.labels) == (name, labels)]
    return found[0] if found else None


def documented() -> dict[str, tuple[str, list[str]]]:
    """From the table: name, kind and labels."""
    text = (ROOT / "docs/metrics.md").read_text()
    return {
        name: (kind, re.findall(r"`(\w+)`", labels)) for name, kind, labels in ROW.findall(text)
    }


def ran(caller: Caller, agent: PretendedAgent, **fields: object) -> int:
    job = caller.submit(**fields)
    uid = agent.launched(job)
    agent.report_start(uid)
    agent.report_end(uid, 0)
    caller.until(job, "completed")
    return job


def test_every_family_is_in_the_docs_and_everything_in_the_docs_exists(
    caller: Caller, agent: PretendedAgent
) -> None:
    ran(caller, agent)
    families = scraped(caller)
    shown = {
        f"{name}_total" if family.type == "counter" else name: family.type
        for name, family in families.items()
    }

    assert shown == {name: kind for name, (kind, _) in documented().items()}
    for name, (_, labels) in documented().items():
        family = families[name.removesuffix("_total")]
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(labels), name


def test_the_dashboard_asks_only_for_what_exists() -> None:
    board = json.loads((ROOT / "deploy/grafana/rota.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    known = documented()
    used: set[str] = set()

    for expression in asked:
        for name in re.findall(r"rota_\w+", expression):
            plain = re.sub(r"_(bucket|count|sum)$", "", name)
            used.add(plain)
            assert plain in known, expression
            inside = re.findall(name + r"\{([^}]*)\}", expression)
            for label in re.findall(r"(\w+)=", ",".join(inside)):
                assert label in known[plain][1], expression
    assert {"rota_gpus", "rota_gpu_use_ratio", "rota_submit_to_start_seconds"} <= used


def test_what_happens_to_jobs_is_counted_and_timed(caller: Caller, agent: PretendedAgent) -> None:
    ran(caller, agent)
    caller.get("/jobs/no-such-job")

    families = scraped(caller)

    assert value(families, "rota_submit_to_start_seconds_count", gpus="no") == 1
    assert value(families, "rota_wait_seconds_count", gpus="no") == 1
    assert value(families, "rota_decisions_total", kind="start") == 1
    assert value(families, "rota_jobs_ended_total", state="completed") == 1
    assert value(families, "rota_attempts_ended_total", cause="exit") == 1
    assert (value(families, "rota_commit_seconds_count") or 0) > 0
    assert (value(families, "rota_pass_seconds_count") or 0) > 0
    refused = {"method": "GET", "route": "jobs", "status": "4xx"}
    assert (value(families, "rota_http_request_seconds_count", **refused) or 0) > 0


def test_a_job_that_starts_and_ends_in_one_report_has_waited_too(
    caller: Caller, agent: PretendedAgent
) -> None:
    job = caller.submit()
    agent.report_end(agent.launched(job), 0)
    caller.until(job, "completed")

    assert value(scraped(caller), "rota_submit_to_start_seconds_count", gpus="no") == 1


@pytest.fixture
def measuring(
    caller: Caller, make_agent: Callable[..., PretendedAgent]
) -> tuple[PretendedAgent, str]:
    """An agent with two GPUs, one of them in a job that has it alone and uses half of it."""
    agent = make_agent(gpus=2)
    job = caller.submit(resources={"gpus": 1})
    uid = agent.launched(job)
    agent.report_start(uid)
    caller.until(job, "running")
    return agent, uid


def test_gpus_are_told_by_node_and_model_as_they_are_measured(
    caller: Caller, measuring: tuple[PretendedAgent, str]
) -> None:
    agent, uid = measuring
    readings = (Reading(0, 50.0, 700, 200.0, 60), Reading(1, 0.0, 4, 60.0, 30))
    attempt = AttemptReading(uid, gpus=(OnDevice(0, 700, 50.0),))
    where = {"node": "box", "model": "A100"}
    agent.tell(Measured(agent.session, readings, (attempt,)))

    families = until(
        lambda: (
            (seen := scraped(caller))
            and value(seen, "rota_gpu_use_ratio", **where) is not None
            and seen
        ),
        "the figures to be heard",
    )

    assert value(families, "rota_gpus", state="used", **where) == 1
    assert value(families, "rota_gpus", state="free", **where) == 1
    assert value(families, "rota_gpus_allocated", **where) == 1
    assert value(families, "rota_gpu_use_ratio", **where) == 0.25
    assert value(families, "rota_gpu_memory_used_bytes", **where) == 704 << 20
    assert value(families, "rota_gpu_power_watts", **where) == 260
    assert value(families, "rota_gpu_temperature_celsius", **where) == 60
    assert value(families, "rota_utilisation_ratio", resource="gpu") == 0.5
    assert value(families, "rota_allocation_efficiency_ratio", resource="gpu") == 0.5


def test_a_node_that_is_down_counts_as_down_and_offers_nothing(
    caller: Caller, make_agent: Callable[..., PretendedAgent]
) -> None:
    agent = make_agent(gpus=2)
    up = scraped(caller)

    agent.close()
    until(lambda: caller.get("/nodes/box").json["state"] == "down", "the node to be down")
    down = scraped(caller)

    where = {"node": "box", "model": "A100"}
    assert [value(seen, "rota_node_up", node="box") for seen in (up, down)] == [1, 0]
    assert value(up, "rota_node_cpus_free", node="box") == 4
    assert value(down, "rota_node_cpus_free", node="box") == 0
    assert value(down, "rota_gpus", state="down", **where) == 2
    assert value(down, "rota_gpus", state="free", **where) is None
    assert value(down, "rota_nodes", state="down") == 1


def test_ten_thousand_users_make_no_more_series_than_fifty_do() -> None:
    scene = Scene(nodes=1)
    for number in range(10_000):
        actor = Actor(f"user{number}", Access.USER)
        submission = scene.submission(f"j{number}", user=actor.user, project=f"p{number}", cpus=4)
        asked = Asked(1, cmd.Submit(actor=actor, submissions=(submission,)))
        scene.controller.decide(scene.now_s, [asked], calm=True)

    found = list(cluster_families(scene.cluster, scene.now_s))
    families = {
        family.name: family
        for family in text_string_to_metric_families(write_metrics(found).decode())
    }

    users = families["rota_user_jobs"].samples
    assert len(users) <= 2 * (NAMED_MAX + 1)
    assert sum(one.value for one in users if one.labels["state"] == "pending") == 10_000
    assert {one.labels["user"] for one in users} >= {"other"}
    assert max(len(family.samples) for family in families.values()) <= 2 * (NAMED_MAX + 1)


def test_the_largest_keep_their_names_and_the_sum_stays_the_same() -> None:
    values = {f"n{number:03}": float(number) for number in range(100)} | {"other": 7.0}

    found = bounded(values, 10)

    assert list(found)[:2] == ["n099", "n098"]
    assert len(found) == 11
    assert sum(found.values()) == sum(values.values())


def test_paths_that_do_not_exist_make_no_series() -> None:
    assert [route_of(path) for path in ("/api/v1/jobs/12/why", "/metrics", "/api/v1/x9", "/")] == [
        *("jobs", "metrics", "other", "other"),
    ]


def test_fair_share_is_told_by_target_use_and_what_follows_from_it() -> None:
    scene = Scene(cpus=4)
    scene.submit("job", cpus=3, time_limit_s=3600)
    scene.submit("other", cpus=1, actor=BOB, time_limit_s=3600)
    scene.pass_time(600)

    families = {family.name: family for family in cluster_families(scene.cluster, scene.now_s)}

    def told(name: str) -> dict[str, float]:
        family = families[f"rota_fairshare_{name}"]
        return {sample.labels["user"]: sample.value for sample in family.samples}

    assert told("target") == {"alice": 0.5, "bob": 0.5}
    assert told("used")["alice"] == pytest.approx(3 * told("used")["bob"])
    assert told("ratio")["alice"] == pytest.approx(told("used")["alice"] / 0.5)
    assert told("set_back_seconds")["alice"] > told("set_back_seconds")["bob"] > 0


def test_quotas_are_told_by_what_is_held_of_them() -> None:
    scene = Scene(cpus=4)
    quota = Quota(hard=Limits(cpu_milli=8000))
    scene.ask(cmd.SetProject(actor=ADMIN, project=Project("p", quota=quota)))
    scene.submit("job", cpus=2, project="p")

    families = {family.name: family for family in cluster_families(scene.cluster, scene.now_s)}

    (sample,) = families["rota_quota_used_ratio"].samples
    assert (sample.labels, sample.value) == ({"project": "p", "resource": "cpu"}, 0.25)
