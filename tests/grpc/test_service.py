"""``rota up --grpc``: the typed service of a whole Rota, with real processes."""

import json
import platform
import re
import socket
import subprocess
import sys

import grpc
import pytest

from rota.rpc import cluster_pb2 as pb
from rota.rpc.cluster_pb2_grpc import ClusterServiceStub
from tests.grpc.typed import WAIT_S, Typed, refusal
from tests.journeys.box import Box, until
from tests.support.machine import REPOSITORY
from tests.support.ports import quiet_port

pytestmark = pytest.mark.slow

#: A job that serves for as long as it is let.
SERVE = ("/bin/sh", "-c", "echo ready; exec sleep 60")


@pytest.fixture
def box(tmp_path):
    made = Box(tmp_path / "box", cpus=2)
    yield made
    made.down("--stop-jobs")


def client_of(box: Box) -> Typed:
    address = json.loads((box.state / "controller.json").read_text())["grpc"]
    made = box.api("POST", "/tokens", {"user": "", "access": "admin"})[1]
    return Typed(address, made["token"])


def test_a_job_goes_from_launch_to_its_last_line_and_back_to_unschedulable(box):
    told = box.rota("up", "--detach", "--grpc", "0").stdout
    me = client_of(box)

    job_id = me.launch("/bin/sh", "-c", "echo hello $NAME; exit 3", env={"NAME": "you"})
    text = b"".join(chunk.data for chunk in me("FetchLogs", job_id=job_id, follow=True))
    ended = me.status(job_id)
    giant = me.launch(resources=pb.Resources(cpus=100), scheduling_timeout_seconds=1)
    lost = me.until(giant, pb.JOB_STATE_UNSCHEDULABLE)
    me.close()

    assert "gRPC at 127.0.0.1:" in told
    assert text == b"hello you\n"
    assert (ended.state, ended.exit_code) == (pb.JOB_STATE_FAILED, 3)
    assert ended.worker_ids == ["box"]
    assert lost.finished_at_ms - lost.submitted_at_ms >= 1000


def test_the_example_of_the_documentation_runs_as_it_is_shown(box):
    text = (REPOSITORY / "docs" / "grpc.md").read_text()
    example = text.partition("## Python")[2].partition("```python\n")[2].partition("```")[0]
    shown = text.partition("$ python example.py\n")[2].partition("```")[0]
    box.up("--grpc", "0")
    address = json.loads((box.state / "controller.json").read_text())["grpc"]
    token = box.rota("token", "create").stdout.split()[-1]

    done = subprocess.run(
        [sys.executable, "-c", example.replace("127.0.0.1:50051", address)],
        env={**box.env, "ROTA_TOKEN": token},
        capture_output=True,
        text=True,
        check=False,
    )

    without_time = re.compile(r" in \d+\.\d s$", re.MULTILINE)
    assert without_time.sub("", done.stdout) == without_time.sub("", shown), done.stderr


def test_an_endpoint_survives_kill_minus_nine_and_the_service_comes_back(box):
    box.env["ROTA_SERVER_GRPC_PORT"] = str(quiet_port())
    box.up()
    me = client_of(box)
    job_id = me.launch(*SERVE)
    me.until(job_id, pb.JOB_STATE_RUNNING)
    me(
        "RegisterEndpoint",
        pb.RegisterEndpointRequest(name="web", address="box:80", job_id=job_id),
    )

    box.kill("controller")

    def found():
        try:
            return me("LookupEndpoint", pb.LookupEndpointRequest(name="web")).endpoints
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                return None
            raise

    (endpoint,) = until(found, "the endpoint after the restart")
    me.close()
    assert (endpoint.address, endpoint.job_id) == ("box:80", job_id)


def test_a_stop_ends_what_somebody_watches_instead_of_waiting_for_him(box):
    box.up("--grpc", "0", "--no-agent")
    me = client_of(box)
    events = me("WatchEvents", kinds=["job-settled"])
    events.initial_metadata()

    box.down()

    assert list(events) == [], "it ended by itself; one that is cut off raises"
    assert refusal(me, "ListJobs")[0] is grpc.StatusCode.UNAVAILABLE
    me.close()


def test_where_rest_is_encrypted_grpc_is_with_the_same_certificate(box):
    box.env["ROTA_SERVER_TLS"] = "on"
    box.up("--grpc", "0", "--no-agent")
    record = json.loads((box.state / "controller.json").read_text())
    certificate = (box.state / "tls.crt").read_bytes()

    trusting = grpc.secure_channel(
        record["grpc"],
        grpc.ssl_channel_credentials(certificate),
        [("grpc.ssl_target_name_override", platform.node())],
    )
    plain = Typed(record["grpc"])

    assert ClusterServiceStub(trusting).HealthCheck(pb.HealthCheckRequest(), timeout=WAIT_S).ready
    assert refusal(plain, "HealthCheck")[0] is grpc.StatusCode.UNAVAILABLE
    trusting.close()
    plain.close()


def test_a_port_that_is_taken_is_one_line_at_the_start(box):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])

        line = box.refusal("up", "--detach", "--grpc", port)

    assert f"cannot listen on 127.0.0.1:{port}; choose another with --grpc" in line


def test_without_its_libraries_the_service_is_refused_with_a_way_to_get_them(tmp_path):
    plan = json.dumps({"state_dir": str(tmp_path), "host": "127.0.0.1", "port": 0, "grpc_port": 0})
    without = "import sys; sys.modules['grpc'] = None; from rota.api.__main__ import main; "
    program = [sys.executable, "-c", without + "sys.exit(main(sys.argv[1]))", plan]

    done = subprocess.run(program, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    line = next(line for line in done.stderr.splitlines() if line.startswith("rota: "))
    assert "pip install 'rota[grpc]'" in line
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("port", ["70000", "-1", "http"])
def test_a_port_that_is_none_is_refused_at_the_command_line_and_in_the_settings(box, port):
    line = box.rota("up", f"--grpc={port}", check=False)
    setting = box.refusal("up", "--detach", env={"ROTA_SERVER_GRPC_PORT": port})

    assert line.returncode == 2
    assert f"{port!r} is not valid; expected a port from 0 to 65535" in line.stderr
    assert f"ROTA_SERVER_GRPC_PORT: {port!r} is not valid; expected a port" in setting
