"""What an agent does for gangs: news to running members, ports, files, its own address."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from signal import SIGURG, SIGUSR2

import msgspec
import pytest

from rota.agent.agent_config import AgentConfig
from rota.agent.attempts.address import addressed, interfaces, own_address
from rota.agent.attempts.launch import Launcher
from rota.agent.machine.discover import Overrides
from rota.client.context import JobContext
from rota.core.facts.node import NodeSpec
from rota.rpc.messages import Launch, Wanted
from rota.session.instructions import Forget, KeeperAll, Signal, Spawn, Tell
from tests.agent.test_agent import Node, commands, launch, running, started


def told(uid: str, world: bytes = b"", saves: int = 0) -> Wanted:
    return Wanted(uid, started=True, world=world, saves=saves, save_signal="USR2")


def test_a_running_member_is_told_of_a_world_once():
    node = Node()
    first = msgspec.structs.replace(launch("a"), world=b"two")
    node.change(Wanted("a", launch=first))
    node.hears(started("a"))

    same, other, again = (node.change(told("a", world)) for world in (b"two", b"three", b"three"))

    assert [commands(same), commands(other), commands(again)] == [[], [Tell("a", b"three")], []]


def test_a_member_that_is_just_being_started_learns_of_a_later_world():
    node = Node()
    first, later = (msgspec.structs.replace(launch("a"), world=world) for world in (b"2", b"3"))

    begun = node.change(Wanted("a", launch=first))
    grown = node.change(Wanted("a", launch=later))

    assert commands(begun) == [Spawn("a", first)]
    assert commands(grown) == [Tell("a", b"3")]


def test_an_agent_that_starts_anew_tells_its_members_once_more():
    node = Node()
    node.agent.on_keeper_lost()
    node.agent.on_keeper_all(KeeperAll((running("a"),)), node.now_s)

    assert commands(node.change(told("a", b"three"))) == [Tell("a", b"three")]


def test_each_request_to_save_is_one_signal():
    node = Node()
    node.run("a")

    sent = [commands(node.change(told("a", saves=saves))) for saves in (0, 1, 1, 2)]

    save = Signal("a", SIGUSR2)
    assert sent == [[], [save], [], [save]]


def test_requests_before_its_start_and_before_the_agent_came_are_not_repeated():
    node = Node()
    node.change(Wanted("a", launch=launch("a"), saves=3))
    node.hears(started("a"))
    node.agent.on_keeper_lost()
    node.agent.on_keeper_all(KeeperAll((running("a"), running("b"))), node.now_s)

    sent = commands(node.change(told("a", saves=3), told("b", saves=2)))

    assert sent == []


def test_one_that_is_about_to_end_is_told_nothing_more():
    node = Node()
    node.run("a")
    node.change(msgspec.structs.replace(told("a"), stop="shrunk"))

    assert commands(node.change(told("a", b"three", saves=1))) == []


@pytest.fixture
def launcher(tmp_path: Path) -> Launcher:
    return Launcher(tmp_path)


def member(world: bytes = b"", port: int = 0, **variables: str) -> Launch:
    environment = {"ROTA_NODE_ADDRESS": "127.0.0.1", **variables}
    return msgspec.structs.replace(
        launch("u.0.1"), environment=environment, world=world, meeting_port=port
    )


def environment_of(launcher: Launcher, order: Launch) -> dict[str, str]:
    line = json.loads(launcher.line(Spawn(order.uid, order)))
    return dict(item.split("=", 1) for item in line["env"])


def test_the_file_of_a_world_is_there_at_the_start_kept_up_to_date_and_removed(launcher: Launcher):
    path = Path(environment_of(launcher, member(b"two"))["ROTA_WORLD_FILE"])
    first = path.read_bytes()

    lines, _ = launcher.lines([Tell("u.0.1", b"three")], 0.0)
    again, _ = launcher.lines([Tell("u.0.1", b"three")], 0.0)
    second = path.read_bytes()
    launcher.line(Forget(("u.0.1",)))

    assert (first, second) == (b"two", b"three")
    assert [(line["op"], line["signal"]) for line in map(json.loads, lines)] == [("signal", SIGURG)]
    assert again == []
    assert not path.exists()


def test_files_of_attempts_are_removed_by_an_agent_that_started_anew(tmp_path: Path):
    path = Path(environment_of(Launcher(tmp_path), member(b"two"))["ROTA_WORLD_FILE"])

    Launcher(tmp_path).line(Forget(("u.0.1",)))

    assert not path.exists()


def test_a_gang_is_not_started_where_somebody_else_listens_at_its_port(launcher: Launcher):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        _, failed = launcher.lines([Spawn("u.0.1", member(port=port))], 5.0)

    (end,) = failed
    assert end.error == f"port {port}, where its gang meets, is in use on this node"
    assert launcher.lines([Spawn("u.0.1", member(port=port))], 5.0)[1] == []


def test_gloo_is_shown_the_interface_that_other_nodes_reach(launcher: Launcher):
    across = environment_of(launcher, member(SLURM_NNODES="2"))
    alone = environment_of(launcher, member(SLURM_NNODES="1"))
    own = environment_of(launcher, member(SLURM_NNODES="2", GLOO_SOCKET_IFNAME="ib0"))

    assert across["GLOO_SOCKET_IFNAME"] == interfaces()["127.0.0.1"]
    assert "GLOO_SOCKET_IFNAME" not in alone
    assert own["GLOO_SOCKET_IFNAME"] == "ib0"


def test_the_address_of_a_node_is_what_it_was_given_or_else_one_of_its_own():
    spec = NodeSpec("n1", 1000, 1000)
    given = AgentConfig(Path("/s"), "unix:///s", overrides=Overrides(address="10.1.2.3"))
    found = AgentConfig(Path("/s"), "unix:///s")

    assert addressed(spec, given).address == "10.1.2.3"
    assert addressed(spec, found).address in {"", *interfaces()} - {"127.0.0.1"}


@pytest.mark.parametrize("url", ["https://127.0.0.1:8082", "https://no.such.host.invalid:8082"])
def test_loopback_is_no_address_for_others(url: str):
    assert not own_address(url).startswith("127.")


def test_code_inside_a_job_asks_for_its_world_as_it_is_now(tmp_path: Path):
    file = tmp_path / "world"
    members = [{"task": 0, "rank": 0}, {"task": 2, "rank": 1}]
    file.write_text(json.dumps({"world_size": 2, "members": members}))
    base = {"ROTA_JOB_ID": "1", "ROTA_NUM_TASKS": "4", "ROTA_WORLD_FILE": str(file)}

    stays, leaves, fixed = (
        JobContext(base | {"ROTA_TASK_INDEX": "2"}),
        JobContext(base | {"ROTA_TASK_INDEX": "1"}),
        JobContext({"ROTA_JOB_ID": "1", "ROTA_NUM_TASKS": "4", "ROTA_TASK_INDEX": "3"}),
    )

    assert (stays.world(), leaves.world(), fixed.world()) == ((1, 2), (-1, 2), (3, 4))
