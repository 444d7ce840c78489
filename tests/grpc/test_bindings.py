"""One definition: the bindings are those of today's file, and its numbers stay what they are."""

import os
import subprocess
import sys

import pytest

from rota.api.grpc.reading import WIRE_STATES
from rota.core.facts.states import JobState
from rota.rpc import cluster_pb2 as pb
from tests.support.machine import REPOSITORY, missing

STATES = pb.DESCRIPTOR.enum_types_by_name["JobState"]
BINDINGS = ("cluster_pb2.py", "cluster_pb2.pyi", "cluster_pb2_grpc.py")


def test_the_bindings_are_those_that_the_definition_gives(tmp_path):
    try:
        import grpc_tools  # noqa: F401
    except ImportError:
        missing("grpcio-tools is not installed (the extra `dev` brings it)")
    script = REPOSITORY / "script" / "bindings"

    subprocess.run([script, tmp_path], check=True, env={**os.environ, "PYTHON": sys.executable})

    stale = [
        name
        for name in BINDINGS
        if (tmp_path / "rota/rpc" / name).read_text()
        != (REPOSITORY / "src/rota/rpc" / name).read_text()
    ]
    assert not stale, "run script/bindings and keep what it writes"


def test_states_have_the_numbers_that_clients_were_built_with():
    numbers = {word.name.removeprefix("JOB_STATE_"): word.number for word in STATES.values}

    assert numbers == {
        "UNSPECIFIED": 0,
        "PENDING": 1,
        "BUILDING": 2,
        "RUNNING": 3,
        "SUCCEEDED": 4,
        "FAILED": 5,
        "KILLED": 6,
        "WORKER_FAILED": 7,
        "UNSCHEDULABLE": 8,
    }


def test_the_scheduling_timeout_is_field_8_of_a_launch_and_an_integer():
    field = pb.LaunchJobRequest.DESCRIPTOR.fields_by_number[8]

    assert field.name == "scheduling_timeout_seconds"
    assert field.type == field.TYPE_INT32


@pytest.mark.parametrize("state", JobState)
def test_every_state_of_a_job_is_told_by_a_state_of_the_wire(state):
    told = pb.JobState.Name(WIRE_STATES[state]).removeprefix("JOB_STATE_").lower()

    assert told == {
        "held": "pending",
        "queued": "pending",
        "preempted": "pending",
        "scheduled": "building",
        "running": "running",
        "completed": "succeeded",
        "failed": "failed",
        "timeout": "failed",
        "cancelled": "killed",
        "node_failed": "worker_failed",
        "unschedulable": "unschedulable",
    }.get(state)
