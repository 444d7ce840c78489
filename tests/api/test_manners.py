"""What clients may expect of any server: keys, places, heads, methods, names of requests."""

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

    assert made.headers["location"] == f"/api/v1/jobs/{made.json['id']}"


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

    assert named.headers["x-request-id"] == "mine-7"
    assert refused.headers["x-request-id"] == "mine-8"
    assert len(unnamed) == 2


def reversed_fields(body: dict) -> dict:
    return dict(reversed(body.items()))
