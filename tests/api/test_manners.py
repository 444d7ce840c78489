"""What clients may expect of any server: keys, places, heads, methods, names of requests."""

import re

import pytest

from tests.api.running import Caller, Running

JOB = {"command": ["true"], "workdir": "/tmp"}


def test_a_key_that_is_used_for_another_request_is_refused_and_nothing_is_submitted(
    caller: Caller,
) -> None:
    key = "run-1"
    first = caller.post("/jobs", JOB, Idempotency_Key=key)

    other = caller.post("/jobs", JOB | {"name": "other"}, Idempotency_Key=key)
    again = caller.post("/jobs", {**reversed_fields(JOB)}, Idempotency_Key=key)

    assert first.status == 201
    assert other.status == 422
    assert other.json["code"] == "key_reused"
    assert other.json["field"] == "Idempotency-Key"
    assert again.status == 200
    assert again.json["id"] == first.json["id"]


def test_a_key_of_a_batch_stands_for_that_batch_alone(caller: Caller) -> None:
    key = "batch-1"

    first = caller.post("/jobs:batch", {"jobs": [JOB, JOB]}, Idempotency_Key=key)
    other = caller.post("/jobs:batch", {"jobs": [JOB]}, Idempotency_Key=key)

    assert (first.status, other.status) == (201, 422)


def test_a_new_job_says_where_it_is(caller: Caller) -> None:
    made = caller.post("/jobs", JOB)

    slurm = caller.post("/slurm/sbatch", {"script": "#!/bin/sh\n", "workdir": "/tmp"})

    assert made.headers["location"] == f"/api/v1/jobs/{made.json['id']}"
    assert slurm.headers["location"] == f"/api/v1/jobs/{slurm.json['id']}"
    assert caller.get(slurm.headers["location"]).status == 200


def test_head_gives_the_headers_of_get_and_no_body(caller: Caller) -> None:
    whole = caller.call("GET", "/nodes")

    head = caller.call("HEAD", "/nodes")

    assert head.status == whole.status == 200
    assert head.body == b""
    assert head.headers["content-type"] == whole.headers["content-type"]


def test_options_tells_which_methods_a_path_has(caller: Caller) -> None:
    answer = caller.call("OPTIONS", "/jobs")

    assert answer.status == 204
    assert {"GET", "POST"} <= set(answer.headers["allow"].replace(" ", "").split(","))


def test_a_path_of_its_own_has_its_own_methods_only(caller: Caller) -> None:
    answer = caller.call("OPTIONS", "/jobs/estimate")

    assert answer.headers["allow"] == "OPTIONS, POST"


def test_what_anybody_may_read_can_only_be_read(server: Running) -> None:
    anybody = server.network()

    refused = anybody.call("PUT", "/healthz", {})
    told = anybody.call("OPTIONS", "/healthz")

    assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    assert (told.status, told.headers["allow"]) == (204, "GET, HEAD, OPTIONS")


def test_every_answer_names_its_request(caller: Caller) -> None:
    named = caller.call("GET", "/nodes", X_Request_Id="mine-7")
    refused = caller.call("GET", "/nothing", X_Request_Id="mine-8")
    unnamed = {caller.call("GET", "/nodes").headers["x-request-id"] for _ in range(2)}
    submits = [caller.post("/jobs", JOB), caller.post("/jobs", JOB, X_Request_Id="mine-9")]

    assert named.headers["x-request-id"] == "mine-7"
    assert refused.headers["x-request-id"] == "mine-8"
    assert len(unnamed) == 2
    assert len(submits[0].headers["x-request-id"]) == 16
    assert submits[1].headers["x-request-id"] == "mine-9"
    assert {one.headers["x-content-type-options"] for one in submits} == {"nosniff"}


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/docs", "/openapi.json", "/nodes"])
def test_a_head_tells_how_long_the_answer_would_be(caller: Caller, path: str) -> None:
    whole, head = caller.get(path), caller.call("HEAD", path)

    assert (head.status, head.body) == (whole.status, b"")
    assert int(head.headers["content-length"]) == len(whole.body) > 0


def test_every_route_names_its_requests_and_tells_its_methods(caller: Caller) -> None:
    paths = caller.get("/openapi.json").json["paths"]

    for path, operations in paths.items():
        place = re.sub(r"\{[^}]*\}", "1", path)
        methods = {method.upper() for method in operations if method != "parameters"}
        implied = methods | {"OPTIONS"} | ({"HEAD"} if "GET" in methods else set())
        other = next(one for one in ("PUT", "DELETE", "PATCH", "POST") if one not in methods)

        answers = [caller.call("OPTIONS", place), caller.call(other, place)]
        if "POST" in methods:
            # In one piece and in several: submits that come whole go a way of their own.
            answers.append(caller.call("POST", place, b"{"))
            answers.append(caller.call("POST", place, b"{", Connection="keep-alive, x"))

        assert [one.status for one in answers[:2]] == [204, 405], path
        for answer in answers[:2]:
            assert set(answer.headers["allow"].split(", ")) == implied, path
        for answer in answers:
            assert len(answer.headers["x-request-id"]) == 16, path
            assert answer.headers["x-content-type-options"] == "nosniff", path


def reversed_fields(body: dict) -> dict:
    return dict(reversed(body.items()))
