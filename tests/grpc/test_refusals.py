"""What is refused over gRPC: one clear line, with the code that a typed client acts on."""

import grpc
import pytest

from rota.api.door.front import SUBMIT_MAX
from rota.rpc import cluster_pb2 as pb
from rota.store.memory import DiskFault
from tests.grpc.typed import WAIT_S, Typed, refusal

BAD = grpc.StatusCode.INVALID_ARGUMENT


def launch(**fields: object) -> tuple[str, pb.LaunchJobRequest]:
    return "LaunchJob", pb.LaunchJobRequest(**({"command": ["true"]} | fields))


MALFORMED = {
    "no command": (*launch(command=[]), "command: is required"),
    "an empty program": (*launch(command=[""]), "command[0]: '' is not valid"),
    "a blank line": (*launch(command=[], line="  "), "command: '  ' is not valid; it is empty"),
    "a command and a line": (*launch(line="true"), "line: give either command or line"),
    "a command and a script": (*launch(script="#!/bin/sh"), "either command or script"),
    "a timeout below 0": (*launch(scheduling_timeout_seconds=-5), "scheduling_timeout_seconds: -5"),
    "a limit below 0": (*launch(time_limit_s=-1), "time_limit_s: -1 is not valid"),
    "cpus below 0": (*launch(resources=pb.Resources(cpus=-2)), "resources.cpus: -2.0"),
    "no cpus": (*launch(resources=pb.Resources(cpus=0)), "resources.cpus: 0.0"),
    "memory below 0": (*launch(resources=pb.Resources(memory_mb=-1)), "resources.memory_mb: -1"),
    "a broken number": (*launch(resources=pb.Resources(cpus=float("nan"))), "resources.cpus"),
    "a priority too high": (*launch(priority=101), "priority: 101 is not valid"),
    "a relative folder": (*launch(workdir="here"), "workdir: 'here' is not valid"),
    "gpus on a cpu": (
        *launch(resources=pb.Resources(device=pb.DEVICE_TYPE_CPU, gpus=1)),
        "resources.device: DEVICE_TYPE_CPU has no gpus",
    ),
    "an unknown device": (
        *launch(resources=pb.Resources(device=9)),  # type: ignore[arg-type]
        "resources.device: 9 is not valid; known: DEVICE_TYPE_UNSPECIFIED (0)",
    ),
    "an unknown dependency": (
        *launch(depends_on=[pb.Dependency(kind=7, job="1")]),  # type: ignore[arg-type]
        "depends_on[0].kind: 7 is not valid; known:",
    ),
    "a dependency of no kind": (*launch(depends_on=[pb.Dependency(job="1")]), "depends_on[0].kind"),
    "an unknown state": (
        "ListJobs",
        pb.ListJobsRequest(states=[3, 99]),  # type: ignore[list-item]
        "states[1]: 99 is not valid; known: JOB_STATE_UNSPECIFIED (0), JOB_STATE_PENDING (1)",
    ),
    "no state at all": ("ListJobs", pb.ListJobsRequest(states=[0]), "states: 'JOB_STATE_UNSPEC"),  # type: ignore[list-item]
    "a page below 1": ("ListJobs", pb.ListJobsRequest(limit=-1), "limit: -1 is not valid; 1 to"),
    "a cursor of one's own": ("ListJobs", pb.ListJobsRequest(cursor="x"), "cursor: 'x'"),
    "no job": ("GetJobStatus", pb.GetJobStatusRequest(), "job_id: is required"),
    "an unknown stream": (
        "FetchLogs",
        pb.FetchLogsRequest(job_id="1", stream=5),  # type: ignore[arg-type]
        "stream: 5 is not valid; known: LOG_STREAM_UNSPECIFIED (0)",
    ),
    "a tail below 0": ("FetchLogs", pb.FetchLogsRequest(job_id="1", tail=-3), "tail: -3"),
    "an unknown kind": ("WatchEvents", pb.WatchEventsRequest(kinds=["joy"]), "kinds: 'joy'"),
    "an endpoint's bad id": (
        "UnregisterEndpoint",
        pb.UnregisterEndpointRequest(endpoint_id="web"),
        "endpoint_id: 'web' is not valid; JOB.TASK.NAME",
    ),
}


@pytest.mark.parametrize(("name", "request_", "line"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_request_is_refused_with_the_field_and_the_value(ann, name, request_, line):
    code, text = refusal(ann, name, request_)

    assert code is BAD
    assert line in text
    assert not ann("ListJobs").jobs


def test_a_field_that_the_controller_does_not_know_is_refused_and_not_ignored(ann):
    newer = pb.LaunchJobRequest(command=["true"])
    newer.MergeFromString(b"\xc0\x3e\x01")  # Field number 1000, with the value 1.

    code, text = refusal(ann, "LaunchJob", newer)

    assert code is BAD
    assert "no field number 1000 in rota.cluster.v1.LaunchJobRequest" in text


def test_bytes_that_are_no_message_are_refused_in_one_line(ann):
    method = ann.channel.unary_unary("/rota.cluster.v1.ClusterService/LaunchJob")

    code, text = refusal(method, b"\xff\xff\xff", metadata=ann.metadata, timeout=WAIT_S)

    assert (code, text) == (BAD, "the request is not a rota.cluster.v1.LaunchJobRequest")


def test_a_call_that_does_not_exist_is_not_answered(ann):
    method = ann.channel.unary_unary("/rota.cluster.v1.ClusterService/DropEverything")

    code, _ = refusal(method, b"", metadata=ann.metadata, timeout=WAIT_S)

    assert code is grpc.StatusCode.UNIMPLEMENTED


def test_a_message_larger_than_a_submit_may_be_is_refused(ann):
    code, _ = refusal(ann, "LaunchJob", command=["true"], stdin="x" * (SUBMIT_MAX + 1))

    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize(
    "name", ["LaunchJob", "GetJobStatus", "ListJobs", "TerminateJob", "FetchLogs", "WatchEvents"]
)
def test_nobody_without_a_token_gets_an_answer(nobody, name):
    code, text = refusal(nobody, name)

    assert code is grpc.StatusCode.UNAUTHENTICATED
    assert "Bearer TOKEN" in text


@pytest.mark.parametrize("token", ["wrong", "rota_00000000_wrong"])
def test_a_wrong_token_is_refused_with_a_way_to_get_a_right_one(door, token):
    stranger = Typed(door.address, token)

    code, text = refusal(stranger, "ListJobs")
    stranger.close()

    assert code is grpc.StatusCode.UNAUTHENTICATED
    assert "rota token" in text


def test_a_viewer_may_look_and_may_not_launch(as_user):
    viewer = as_user("vera", "viewer")

    code, text = refusal(viewer, "LaunchJob", command=["true"])

    assert code is grpc.StatusCode.PERMISSION_DENIED
    assert "vera has the role viewer; this needs admin or operator or user" in text
    assert not viewer("ListJobs").jobs


def test_a_stranger_sees_no_command_no_logs_and_ends_nothing(ann, as_user, agent):
    job_id = ann.launch("secret", "--password=x", labels={"a": "b"})
    bob = as_user("bob")

    seen = bob.status(job_id)
    end = refusal(bob, "TerminateJob", job_id=job_id)
    look = refusal(bob, "FetchLogs", job_id=job_id)

    assert (seen.user, list(seen.command), dict(seen.labels)) == ("ann", [], {})
    assert end[0] is look[0] is grpc.StatusCode.PERMISSION_DENIED
    assert "belongs to ann" in end[1]


def test_what_does_not_exist_is_not_found(ann):
    assert refusal(ann, "GetJobStatus", job_id="77") == (
        grpc.StatusCode.NOT_FOUND,
        "there is no job 77",
    )


def test_a_job_that_has_ended_cannot_be_terminated(ann):
    job_id = ann.launch("true")
    ann("TerminateJob", job_id=job_id)

    code, text = refusal(ann, "TerminateJob", job_id=job_id)

    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert "cancelled" in text


def test_the_field_to_blame_is_told_to_programs_too(ann):
    with pytest.raises(grpc.RpcError) as refused:
        ann.launch("true", priority=101)

    trailing = dict(refused.value.trailing_metadata())
    assert trailing["rota-code"] == "invalid"
    assert trailing["rota-field"] == "priority"


def test_a_full_disk_is_unavailable_says_when_to_try_again_and_keeps_nothing(server, ann):
    server.disk.fault = DiskFault.FULL

    with pytest.raises(grpc.RpcError) as refused:
        ann.launch("true")

    server.disk.fault = None
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert float(dict(refused.value.trailing_metadata())["retry-after"]) > 0
    assert not ann("ListJobs").jobs


def test_a_bug_of_ours_is_told_by_a_number_and_nothing_else(server, ann):
    server.store.broken = True

    code, text = refusal(ann, "GetJobStatus", job_id="5")

    assert code is grpc.StatusCode.INTERNAL
    assert "quack" not in text
    assert "internal error" in text
