"""Endpoints: where running jobs can be reached, by a name that others look up."""

import grpc
import pytest

from rota.rpc import cluster_pb2 as pb
from tests.grpc.typed import refusal


@pytest.fixture
def serving(ann, agent):
    """A job of ann's that runs: its id and the uid of its attempt."""
    job_id = ann.launch("serve")
    uid = agent.launched(int(job_id))
    agent.report_start(uid)
    ann.until(job_id, pb.JOB_STATE_RUNNING)
    return job_id, uid


def names(answer) -> list[str]:
    return [endpoint.name for endpoint in answer.endpoints]


def test_a_registered_endpoint_is_found_by_its_name_and_by_its_beginning(ann, serving):
    job_id, _ = serving
    for name in ("api/train", "api/eval", "board"):
        ann(
            "RegisterEndpoint",
            pb.RegisterEndpointRequest(
                name=name, address="10.0.0.7:8000", job_id=job_id, metadata={"proto": "http"}
            ),
        )

    (found,) = ann("LookupEndpoint", pb.LookupEndpointRequest(name="board")).endpoints

    assert (found.address, found.job_id, found.worker_id) == ("10.0.0.7:8000", job_id, "box")
    assert dict(found.metadata) == {"proto": "http"}
    assert found.registered_at_ms >= ann.status(job_id).started_at_ms
    assert names(ann("ListEndpoints", prefix="api/")) == ["api/eval", "api/train"]
    assert len(names(ann("ListEndpoints"))) == 3


def test_telling_the_same_name_again_replaces_the_address(ann, serving):
    job_id, _ = serving
    for address in ("10.0.0.7:1", "10.0.0.7:2"):
        ann("RegisterEndpoint", endpoint_of(job_id, address=address))

    (found,) = ann("ListEndpoints").endpoints

    assert found.address == "10.0.0.7:2"


def test_an_endpoint_goes_with_the_attempt_that_serves_it(ann, agent, serving):
    job_id, uid = serving
    ann("RegisterEndpoint", endpoint_of(job_id))

    agent.report_end(uid, 0)
    ann.until(job_id, pb.JOB_STATE_SUCCEEDED)

    code, text = refusal(ann, "LookupEndpoint", pb.LookupEndpointRequest(name="web"))
    assert (code, text) == (grpc.StatusCode.NOT_FOUND, "there is no endpoint web")


def test_an_endpoint_of_an_earlier_attempt_is_not_that_of_the_next(ann, agent, caller, serving):
    job_id, uid = serving
    ann("RegisterEndpoint", endpoint_of(job_id))
    caller.post("/jobs:requeue", {"ids": [int(job_id)]})
    agent.stopping(uid)
    agent.report_end(uid, 143)

    again = agent.launched(int(job_id))
    agent.report_start(again)
    ann.until(job_id, pb.JOB_STATE_RUNNING)

    assert again != uid
    assert not ann("ListEndpoints").endpoints


def test_an_endpoint_can_be_taken_back_once(ann, serving):
    job_id, _ = serving
    made = ann("RegisterEndpoint", endpoint_of(job_id))

    ann("UnregisterEndpoint", endpoint_id=made.endpoint_id)

    assert not ann("ListEndpoints").endpoints
    code, _ = refusal(ann, "UnregisterEndpoint", endpoint_id=made.endpoint_id)
    assert code is grpc.StatusCode.NOT_FOUND


def test_only_the_owner_and_operators_see_and_set_endpoints(ann, as_user, serving):
    job_id, _ = serving
    made = ann("RegisterEndpoint", endpoint_of(job_id))
    bob, operator = as_user("bob"), as_user("olga", "operator")

    assert not bob("ListEndpoints").endpoints
    assert names(operator("ListEndpoints")) == ["web"]
    for name, request in (
        ("RegisterEndpoint", endpoint_of(job_id, address="evil:1")),
        ("UnregisterEndpoint", pb.UnregisterEndpointRequest(endpoint_id=made.endpoint_id)),
    ):
        assert refusal(bob, name, request)[0] is grpc.StatusCode.PERMISSION_DENIED


def test_a_job_that_does_not_run_cannot_be_reached(ann):
    job_id = ann.launch("serve", hold=True)

    code, text = refusal(ann, "RegisterEndpoint", endpoint_of(job_id))

    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert f"task 0 of job {job_id} does not run" in text


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"name": ""}, "name: '' is not valid; it is empty"),
        ({"address": ""}, "address: '' is not valid; it is empty"),
        ({"name": "a\nb"}, "name: 'a\\nb' is not valid"),
        ({"task": -1}, "task: -1 is not valid"),
        ({"job_id": ""}, "job_id: is required"),
        ({"metadata": {"": "x"}}, "metadata: '=x' is not valid"),
    ],
)
def test_a_malformed_endpoint_is_refused_in_one_line(ann, serving, fields, line):
    code, text = refusal(ann, "RegisterEndpoint", endpoint_of(serving[0], **fields))

    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert line in text


def test_rest_and_grpc_know_the_same_endpoints(ann, caller, serving):
    job_id, _ = serving
    ann("RegisterEndpoint", endpoint_of(job_id))
    told = caller.post(f"/jobs/{job_id}/endpoints", {"name": "board", "address": "box:6006"})

    listed = caller.get("/endpoints?prefix=b").json["items"]
    caller.delete(f"/jobs/{job_id}/endpoints/web")

    assert told.status == 200, told.body
    assert [(item["name"], item["address"]) for item in listed] == [("board", "box:6006")]
    assert names(ann("ListEndpoints")) == ["board"]


def test_the_addresses_of_others_are_not_told_by_events(ann, as_user, serving):
    events = as_user("bob")("WatchEvents", job_id=serving[0], kinds=["endpoint-set"])
    events.initial_metadata()

    ann("RegisterEndpoint", endpoint_of(serving[0]))
    told = next(events)
    events.cancel()

    assert told.job_id == serving[0]
    assert "10.0.0.7" not in told.detail_json


def endpoint_of(job_id: str, /, **fields: object) -> pb.RegisterEndpointRequest:
    usual = {"name": "web", "address": "10.0.0.7:8000", "job_id": job_id}
    return pb.RegisterEndpointRequest(**(usual | fields))  # type: ignore[arg-type]
