"""What clients change and ask with the commands, where a real Slurm was seen to do otherwise."""

import json
from datetime import UTC, datetime

import pytest
import yaml

from rota.slurm.formats.documents import as_yaml
from rota.slurm.orders.detail import detail_of
from rota.slurm.words.values import moment
from tests.slurm.cluster import Cluster

NOON_S = datetime(2026, 11, 16, 12, tzinfo=UTC).timestamp()


def held(cluster: Cluster, *argv: str) -> int:
    return cluster.submit("-H", *argv)


@pytest.mark.parametrize(("typed", "left"), [(b"n\n", True), (b"y\n", False), (b"", True)])
def test_scancel_asks_before_it_ends_a_job(typed: bytes, left: bool, cluster: Cluster) -> None:
    job = held(cluster)

    answer = cluster.run("scancel", "-i", str(job), stdin=typed)

    assert answer.code == 0
    assert (job in cluster.server.host.cluster.jobs) is left


@pytest.mark.parametrize("word", ["0", "1.x"])
def test_scancel_refuses_what_names_no_job(word: str, cluster: Cluster) -> None:
    answer = cluster.run("scancel", word)

    assert (answer.code, answer.stderr) == (1, f"scancel: error: Invalid job id {word}\n")


def test_an_update_of_one_element_leaves_the_others_as_they_are(cluster: Cluster) -> None:
    array = int(cluster.text("sbatch", "-H", "--parsable", "-a1-3", "-t5", "--wrap", "true"))

    cluster.text("scontrol", "update", f"jobid={array}_2", "timelimit=9", "comment=mine")

    shown = cluster.text("squeue", "-rh", "-o", "%i %l", "-j", str(array)).split("\n")
    assert sorted(filter(None, shown)) == [f"{array}_1 5:00", f"{array}_2 9:00", f"{array}_3 5:00"]


def test_an_update_of_gpus_nice_and_sharing_is_done(cluster: Cluster) -> None:
    job = held(cluster)

    cluster.text("scontrol", "update", f"jobid={job}", "gres=gpu:1", "nice=7", "oversubscribe=yes")

    spec = cluster.job(job).spec
    assert spec.request.device_count == 1
    assert (detail_of(spec).nice, detail_of(spec).oversubscribe) == (7, True)
    assert "TresPerNode=gres:gpu:1" in cluster.text("scontrol", "show", "job", str(job))


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("features=nofeat", "Invalid feature specification"),
        ("gres=gpu:x:y:z", "Invalid generic resource (gres) specification"),
        ("licenses=nosuch", "Invalid license specification"),
    ],
)
def test_an_update_to_what_there_is_not_is_refused(pair: str, said: str, cluster: Cluster) -> None:
    job = held(cluster)

    answer = cluster.run("scontrol", "update", f"jobid={job}", pair)

    assert (answer.code, answer.stderr) == (1, f"{said} for job {job}\n")


def test_the_value_of_an_update_may_stand_apart(cluster: Cluster) -> None:
    array = int(cluster.text("sbatch", "-H", "--parsable", "-a1-3", "--wrap", "true"))

    cluster.text("scontrol", "update", f"jobid={array}", "arraytaskthrottle", "2")

    assert cluster.server.host.cluster.arrays[array].cap == 2


@pytest.mark.parametrize(
    ("text", "past", "hour", "day"),
    [
        ("00:00", True, 0, 16),
        ("midnight", True, 0, 16),
        ("01:00", True, 1, 16),
        ("18:00", True, 18, 16),
        ("01:00", False, 1, 17),
        ("noon-tomorrow", False, 12, 17),
        ("16:30-today", False, 16, 16),
    ],
)
def test_a_time_of_the_day_is_todays_in_the_past_and_the_next_one_else(
    text: str, past: bool, hour: int, day: int
) -> None:
    found = datetime.fromtimestamp(moment(text, NOON_S + 60, UTC, past=past), UTC)

    assert (found.hour, found.day) == (hour, day)


def test_a_day_behind_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="soon"):
        moment("soon-tomorrow", NOON_S, UTC)


def test_jobs_that_ended_today_are_listed_from_midnight_on(cluster: Cluster) -> None:
    job = cluster.submit()
    cluster.finish(job)

    rows = cluster.text("sacct", "-nXP", "-S", "00:00", "-o", "jobid").split()

    assert str(job) in rows


@pytest.mark.parametrize("option", ["--users=alice", "--partitions=default", "--nodes=n1"])
def test_squeue_takes_options_in_the_plural(option: str, cluster: Cluster) -> None:
    assert cluster.run("squeue", option).code == 0


@pytest.mark.parametrize("names", ["nosuch,main", "main,nosuch"])
def test_a_list_of_partitions_with_an_unknown_one_is_refused(names: str, cluster: Cluster) -> None:
    answer = cluster.run("sbatch", "-p", names, "--wrap", "true")

    assert answer.code == 1
    assert "invalid partition specified: nosuch" in answer.stderr


def test_an_exclusive_job_has_all_cpus_of_its_node(cluster: Cluster) -> None:
    job = held(cluster, "--exclusive")

    assert cluster.job(job).spec.request.cpu_milli == 4000
    assert cluster.job(held(cluster, "--exclusive=user")).spec.request.cpu_milli == 1000


def test_hostnames_are_counted_as_slurm_counts_them(cluster: Cluster) -> None:
    shown = cluster.text("scontrol", "show", "hostnames", "a[0-1]b[0-1]c[0-1]").split()

    assert shown[:4] == ["a0b0c0", "a0b0c1", "a1b0c0", "a1b0c1"]
    assert shown[4:] == ["a0b1c0", "a0b1c1", "a1b1c0", "a1b1c1"]


def test_details_of_a_node_tell_which_gpus_are_used(cluster: Cluster) -> None:
    plain = cluster.text("scontrol", "show", "node", "n1")
    detailed = cluster.text("scontrol", "-d", "show", "node", "n1")

    assert "GresUsed" not in plain
    assert "GresDrain=N/A" in detailed
    assert "GresUsed=gpu:h200:0(IDX:N/A)" in detailed


def test_a_node_that_is_down_gives_its_jobs_back(cluster: Cluster) -> None:
    words = ("update", "nodename=n3", "reason=broken")

    cluster.text("scontrol", *words, "state=down")
    node = cluster.server.host.cluster.nodes["n3"]

    assert node.drained
    assert node.deadline_s > 0
    cluster.text("scontrol", "update", "nodename=n3", "state=resume")


def test_an_account_that_exists_is_told_on_standard_output(cluster: Cluster) -> None:
    cluster.text("sacctmgr", "-i", "add", "account", "twice")

    again = cluster.run("sacctmgr", "-i", "add", "account", "twice")

    assert (again.code, again.stdout, again.stderr) == (1, " Nothing new added.\n", "")


@pytest.mark.parametrize("name", ["a: b # c", "- x", "'q\"", "naïve ☃", "yes", "\x9b odd", "[1]"])
def test_a_document_in_yaml_gives_back_what_went_in(name: str) -> None:
    document = {"jobs": [{"name": name, "id": 3, "share": 0.5, "ok": True, name: "key"}]}

    assert yaml.safe_load(as_yaml(document)) == document


def test_squeue_in_yaml_says_what_it_says_in_json(cluster: Cluster) -> None:
    job = held(cluster, "-J", "a: b # c")

    read = yaml.safe_load(cluster.text("squeue", "--yaml", "-j", str(job)))

    same = json.loads(cluster.text("squeue", "--json", "-j", str(job)))
    assert read["jobs"][0]["name"] == same["jobs"][0]["name"] == "a: b # c"


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ({"name": "x"}, "environment must be set"),
        ({"environment": {"A": "1"}, "nmae": "x"}, 'Unknown key \\"nmae\\"'),
    ],
)
def test_a_job_of_slurmrestd_without_an_environment_or_with_an_unknown_key_is_refused(
    job: dict[str, object], said: str, cluster: Cluster
) -> None:
    body = {"script": "#!/bin/sh\ntrue\n", "job": job}

    connection = cluster.server.local().connection
    connection.request("POST", "/slurm/v0.0.38/job/submit", json.dumps(body).encode())
    answer = connection.getresponse()

    assert answer.status == 400
    assert said in answer.read().decode()


def test_elements_that_never_ran_are_known_by_the_id_of_their_array(cluster: Cluster) -> None:
    array = int(cluster.text("sbatch", "-H", "--parsable", "-a1-2", "--wrap", "true"))

    shown = cluster.text("squeue", "-rh", "-j", str(array), "-o", "%A %i").splitlines()

    assert sorted(shown) == [f"{array} {array}_1", f"{array} {array}_2"]


def test_a_singleton_is_shown_as_one(cluster: Cluster) -> None:
    held(cluster, "-J", "alone")
    second = cluster.submit("-J", "alone", "-d", "singleton")

    shown = cluster.text("squeue", "-h", "-j", str(second), "-o", "%E")

    assert shown == "singleton(unfulfilled)\n"


def test_a_job_that_waits_for_what_cannot_come_is_cancelled_by_no_person(cluster: Cluster) -> None:
    first = held(cluster)
    words = ("-d", f"afterok:{first}", "--kill-on-invalid-dep=yes")
    second = cluster.submit(*words)

    cluster.text("scancel", str(first))
    cluster.until(lambda: second not in cluster.server.host.cluster.jobs)

    shown = cluster.text("sacct", "-nXPj", str(second), "-o", "state")
    assert shown == "CANCELLED\n"


def test_only_operators_have_the_site_read_its_rules_again(cluster: Cluster) -> None:
    assert cluster.run("scontrol", "reconfigure").code == 0
    assert cluster.run("scontrol", "reconfigure", user="alice").code == 1


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("account=nosuch", "Invalid account or account/partition combination specified"),
        ("qos=nosuch", "Invalid qos specification"),
        ("reservationname=nosuch", "Requested reservation is invalid"),
        ("reqnodelist=nosuch", "Invalid node name specified"),
        ("excnodelist=n[1-", "Invalid node name specified"),
        ("requeue=x", "Requested operation is invalid"),
        ("deadline=x", "Invalid time specification"),
    ],
)
def test_an_update_that_names_what_nobody_knows_changes_nothing(
    pair: str, said: str, cluster: Cluster
) -> None:
    job = cluster.submit("-H")
    before = cluster.job(job).spec

    answer = cluster.run("scontrol", "update", f"jobid={job}", pair)

    assert (answer.code, answer.stderr) == (1, f"{said} for job {job}\n")
    assert cluster.job(job).spec == before
    cluster.text("scancel", str(job))


def test_nodes_and_the_quality_of_a_waiting_job_can_be_changed(cluster: Cluster) -> None:
    job = cluster.submit("-H")

    cluster.text("scontrol", "update", f"jobid={job}", "reqnodelist=n[2-3]", "qos=high")
    pinned = cluster.job(job).spec
    cluster.text("scontrol", "update", f"jobid={job}", "excnodelist=n1", "reqnodelist=")
    freed = cluster.job(job).spec

    assert (pinned.placement.nodes, pinned.priority) == (("n2", "n3"), 75)
    assert (freed.placement.nodes, freed.placement.exclude) == ((), ("n1",))
    cluster.text("scancel", str(job))
