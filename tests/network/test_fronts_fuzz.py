"""The doors for people and programs, REST and gRPC, against bodies that are spoilt."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from rota.api.grpc.server import CALLS, SERVICE, GrpcServer
from rota.rpc import cluster_pb2 as pb
from tests.api.running import Caller, Running
from tests.grpc.conftest import in_loop, open_door
from tests.network.traffic import Vandal

CASES = 300
JOB: dict[str, Any] = {
    "name": "train", "command": ["python", "train.py", "--lr", "0.1"], "queue": "default",
    "priority": 60, "resources": {"cpus": 1.5, "memory_mb": 512, "gpus": 0}, "tasks": 2,
    "min_tasks": 1, "workdir": "/tmp", "env": {"A": "1"}, "time_limit_s": 60, "grace_s": 5,
    "depends_on": [], "array": "0-3%2", "retries": 2, "retry_on": [1, "node_lost"],
    "labels": {"team": "a"}, "constraints": [], "umask": 18, "ulimits": {"nofile": 100},
    "begin_at": "2030-01-01T00:00:00Z", "deadline_at": 0, "notify": {},
}  # fmt: skip
REQUESTS: dict[str, Any] = {
    "LaunchJob": pb.LaunchJobRequest(
        command=["true"], resources=pb.Resources(cpus=1, memory_mb=10), time_limit_s=9
    ),
    "ListJobs": pb.ListJobsRequest(states=[1, 2], limit=5),
    "FetchLogs": pb.FetchLogsRequest(job_id="1", tail=5),
    "GetJobStatus": pb.GetJobStatusRequest(job_id="1"),
    "TerminateJob": pb.TerminateJobRequest(job_id="99"),
}


@pytest.fixture
def no_trouble(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing that is sent is an error of ours."""
    caplog.set_level(logging.WARNING)
    yield
    assert [r for r in caplog.records if r.exc_info or r.levelno >= logging.ERROR] == []


def bodies() -> Iterator[bytes]:
    """Spoilt jobs, one by one and in batches."""
    for seed in range(CASES):
        vandal = Vandal(seed)
        spoilt = JOB
        for _ in range(vandal.chance.randrange(1, 4)):
            spoilt = vandal.spoil_value(spoilt)
        body = json.dumps(spoilt, default=repr).encode()
        yield vandal.spoil_bytes(body) if vandal.chance.random() < 0.3 else body


@pytest.mark.usefixtures("no_trouble")
def test_a_spoilt_job_over_rest_is_taken_or_refused_with_a_problem_document(caller: Caller) -> None:
    refused = 0
    for number, body in enumerate(bodies()):
        batch = number % 3 == 0
        path, sent = ("/jobs:batch", b'{"jobs": [%s]}' % body) if batch else ("/jobs", body)
        answer = caller.post(path, sent)

        if answer.status not in (200, 201):
            refused += 1
            assert answer.status in (400, 404, 409, 413), (answer.status, answer.body)
            assert answer.headers["Content-Type"] == "application/problem+json"
            assert answer.json["detail"].isprintable()

    assert refused > CASES / 2
    assert caller.submit("true")


@pytest.fixture
def door(server: Running) -> Iterator[GrpcServer]:
    opened = open_door(server)
    yield opened
    in_loop(server, opened.stop())


@pytest.mark.usefixtures("no_trouble")
def test_spoilt_bytes_over_grpc_are_refused_with_a_code_and_a_line(
    caller: Caller, door: GrpcServer
) -> None:
    token = caller.post("/tokens", {"user": "ann", "access": "user"}).json["token"]
    metadata = (("authorization", f"Bearer {token}"),)
    codes, lines = set(), []
    with grpc.insecure_channel(door.address) as channel:
        for seed in range(CASES):
            vandal = Vandal(seed)
            name = vandal.chance.choice(sorted(REQUESTS))
            body = vandal.spoil_bytes(REQUESTS[name].SerializeToString())
            kind = channel.unary_stream if CALLS[name].streams else channel.unary_unary
            call = kind(f"/{SERVICE}/{name}", None, None)
            try:
                answer = call(body, timeout=60, metadata=metadata)
                list(answer) if CALLS[name].streams else answer
            except grpc.RpcError as error:
                codes.add(error.code())
                lines.append(str(error.details()))

    assert all(line.isprintable() for line in lines)
    assert grpc.StatusCode.INVALID_ARGUMENT in codes
    code = grpc.StatusCode
    assert codes <= {code.INVALID_ARGUMENT, code.NOT_FOUND, code.FAILED_PRECONDITION}
    assert caller.submit("true")
