"""What versions of Slurm after 22.05 take and print, where programs ask for it by name."""

import json

import pytest
import yaml

from tests.slurm.cluster import Cluster


def document(cluster: Cluster, *argv: str) -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = json.loads(cluster.text(*argv))
    return found


def test_a_document_has_the_shape_of_the_version_that_is_named(cluster: Cluster) -> None:
    job = str(cluster.submit("-H", "-J", "shaped", "-t", "5"))

    usual = document(cluster, "squeue", "--json", "-j", job)["jobs"][0]
    later = document(cluster, "squeue", "--json=v0.0.41", "-j", job)["jobs"][0]

    assert (usual["job_state"], usual["time_limit"]) == ("PENDING", 5)
    assert later["job_state"] == ["PENDING"]
    assert later["time_limit"] == {"set": True, "infinite": False, "number": 5}
    assert later["node_count"] == {"set": True, "infinite": False, "number": 1}
    assert later["hold"] is True
    assert later["name"] == usual["name"] == "shaped"


def test_a_site_may_say_which_shape_is_meant_where_none_is_named(cluster: Cluster) -> None:
    job = str(cluster.submit("-H"))
    argv = ("squeue", "--json", "-j", job)

    answer = json.loads(cluster.text(*argv, env={"ROTA_SLURM_JSON": "v0.0.40"}))

    assert answer["meta"]["plugin"]["data_parser"] == "data_parser/v0.0.40"
    assert answer["jobs"][0]["job_state"] == ["PENDING"]


def test_an_unknown_shape_is_refused_with_those_that_there_are(cluster: Cluster) -> None:
    answer = cluster.run("sinfo", "--json=v9")
    listed = cluster.run("sinfo", "--json=list")

    assert answer.code == 1
    assert answer.stderr.startswith("sinfo: error: --json: 'v9' is not one of v0.0.38, v0.0.40")
    assert "data_parser/v0.0.41" in str(listed.stdout)


@pytest.mark.parametrize("version", ["v0.0.40", "v0.0.41"])
def test_a_failed_job_has_its_code_taken_apart_in_the_later_shape(
    cluster: Cluster, version: str
) -> None:
    job = cluster.submit("-t", "5")
    cluster.finish(job, code=3)

    shown = document(cluster, "scontrol", f"--json={version}", "show", "job", str(job))["jobs"][0]
    account = document(cluster, "sacct", f"--json={version}", "-j", str(job))["jobs"][0]

    failed = {"set": True, "infinite": False, "number": 3}
    assert shown["exit_code"] == account["exit_code"]
    assert shown["exit_code"]["status"] == ["ERROR"]  # type: ignore[index]
    assert shown["exit_code"]["return_code"] == failed  # type: ignore[index]
    assert account["state"] == {"current": ["FAILED"], "reason": account["state"]["reason"]}  # type: ignore[index]
    assert [step["step"]["id"] for step in account["steps"]] == [  # type: ignore[attr-defined]
        f"{job}.batch",
        f"{job}.extern",
    ]


def test_a_signal_is_named_in_the_later_shape(cluster: Cluster) -> None:
    job = cluster.submit("-t", "5")
    cluster.finish(job, signal=11)

    shown = document(cluster, "scontrol", "--json=v0.0.40", "show", "job", str(job))["jobs"][0]

    assert shown["exit_code"]["status"] == ["SIGNALED"]  # type: ignore[index]
    assert shown["exit_code"]["signal"]["id"]["number"] == 11  # type: ignore[index]


def test_nodes_partitions_and_groups_have_their_later_keys(cluster: Cluster) -> None:
    node = document(cluster, "scontrol", "--json=v0.0.40", "show", "node", "n1")["nodes"][0]
    part = document(cluster, "scontrol", "--json=v0.0.40", "show", "part")["partitions"][0]
    groups = document(cluster, "sinfo", "--json=v0.0.40")["sinfo"]

    assert node["state"] == ["IDLE"]
    assert part["name"] in node["partitions"]  # type: ignore[operator]
    assert part["partition"] == {"state": ["UP"]}
    assert part["maximums"]["time"]["infinite"] is True  # type: ignore[index]
    first = [group for group in groups if group["partition"]["name"] == part["name"]]  # type: ignore[index]
    assert sum(group["nodes"]["total"] for group in first) == 4  # type: ignore[index]


@pytest.mark.parametrize("entity", ["users", "accounts", "assoc", "qos", "cluster", "tres"])
def test_sacctmgr_shows_its_entities_as_documents(cluster: Cluster, entity: str) -> None:
    usual = document(cluster, "sacctmgr", "--json", "show", entity)
    later = document(cluster, "sacctmgr", "show", entity, "--json=v0.0.41")

    assert not usual["errors"]
    assert [key for key in usual if key not in ("meta", "errors")]
    assert later["warnings"] == []


def test_sacctmgr_shows_the_association_that_is_meant(cluster: Cluster) -> None:
    found = document(cluster, "sacctmgr", "--json", "show", "assoc", "user=root")["associations"]

    assert found
    assert {one["user"] for one in found} == {"root"}


@pytest.mark.parametrize(
    ("call", "key"),
    [
        ("scontrol ping", "pings"),
        ("scontrol show reservation", "reservations"),
        ("scontrol show licenses", "licenses"),
        ("scontrol show job", "jobs"),
        ("sdiag", "statistics"),
    ],
)
def test_what_has_a_document_has_it_as_yaml_too(cluster: Cluster, call: str, key: str) -> None:
    cluster.submit("-H")

    as_json = document(cluster, *call.split(), "--json")
    as_yaml = yaml.safe_load(cluster.text(*call.split(), "--yaml"))

    assert list(as_json) == list(as_yaml) == ["meta", "errors", key]


def test_sacct_takes_the_fields_of_later_versions_and_does_not_list_them(cluster: Cluster) -> None:
    job = cluster.submit("-t", "5", "-o", "/tmp/demo/out-%j")
    fields = "planned,plannedcpuraw,restarts,stdout,failednode,qosreq"

    text = cluster.text("sacct", "-nXP", "-j", str(job), "-o", fields)
    listed = cluster.text("sacct", "--helpformat")
    everything = cluster.text("sacct", "-XP", "-j", str(job), "-o", "ALL").splitlines()[0]

    assert text.split("|")[2:] == ["0", f"/tmp/demo/out-{job}", "", "normal\n"]
    assert "Planned" not in listed
    assert "Planned" not in everything


def test_what_each_task_gets_may_be_one_list(cluster: Cluster) -> None:
    words = ("-H", "-n2", "--tres-per-task=cpu:2,gres/gpu:1")
    job = cluster.submit(*words)

    shown = cluster.text(
        "squeue", "-h", "-j", str(job), "-O", "numcpus:|,tres-per-task:|,tres-alloc:80"
    )

    assert shown.startswith("4|cpu:2,gres/gpu:1|")
    assert "gres/gpu=2" in shown


@pytest.mark.parametrize("value", ["foo:1", "cpu", "gres/gpu:x", ""])
def test_a_list_for_tasks_that_cannot_be_read_is_refused(cluster: Cluster, value: str) -> None:
    answer = cluster.run("sbatch", f"--tres-per-task={value}", "--wrap", "true")

    assert answer.code in (1, 255)
    assert answer.stderr.count("\n") == 1


def test_short_forms_of_options_mean_what_they_meant(cluster: Cluster) -> None:
    """``--tres`` and ``--seg`` begin nothing that 22.05 has."""
    answer = cluster.run("sbatch", "--seg=2", "--wrap", "true")
    full = cluster.run("sbatch", "--segment=2", "-H", "--wrap", "true")

    assert answer.code == 255
    assert "unrecognized option" in answer.stderr
    assert full.stderr == "sbatch: warning: --segment has no effect here\n"
