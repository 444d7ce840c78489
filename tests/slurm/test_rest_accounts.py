"""slurmrestd's paths that change accounts and users, and how it refuses jobs."""

import json
from typing import Any

import pytest

from tests.slurm.cluster import Cluster

DB = "/slurmdb/v0.0.38"


def called(cluster: Cluster, method: str, path: str, body: object = None) -> tuple[int, Any]:
    connection = cluster.server.local().connection
    sent = None if body is None else json.dumps(body).encode()
    connection.request(method, path, sent)
    answer = connection.getresponse()
    text = answer.read()
    return answer.status, json.loads(text) if text else {}


def test_accounts_and_users_are_made_and_shown_with_their_associations(cluster: Cluster) -> None:
    made = [
        called(cluster, "POST", f"{DB}/accounts", {"accounts": [{"name": "lab"}]}),
        called(cluster, "POST", f"{DB}/accounts", {"accounts": [{"name": "lab"}]}),
        called(cluster, "POST", f"{DB}/users", {"users": [{"name": "carol"}]}),
    ]

    _, shown = called(cluster, "GET", f"{DB}/user/carol")
    _, account = called(cluster, "GET", f"{DB}/account/lab")

    assert [(status, document["errors"]) for status, document in made] == [(200, [])] * 3
    (user,) = shown["users"]
    assert user["flags"] == []
    place = {"account": "lab", "cluster": "rota", "partition": None, "user": "carol"}
    assert place in user["associations"]
    assert place in account["accounts"][0]["associations"]


def test_an_association_limits_its_user_or_without_one_its_account(cluster: Cluster) -> None:
    called(cluster, "POST", f"{DB}/accounts", {"accounts": [{"name": "wet"}]})
    gpus = {"tres": {"total": [{"type": "gres", "name": "gpu", "count": 3}]}}
    asked = [
        {"account": "wet", "user": "dora", "cluster": "rota", "shares_raw": 5, "max": gpus},
        {"account": "wet", "user": "", "max": gpus},
    ]

    status, document = called(cluster, "POST", f"{DB}/associations", {"associations": asked})

    accounts = cluster.server.host.cluster.accounts
    assert (status, document["errors"]) == (200, [])
    assert accounts.users["dora"].shares == 5
    assert accounts.users["dora"].quota.hard.device_milli == 3000
    assert accounts.projects["wet"].quota.hard.device_milli == 3000


def test_a_quality_of_service_comes_and_goes(cluster: Cluster) -> None:
    asked = {"QOS": [{"name": "night", "priority": 7}]}

    made = called(cluster, "POST", f"{DB}/qos", asked)
    priority = cluster.server.host.cluster.queues["night"].priority
    removed = called(cluster, "DELETE", f"{DB}/qos/night")
    again = called(cluster, "DELETE", f"{DB}/qos/night")

    assert (made[0], priority) == (200, 7)
    assert (removed[0], removed[1]["removed_qos"]) == (200, ["night"])
    assert (again[0], again[1]["errors"][0]["error_number"]) == (500, 9003)


def test_an_account_and_a_user_are_removed(cluster: Cluster) -> None:
    called(cluster, "POST", f"{DB}/accounts", {"accounts": [{"name": "gone"}]})
    called(cluster, "POST", f"{DB}/users", {"users": [{"name": "erin"}]})

    account = called(cluster, "DELETE", f"{DB}/account/gone")
    user = called(cluster, "DELETE", f"{DB}/user/erin")
    unknown = called(cluster, "DELETE", f"{DB}/account/gone")

    assert account[1]["removed_associations"] == ["gone"]
    assert user[1]["removed_users"] == ["erin"]
    assert (unknown[0], unknown[1]["errors"][0]["error_number"]) == (200, 1900)


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("accounts", {"accounts": [{"nmae": "x"}]}, 'Unknown key "nmae"'),
        ("accounts", {"accounts": [{"description": "x"}]}, "Missing required field 'name'"),
        ("accounts", {"users": []}, "Query parameter not found"),
        ("associations", {"associations": [{"account": "no", "user": "x"}]}, "no account no"),
    ],
)
def test_what_makes_no_sense_is_refused_and_named(
    path: str, body: object, said: str, cluster: Cluster
) -> None:
    status, document = called(cluster, "POST", f"{DB}/{path}", body)

    assert status == 400
    assert said in document["errors"][0]["description"]


@pytest.mark.parametrize(
    ("job", "number"),
    [
        ({"partition": "nosuch"}, 2000),
        ({"account": "nosuch"}, 2045),
        ({"qos": "nosuch"}, 2066),
        ({"constraints": "nofeat"}, 2029),
        ({"memory_per_node": 99999999}, 2014),
        ({"reservation": "nosuch"}, 2053),
        ({"dependency": "afterok:x"}, 2038),
        ({"licenses": "foo:2"}, 2048),
    ],
)
def test_a_job_is_refused_with_slurms_number(
    job: dict[str, object], number: int, cluster: Cluster
) -> None:
    body = {"script": "#!/bin/sh\ntrue\n", "job": {"environment": {"A": "b"}, **job}}

    status, document = called(cluster, "POST", "/slurm/v0.0.38/job/submit", body)

    (error,) = document["errors"]
    assert status == 500
    assert error["error_code"] == number
    assert error.keys() == {"error_code", "error"}


def test_a_change_with_an_unknown_key_changes_nothing(cluster: Cluster) -> None:
    job = cluster.submit("-H", "-J", "before")

    status, document = called(
        cluster, "POST", f"/slurm/v0.0.38/job/{job}", {"name": "after", "nmae": "x"}
    )

    assert status == 400
    assert document["errors"][0]["description"] == 'Unknown key "nmae"'
    assert cluster.job(job).spec.name == "before"
