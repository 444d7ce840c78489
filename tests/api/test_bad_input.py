"""Whatever is sent, the answer is a problem document that names what to change."""

from typing import Any

import pytest

from tests.api.pretended import PretendedAgent
from tests.api.running import Caller, Running

GOOD: dict[str, Any] = {"command": "true"}


@pytest.mark.parametrize(
    ("body", "field", "hint"),
    [
        ({}, "command", "required"),
        ({"command": ""}, "command", "required"),
        ({"command": "  "}, "command", "empty"),
        ({"command": [""]}, "command[0]", "name of a program"),
        ({"command": ["a", "b\0c"]}, "command[1]", "NUL"),
        ({"command": "a\0b"}, "command", "NUL"),
        ({"command": [1]}, "command[0]", "text"),
        ({"command": {"a": 1}}, "command", "text or a list"),
        ({"command": ["x" * 131_072]}, "command[0]", "submit a script"),
        ({"command": "x" * 2_097_153}, "command", "at most 2097152"),
        ({"command": "true", "script": "#!/bin/sh"}, "script", "not both"),
        ({"command": "true", "script_args": ["a"]}, "script_args", "they need script"),
        ({"script": "x" * 8_388_609}, "script", "at most 8388608"),
        (GOOD | {"nam": "x"}, "nam", "did you mean name"),
        (GOOD | {"resources": {"cpu": 1}}, "resources.cpu", "did you mean cpus"),
        (GOOD | {"resources": None}, "resources", "an object"),
        (GOOD | {"resources": {"cpus": 0}}, "resources.cpus", ">= 0.001"),
        (GOOD | {"resources": {"cpus": "many"}}, "resources.cpus", "a number"),
        (GOOD | {"resources": {"memory_mb": -1}}, "resources.memory_mb", ">= 0"),
        (GOOD | {"resources": {"gpus": 1.5}}, "resources.gpus", "whole GPUs"),
        (GOOD | {"resources": {"device": "npu"}}, "resources.device", "gpu, tpu"),
        (GOOD | {"resources": {"shared": True}}, "resources.gpu_memory_mb", "how much memory"),
        (GOOD | {"name": "x" * 201}, "name", "1 to 200 printable"),
        (GOOD | {"name": "a\nb"}, "name", "printable"),
        (GOOD | {"priority": 101}, "priority", "<= 100"),
        (GOOD | {"priority": "best"}, "priority", "normal (50), low (25)"),
        (GOOD | {"queue": "nowhere"}, "queue", "known queues: default"),
        (GOOD | {"tasks": 0}, "tasks", ">= 1"),
        (GOOD | {"tasks": 2, "min_tasks": 3}, "min_tasks", "3 is more than tasks (2)"),
        (GOOD | {"tasks": 2, "nodes": 3}, "nodes", "3 is more than tasks (2)"),
        (GOOD | {"workdir": "here"}, "workdir", "absolute path"),
        (GOOD | {"env": {"A=B": "1"}}, "env", "without ="),
        (GOOD | {"env": {"A": "1\0"}}, "env.A", "NUL"),
        (GOOD | {"env": {"A": 1}}, "env", "text"),
        (GOOD | {"env": {str(n): "x" * 100_000 for n in range(25)}}, "env", "at most 2097152"),
        (GOOD | {"variables": {"": "1"}}, "variables", "a name"),
        (GOOD | {"umask": 512}, "umask", "<= 511"),
        (GOOD | {"ulimits": {"nofiles": 1}}, "ulimits", "known limits"),
        (GOOD | {"time_limit_s": -1}, "time_limit_s", ">= 0"),
        (GOOD | {"begin_at": "soon"}, "begin_at", "seconds since 1970"),
        (GOOD | {"array": "5-1"}, "array", "must rise"),
        (GOOD | {"array": "0-99999999"}, "array", "at most"),
        (GOOD | {"array": "0-1", "parameters": {"names": ["a"], "rows": [["1"]]}}, "array", "both"),
        (
            GOOD | {"parameters": {"names": ["a"], "rows": [["1", "2"]]}},
            "parameters.rows[0]",
            "expected 1 values",
        ),
        (
            GOOD | {"parameters": {"names": ["a", "a"], "rows": [["1", "2"]]}},
            "parameters.names",
            "only once",
        ),
        (GOOD | {"depends_on": [{"kind": "after-ok", "job": 99}]}, "depends_on", "there is no job"),
        (GOOD | {"depends_on": [{"kind": "when", "job": 1}]}, "depends_on[0].kind", "after-ok"),
        (GOOD | {"depends_on": [{"kind": "after-ok"}]}, "depends_on[0].job", "required"),
        (GOOD | {"restart": "maybe"}, "restart", "never, on-failure, always"),
        (GOOD | {"retry_on": ["999"]}, "retry_on", "exit code"),
        (GOOD | {"labels": {"a": "x" * 300}}, "labels", "256"),
        (GOOD | {"labels": {str(n): "" for n in range(65)}}, "labels", "at most 64"),
        (GOOD | {"max_concurrent": 2}, "max_concurrent", "group or an array"),
        ([GOOD], "body", "an object"),
    ],
)
def test_a_bad_field_is_named_with_what_is_allowed(
    caller: Caller, body: Any, field: str, hint: str
) -> None:
    answer = caller.post("/jobs", body)

    problem = answer.json
    assert answer.status in (400, 404), problem
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert problem["field"] == field
    assert hint in problem["detail"]
    assert problem["status"] == answer.status
    assert "\n" not in problem["detail"]


@pytest.mark.parametrize(
    ("path", "body", "detail"),
    [
        (
            "/jobs:cancel",
            {"ids": [*range(20_000)]},
            "ids: 20000 entries are too many; at most 10000",
        ),
        ("/jobs:batch", {"jobs": []}, "jobs: is empty; expected at least 1"),
        ("/jobs", GOOD | {"group": "x" * 300}, "group: 300 characters are too many; at most 200"),
        ("/jobs", GOOD | {"ports": ["p"] * 100}, "ports: 100 names are too many; at most"),
        (
            "/jobs",
            GOOD | {"licenses": ["matlab:1", "ansys:x"]},
            "licenses: 'ansys:x' is not valid; N",
        ),
        (
            "/jobs",
            GOOD | {"resources": {"memory": 4}},
            "resources.memory: there is no such field; did",
        ),
        (
            "/jobs",
            GOOD | {"cluster": "hpc"},
            "cluster: there is no cluster 'hpc'; there is none yet",
        ),
        (
            "/jobs",
            b'{"command": ["true"], "retries": 1e400}',
            "retries: '1e400' is not valid; expected",
        ),
        (
            "/jobs",
            b'{"command": ["true"], "time_limit_s": -1e999}',
            "time_limit_s: '-1e999' is not",
        ),
    ],
    ids=lambda given: str(given)[:40],
)
def test_a_refusal_says_in_a_line_what_was_given_and_what_is_allowed(
    caller: Caller, path: str, body: object, detail: str
) -> None:
    refused = caller.post(path, body)

    assert refused.status == 400
    assert refused.json["detail"].startswith(detail)
    assert len(refused.json["detail"]) < 200
    assert refused.json["field"] == detail.partition(":")[0]


def test_of_an_older_and_a_newer_name_the_newer_one_is_meant(caller: Caller) -> None:
    refused = caller.post("/jobs", GOOD | {"resources": {"memory": 4}})

    assert refused.json["detail"].endswith("did you mean memory_mib?")


def test_too_much_of_something_is_named_by_its_number(
    caller: Caller, agent: PretendedAgent
) -> None:
    refused = caller.post("/jobs", GOOD | {"resources": {"gpus": 99}})

    assert refused.json["value"] == 99
    assert refused.json["allowed"] == "no node has any"
    elsewhere = caller.post("/jobs", GOOD | {"node_list": ["shed"]})
    assert elsewhere.json["detail"] == "node_list: there is no node 'shed'; known nodes: box"


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        (b"", "empty"),
        (b"{", "truncated"),
        (b'{"command": "true",}', "line 1 column"),
        (b'{\n"command": tru}', "line 2 column"),
        (b'{"command": "\xff"}', "UTF-8"),
        (b"\x00\x01", "line 1 column 1"),
    ],
)
def test_a_body_that_is_not_json_is_told_where_it_breaks(
    caller: Caller, body: bytes, hint: str
) -> None:
    answer = caller.post("/jobs", body)

    assert answer.status == 400
    assert answer.json["code"] == "malformed"
    assert hint in answer.json["detail"]


@pytest.mark.parametrize("path", ["/jobs", "/jobs:batch", "/tokens", "/jobs:cancel"])
def test_half_a_pair_of_surrogates_is_given_back_as_it_was_written(
    caller: Caller, path: str
) -> None:
    field = {"/jobs": "array", "/jobs:batch": "jobs", "/tokens": "expires_s"}.get(path, "ids")

    answer = caller.post(path, b'{"%s": {"a": ["\\ud800"]}}' % field.encode())

    assert answer.status == 400
    assert answer.json["field"] == field
    assert answer.json["value"] == {"a": ["\ud800"]}


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/jobs?limit=0", "limit"),
        ("/jobs?limit=1001", "limit"),
        ("/jobs?limit=x", "limit"),
        ("/jobs?state=asleep", "state"),
        ("/jobs?stat=queued", "stat"),
        ("/jobs?order=name", "order"),
        ("/jobs?cursor=x", "cursor"),
        ("/jobs?array=-1", "array"),
        ("/jobs/wait", "ids"),
        ("/jobs/wait?ids=", "ids"),
        ("/jobs/wait?ids=1&timeout_s=-1", "timeout_s"),
        ("/events?after=-1", "after"),
    ],
)
def test_a_bad_parameter_is_named(caller: Caller, path: str, field: str) -> None:
    answer = caller.get(path)

    assert answer.status == 400
    assert answer.json["field"] == field


@pytest.mark.parametrize(
    "path", ["/nowhere", "//", "/jobs/999", "/jobs/5_3", "/jobs/abc", "/jobs/1/nowhere", "/schema"]
)
def test_what_does_not_exist_is_a_problem_document(caller: Caller, path: str) -> None:
    answer = caller.call("GET", f"/api/v1{path}")

    assert answer.status == 404
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json["code"] == "not_found"


@pytest.mark.parametrize("name", [":", "a:", ":drain", "a::"])
def test_a_colon_in_the_name_of_a_node_is_no_verb_by_itself(caller: Caller, name: str) -> None:
    for method in ("GET", "PATCH"):
        answer = caller.call(method, f"/nodes/{name}", {} if method == "PATCH" else None)

        assert (answer.status, answer.json["code"]) == (404, "not_found")


def test_a_wrong_method_names_the_right_ones(caller: Caller) -> None:
    answer = caller.delete("/jobs")

    assert answer.status == 405
    assert answer.json["code"] == "method_not_allowed"
    assert "GET" in answer.headers["Allow"]


def test_a_bug_is_an_id_here_and_a_traceback_in_the_log(
    server: Running, caller: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    server.store.broken = True

    answer = caller.get("/jobs/12")

    assert answer.status == 500
    assert "quack" not in answer.body.decode()
    name = answer.json["detail"].split(":")[0].rpartition(" ")[2]
    assert name in caplog.text
    assert "quack" in caplog.text


def test_a_body_of_a_small_route_has_a_small_limit(caller: Caller) -> None:
    answer = caller.post("/jobs:cancel", b" " * (1024 * 1024 + 1))

    assert answer.status == 413
