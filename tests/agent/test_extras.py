"""What the node adds to a job's environment: the way to the controller, and free ports."""

import socket

import pytest

from rota.agent import extras
from rota.agent.extras import Extras, NoPort
from rota.agent.ports import Keep, Known
from rota.rpc.messages import Launch, Observed, Seen, Sighting


def a_launch(uid: str = "u.0.1", **fields: object) -> Launch:
    usual = {"job": 1, "user": "ann", "argv": ("true",), "workdir": "/", "environment": {}}
    return Launch(uid=uid, **{**usual, **fields})


def test_a_job_elsewhere_finds_the_controller_as_its_agent_does_and_a_token_of_its_own():
    found = Extras("https://head:8082", "rota_agent.ab12").variables(a_launch(token="rotajob_x"))

    assert found == {"ROTA_URL": "https://head:8082", "ROTA_TOKEN": "rotajob_x.ab12"}


def test_on_the_controllers_own_machine_its_socket_is_there_already():
    assert Extras("unix:///run/rota.sock").variables(a_launch(token="rotajob_x")) == {}
    assert Extras().variables(a_launch(token="rotajob_x")) == {}


def test_a_token_that_the_user_gave_to_the_job_stays():
    launch = a_launch(token="rotajob_x", environment={"ROTA_TOKEN": "rota_mine"})

    assert Extras("http://head:8082").variables(launch) == {"ROTA_URL": "http://head:8082"}


def test_each_name_gets_a_port_that_nobody_has():
    several = Extras()
    with socket.create_server(("", extras.FIRST_PORT)):
        first = several.variables(a_launch("a.0.1", ports=("web", "grpc-in")))
    second = several.variables(a_launch("b.0.1", ports=("web",)))

    ports = [int(port) for port in [*first.values(), *second.values()]]
    assert list(first) == ["ROTA_PORT_WEB", "ROTA_PORT_GRPC_IN"]
    assert len(set(ports)) == 3
    assert extras.FIRST_PORT not in ports


def test_a_launch_that_is_repeated_keeps_its_ports_and_one_that_is_forgotten_gives_them_back():
    several = Extras()
    launch = a_launch(ports=("web",))

    first = several.variables(launch)
    assert several.variables(launch) == first

    several.forget(launch.uid)
    assert several.ports_of(launch.uid) == {}


def test_when_all_ports_are_taken_the_start_fails_with_the_reason(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(extras, "PORT_COUNT", 1)
    several = Extras()
    several.variables(a_launch("a.0.1", ports=("web",)))

    with pytest.raises(NoPort, match="none of the ports"):
        several.variables(a_launch("b.0.1", ports=("web",)))


def test_after_a_restart_the_keeper_knows_the_ports_and_reports_carry_them():
    several = Extras()
    several.adopt([Known("u.0.1", "running", Keep(ports={"web": 30_500}))])
    report = Observed(
        1, 1, (Seen("u.0.1", Sighting.RUNNING), Seen("v.0.1", Sighting.RUNNING)), full=True
    )

    told = several.told(report)

    assert [seen.ports for seen in told.attempts] == [{"web": 30_500}, {}]
    assert Extras().told(report) is report
