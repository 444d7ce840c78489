"""What the node adds to a job's environment: the way to the controller, and free ports."""

import socket

import pytest

from rota.agent.attempts import node_variables
from rota.agent.attempts.node_variables import NodeVariables, NoPort
from rota.rpc.messages import Launch, Observed, Seen, Sighting
from rota.session.instructions import Keep, KnownAttempt


def a_launch(uid: str = "u.0.1", **fields: object) -> Launch:
    usual = {"job": 1, "user": "ann", "argv": ("true",), "workdir": "/", "environment": {}}
    return Launch(uid=uid, **{**usual, **fields})


def test_a_job_elsewhere_finds_the_controller_as_its_agent_does_and_a_token_of_its_own():
    found = NodeVariables("https://head:8082", "ab12").of(a_launch(token="rotajob_x"))

    assert found == {"ROTA_URL": "https://head:8082", "ROTA_TOKEN": "rotajob_x.ab12"}


def test_on_the_controllers_own_machine_its_socket_is_there_already():
    assert NodeVariables("unix:///run/rota.sock").of(a_launch(token="rotajob_x")) == {}
    assert NodeVariables().of(a_launch(token="rotajob_x")) == {}


def test_a_token_that_the_user_gave_to_the_job_stays():
    launch = a_launch(token="rotajob_x", environment={"ROTA_TOKEN": "rota_mine"})

    assert NodeVariables("http://head:8082").of(launch) == {"ROTA_URL": "http://head:8082"}


def test_each_name_gets_a_port_that_nobody_has():
    several = NodeVariables()

    first = several.of(a_launch("a.0.1", ports=("web", "grpc-in")))
    second = several.of(a_launch("b.0.1", ports=("web",)))

    assert list(first) == ["ROTA_PORT_WEB", "ROTA_PORT_GRPC_IN"]
    assert len({*first.values(), *second.values()}) == 3


def test_a_port_at_which_somebody_listens_is_not_given_away(monkeypatch: pytest.MonkeyPatch):
    with socket.create_server(("", 0)) as stranger:
        monkeypatch.setattr(node_variables, "FIRST_PORT", stranger.getsockname()[1])
        monkeypatch.setattr(node_variables, "PORT_COUNT", 1)

        with pytest.raises(NoPort):
            NodeVariables().of(a_launch(ports=("web",)))


def test_a_launch_that_is_repeated_keeps_its_ports_and_one_that_is_forgotten_gives_them_back():
    several = NodeVariables()
    launch = a_launch(ports=("web",))

    first = several.of(launch)
    assert several.of(launch) == first

    several.forget(launch.uid)
    assert several.ports_of(launch.uid) == {}


def test_when_all_ports_are_taken_the_start_fails_with_the_reason():
    first, count = node_variables.FIRST_PORT, node_variables.PORT_COUNT
    several = NodeVariables()
    all_ports = {str(port): port for port in range(first, first + count)}
    several.adopt([KnownAttempt("a.0.1", "running", Keep(ports=all_ports))])

    with pytest.raises(NoPort, match=f"none of the ports {first} to {first + count - 1} is free"):
        several.of(a_launch("b.0.1", ports=("web",)))


def test_after_a_restart_the_keeper_knows_the_ports_and_reports_carry_them():
    several = NodeVariables()
    several.adopt([KnownAttempt("u.0.1", "running", Keep(ports={"web": 30_500}))])
    report = Observed(
        1, 1, (Seen("u.0.1", Sighting.RUNNING), Seen("v.0.1", Sighting.RUNNING)), full=True
    )

    told = several.told(report)

    assert [seen.ports for seen in told.attempts] == [{"web": 30_500}, {}]
    assert NodeVariables().told(report) is report
