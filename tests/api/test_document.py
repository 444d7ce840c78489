"""The OpenAPI document: valid, complete, true to what the server does."""

import re
from pathlib import Path

import pytest

from rota.api.app import ROUTES
from rota.api.openapi import older
from rota.api.openapi.glossary import MEANINGS
from rota.core.facts.states import JobState, QueueState
from rota.scheduling.answers.cluster_health import ClusterHealth
from tests.api.running import Caller

_PARAMETER = re.compile(r"\{[^}]*\}")


@pytest.fixture
def document(caller: Caller) -> dict:
    return caller.get("/openapi.json").json


def test_the_document_is_openapi_31_and_knows_every_route(document: dict) -> None:
    operations = {
        operation["operationId"]
        for operations in document["paths"].values()
        for operation in operations.values()
    }

    assert document["openapi"].startswith("3.1")
    assert {route.handler_name.rpartition(".")[2] for route in ROUTES} <= operations
    assert "/api/v1/jobs:batch" in document["paths"]
    assert "/api/v1/nodes/{name}:drain" in document["paths"]


def test_every_operation_has_a_summary_errors_and_every_body_an_example(document: dict) -> None:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], (method, path)
            if path.startswith("/api/"):
                assert {"400", "401", "403"} <= set(operation["responses"]), (method, path)
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            assert body is None or "example" in body, (method, path)


def test_whatever_takes_a_body_says_that_it_may_be_too_large(document: dict) -> None:
    silent = [
        (method, path)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if "requestBody" in operation and "413" not in operation["responses"]
    ]

    assert silent == []


def test_a_body_that_may_be_left_out_is_not_called_required(document: dict, caller: Caller) -> None:
    asked = document["paths"]["/api/v1/nodes/{name}:cordon"]["post"]["requestBody"]

    answer = caller.post("/nodes/nowhere:cordon")

    assert (asked["required"], answer.status) == (False, 404)


def test_a_method_that_no_path_has_is_not_allowed(caller: Caller) -> None:
    answer = caller.call("TRACE", "/jobs")

    assert answer.status == 405
    assert "GET" in answer.json["detail"]


def test_every_reference_leads_somewhere(document: dict, caller: Caller) -> None:
    names = set(document["components"]["schemas"])
    text = caller.get("/openapi.json").body.decode()

    used = set(re.findall(r'"#/components/schemas/([^"]+)"', text))

    assert used <= names


def test_examples_of_bodies_are_taken(document: dict, caller: Caller) -> None:
    examples = {
        path: operations["post"]["requestBody"]["content"]["application/json"]["example"]
        for path, operations in document["paths"].items()
        if path in ("/api/v1/jobs", "/api/v1/jobs:batch", "/api/v1/tokens")
    }

    statuses = [caller.post(path, body).status for path, body in examples.items()]

    assert statuses == [201, 201, 201]


def test_a_token_for_an_unknown_project_is_refused_as_documented(
    caller: Caller, document: dict
) -> None:
    answer = caller.post("/tokens", {"project": "nowhere"})

    assert (answer.status, answer.json["field"]) == (404, "project")
    assert "404" in document["paths"]["/api/v1/tokens"]["post"]["responses"]


def test_the_page_for_people_needs_nothing_from_elsewhere(caller: Caller) -> None:
    answer = caller.get("/docs")

    text = answer.body.decode()
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "<script" not in text
    assert not re.search(r"(src|href)=['\"]?(https?:)?//", text)
    assert "/api/v1/jobs:batch" in text
    assert "id=not_found" in text


def test_every_property_says_what_it_means(document: dict) -> None:
    silent = [
        f"{name}.{field}"
        for name, schema in document["components"]["schemas"].items()
        for field, shown in schema.get("properties", {}).items()
        if not shown.get("description")
    ]

    assert silent == []


def test_the_glossary_explains_nothing_that_is_not_there(document: dict) -> None:
    schemas = document["components"]["schemas"]
    known = {
        text
        for name, schema in schemas.items()
        for field in schema.get("properties", {})
        for text in (field, f"{name}.{field}")
    }

    assert set(MEANINGS) - known == set()


def test_moments_and_closed_lists_are_typed(document: dict) -> None:
    schemas = document["components"]["schemas"]
    views = {name: body for name, body in schemas.items() if name.endswith("View")}
    untyped = [
        f"{name}.{field}"
        for name, schema in views.items()
        for field, shown in schema.get("properties", {}).items()
        if field.endswith("_at") and "date-time" not in str(shown)
    ]

    assert untyped == []
    assert schemas["JobState"]["enum"] == sorted(JobState)
    job = schemas["JobView"]["properties"]
    for field in ("state", "phase", "restart", "qos", "cause_code", "preempt_mode"):
        assert "$ref" in str(job[field]), field


#: Words of a closed list have these names; of the others the list stands where they come from.
CLOSED = {"state", "kind", "phase", "strategy", "decision", "qos", "restart", "preempt_mode"}
OPEN = {
    "QueueShut.state",  # until when, where a queue has hours
    "EventDetail.state",  # of a Slurm step, in the words of that step's end
}


def test_every_closed_list_is_in_the_document(document: dict) -> None:
    schemas = document["components"]["schemas"]
    plain = [
        f"{name}.{field}"
        for name, schema in schemas.items()
        for field, shown in schema.get("properties", {}).items()
        if field in CLOSED and shown.get("type") == "string" and "enum" not in shown
    ]

    assert set(plain) == OPEN
    states = set(JobState)
    assert set(words(schemas["Parent"]["properties"]["state"], schemas)) == states | {"unknown"}
    assert {"job-settled", "job-submitted"} <= set(schemas["EventKind"]["enum"])
    member = words(schemas["MemberView"]["properties"]["state"], schemas)
    assert set(member) == {*ClusterHealth, "unknown"}
    queue = words(schemas["QueueStatsView"]["properties"]["state"], schemas)
    assert set(queue) == {*QueueState, "unknown"}


def words(shown: dict, schemas: dict) -> list[str]:
    """The words of a closed list, wherever the document has them."""
    return shown.get("enum") or schemas[shown["$ref"].rpartition("/")[2]]["enum"]


def test_older_names_are_deprecated_and_name_the_newer_one(document: dict) -> None:
    paths, schemas = document["paths"], document["components"]["schemas"]
    listed = {entry["name"]: entry for entry in paths["/api/v1/jobs"]["get"]["parameters"]}

    assert paths["/api/v1/jobs/{job_id}/cancel"]["post"]["deprecated"]
    assert "`DELETE /jobs/{job_id}`" in paths["/api/v1/jobs/{job_id}/cancel"]["post"]["description"]
    assert listed["user_id"]["deprecated"]
    assert listed["user_id"]["description"] == "An older name of `user`"
    assert not listed["user"].get("deprecated")
    seconds = schemas["JobRequest"]["properties"]["scheduling_timeout_seconds"]
    assert seconds["deprecated"]


def test_no_two_shapes_have_one_name(document: dict) -> None:
    twice = [name for name in document["components"]["schemas"] if "." in name]

    assert twice == []


def test_every_path_is_in_the_reference(document: dict) -> None:
    text = (Path(__file__).parents[2] / "docs/api.md").read_text()
    written = {_PARAMETER.sub("{}", path) for path in re.findall(r"`(/[^`? ]*)", text)}

    missing = [
        path
        for path in document["paths"]
        if _PARAMETER.sub("{}", path.removeprefix("/api/v1")) not in written
    ]

    assert missing == []


def test_no_two_operations_have_one_name(document: dict) -> None:
    names = [o["operationId"] for path in document["paths"].values() for o in path.values()]

    assert sorted(names) == sorted(set(names))


def test_every_older_operation_is_there(document: dict) -> None:
    known = {o["operationId"] for path in document["paths"].values() for o in path.values()}

    assert set(older.OPERATIONS) <= known
