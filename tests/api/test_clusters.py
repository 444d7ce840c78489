"""Clusters, virtual data centres and costs over REST."""

from collections.abc import Callable

import pytest

from rota.client.builder import Job
from rota.core.facts.node import NodeSpec
from tests.api.pretended import PretendedAgent
from tests.api.running import Caller
from tests.journeys.box import until

VDC = {"clusters": [{"name": "hpc", "weight": 2}, {"name": "local"}], "strategy": "weight"}
HPC = NodeSpec("h1", 4000, 8192, 1000, labels={"cluster": "hpc"}, engine="slurm-a")


@pytest.fixture
def hpc(agent: PretendedAgent, make_agent: Callable[..., PretendedAgent]) -> PretendedAgent:
    """Beside ``box``, which is local, a node of the cluster hpc."""
    return make_agent(machine=HPC)


def test_clusters_show_what_they_have_what_runs_and_what_waits_for_them(
    caller: Caller, hpc: PretendedAgent
) -> None:
    caller.submit(cluster="hpc", resources={"cpus": 3})
    hpc.launched(1)
    caller.submit(cluster="hpc", resources={"cpus": 3})
    caller.submit(resources={"cpus": 5}, scheduling_timeout_s=900)

    answer = caller.get("/clusters").json

    first, second = answer["items"]
    assert (first["name"], first["state"], first["engines"]) == ("hpc", "up", ["slurm-a"])
    assert (first["nodes"], first["ready"], first["free"]["cpus"]) == (1, 1, 1.0)
    assert (first["running"], first["waiting"], answer["unbound"]) == (1, 1, 1)
    assert (second["name"], second["running"]) == ("local", 0)
    assert caller.get("/clusters/local").json == second
    assert "did you mean hpc?" in caller.get("/clusters/hpx").json["detail"]


def test_jobs_are_found_by_their_engine_and_by_the_run_of_an_experiment(
    caller: Caller, hpc: PretendedAgent
) -> None:
    for name, fields in {
        "plain": {},
        "there": {"engine": "slurm-a"},
        "linked": {"engine": "slurm-a", "labels": {"run": "4f2a", "team": "x"}},
        "elsewhere": {"labels": {"run": "4f2a"}},
        "other": {"labels": {"run": "4f2b"}},
    }.items():
        caller.submit(name=name, hold=True, **fields)

    def names(query: str) -> list[str]:
        return [job["name"] for job in caller.get(f"/jobs?{query}").json["items"]]

    assert names("executor=slurm-a") == names("engine=slurm-a") == ["there", "linked"]
    assert names("run=4f2a") == ["linked", "elsewhere"]
    assert names("run=4f2a&executor=slurm-a&label=team") == ["linked"]
    assert names("executor=slurm-b") == []


def test_a_cluster_without_its_agents_is_waiting_and_why_says_where_to_go(
    caller: Caller, hpc: PretendedAgent
) -> None:
    hpc.close()
    until(lambda: caller.get("/clusters/hpc").json["state"] == "waiting", "the agent's leave")

    job = caller.submit(cluster="hpc")

    reason = caller.get(f"/jobs/{job}/why").json["reason"]
    assert reason.startswith("cluster hpc is waiting since ")
    assert reason.endswith("it may go to local")


def test_an_unknown_cluster_engine_or_vdc_is_refused_in_one_line(
    caller: Caller, hpc: PretendedAgent
) -> None:
    for field, value, known in (
        ("cluster", "hpd", "hpc"),
        ("engine", "slurm-b", "slurm-a"),
        ("vdc", "x", ""),
    ):
        refused = caller.post("/jobs", {"command": ["true"], field: value})
        assert refused.status == 400
        assert refused.json["field"] == field
        assert known in refused.json["detail"]


def test_a_waiting_job_is_moved_by_a_patch_and_shows_where_it_may_run(
    caller: Caller, agent: PretendedAgent, hpc: PretendedAgent
) -> None:
    caller.submit(cluster="local", resources={"cpus": 4})
    agent.launched(1)
    job = caller.submit(cluster="local", resources={"cpus": 4})

    moved = caller.patch(f"/jobs/{job}", {"cluster": "hpc"})

    assert moved.json["placement"]["cluster"] == "hpc"
    hpc.launched(job)
    assert caller.patch(f"/jobs/{job}", {"cluster": "local"}).status == 409


def test_a_virtual_data_centre_is_made_shown_changed_and_removed(
    caller: Caller, hpc: PretendedAgent
) -> None:
    made = caller.post("/vdcs", {"name": "science", **VDC, "limits": {"gpus": 2}})
    changed = caller.patch("/vdcs/science", {"strategy": "cost", "overcommit": 1.5})

    assert made.status == 201
    assert made.json["clusters"][0] == {
        "name": "hpc", "priority": 50, "weight": 2.0, "state": "up"
    }  # fmt: skip
    assert (changed.json["strategy"], changed.json["offered"]["gpus"]) == ("cost", 3.0)
    assert changed.json["limits"]["gpus"] == 2.0
    assert [vdc["name"] for vdc in caller.get("/vdcs").json["items"]] == ["science"]
    assert caller.post("/vdcs", {"name": "science", **VDC}).status == 409
    assert caller.put("/vdcs/science", VDC).json["limits"]["gpus"] is None
    assert caller.delete("/vdcs/science").status == 204
    assert caller.get("/vdcs/science").status == 404


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"clusters": []}, "clusters", ""),
        ({"clusters": [{"name": "hpx"}]}, "clusters", "did you mean hpc?"),
        ({"clusters": [{"name": "hpc"}, {"name": "hpc"}]}, "clusters", "each cluster once"),
        ({"strategy": "best"}, "strategy", "load"),
        ({"strategy": "affinity"}, "preferred", "at least one cluster"),
        ({"strategy": "affinity", "preferred": ["cloud"]}, "preferred", "known: hpc, local"),
        ({"overcommit": 0}, "overcommit", "0.1"),
        ({"limits": {"cost": 5}}, "limits", "jobs, cpus, memory_mb and gpus"),
    ],
)
def test_a_bad_virtual_data_centre_is_refused_by_its_field(
    caller: Caller, hpc: PretendedAgent, change: dict[str, object], field: str, words: str
) -> None:
    refused = caller.put("/vdcs/science", VDC | change)

    assert refused.status == 400
    assert refused.json["field"].startswith(field)
    assert words in refused.json["detail"]


def test_jobs_of_a_virtual_data_centre_go_to_its_best_cluster_and_count_in_it(
    caller: Caller, hpc: PretendedAgent
) -> None:
    caller.put("/vdcs/science", VDC)

    job = caller.submit(vdc="science")

    hpc.launched(job)
    assert caller.get("/vdcs/science").json["used"]["jobs"] == 1
    assert caller.delete("/vdcs/science").status == 409


def test_use_plans_and_estimates_tell_what_it_costs(caller: Caller, agent: PretendedAgent) -> None:
    rules = {"prices.rates": ["cpu 0.5"], "prices.currency": "EUR"}
    caller.patch("/policy", {"rules": rules})
    caller.put("/projects/vision", {"quota": {"hard": {"cost": 10}}})
    asked = {"command": ["true"], "resources": {"cpus": 4}, "time_limit_s": 7200}

    plan = caller.post("/plan", asked).json
    guess = caller.post("/jobs/estimate", asked).json
    caller.submit(project="vision", **asked)
    agent.launched(1)
    usage = caller.get("/usage").json

    assert plan["cost"] == {"per_hour": 2.0, "hours": 2.0, "cost": 4.0, "currency": "EUR"}
    assert guess == plan["cost"]
    assert caller.job(1)["attempts"][0]["price"] == 2.0
    assert usage["currency"] == "EUR"
    (budget,) = usage["budgets"]
    assert (budget["kind"], budget["name"], budget["hard"]) == ("project", "vision", 10.0)
    refused = caller.post("/jobs", {**asked, "project": "vision", "time_limit_s": 36000})
    assert refused.status == 400
    assert "project vision has 10.00 to spend" in refused.json["detail"]


def test_a_bad_rate_is_refused_and_names_the_form(caller: Caller) -> None:
    refused = caller.patch("/policy", {"rules": {"prices.rates": ["gpus 3"]}})

    assert refused.status == 400
    assert (
        "prices.rates: 'gpus 3' is not valid; a unit is one of node, gpu, cpu, mem"
        in (refused.json["detail"])
    )


def test_the_python_client_names_a_cluster_like_any_other_field(
    caller: Caller, hpc: PretendedAgent
) -> None:
    request = Job("train").command("true").cpus(1).options(cluster="hpc", engine="slurm-a")

    submitted = caller.post("/jobs", request.request())

    assert submitted.status == 201
    hpc.launched(1)
