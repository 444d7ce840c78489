"""How many connections one caller may hold, and what becomes of one more."""

import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.api.auth import LOCAL
from rota.api.door import server as door
from rota.api.door.agents import PATH
from rota.api.door.places import KEPT_MIN, Places
from rota.core.facts.errors import Busy
from rota.core.facts.tenant import Access, Actor
from rota.settings.limits import UserLimits
from tests.agent.support import wait_until
from tests.api.running import WAIT_S, Running, running

MOST = 3
HOST = "127.0.0.1"


@pytest.fixture
def narrow(socket_folder: Path) -> Iterator[Running]:
    with running(socket_folder, limits=UserLimits(connections=MOST)) as server:
        yield server


@contextlib.contextmanager
def line_to(server: Running, words: str = "", token: str = "") -> Iterator[socket.socket]:
    with socket.create_connection((HOST, server.port), WAIT_S) as line:
        shown = f"Authorization: Bearer {token}\r\n" if token else ""
        line.sendall(f"{words}\r\nHost: x\r\n{shown}\r\n".encode() if words else b"")
        yield line


def answer_of(line: socket.socket) -> tuple[int, str]:
    """The status, and what was said of a refusal."""
    heard = b""
    while b"\r\n\r\n" not in heard and (part := line.recv(4096)):
        heard += part
    status = int(heard.split(b" ")[1])
    if status != 429:
        return status, ""
    while part := line.recv(4096):
        heard += part
    return status, json.loads(heard.partition(b"\r\n\r\n")[2])["detail"]


def test_a_user_has_so_many_connections_and_no_more_until_one_is_closed(narrow: Running) -> None:
    ann, bob = narrow.as_user("ann"), narrow.as_user("bob")
    words = "GET /api/v1/events HTTP/1.1"

    with contextlib.ExitStack() as stack:
        for _ in range(MOST - 1):
            line = stack.enter_context(line_to(narrow, words, ann.token))
            assert answer_of(line)[0] == 200
        with line_to(narrow, words, ann.token) as third:
            assert answer_of(third)[0] == 200
            with line_to(narrow, words, ann.token) as fourth:
                refused = answer_of(fourth)
            others = bob.get("/jobs").status
        # That it is closed is heard a moment later.
        wait_until(lambda: ann.get("/jobs").status == 200)

    assert others == 200
    said = "connections: ann has too many; allowed are 3 at one time (limits.connections)"
    assert refused == (429, said)


def test_who_does_not_say_who_it_is_counts_by_its_address(narrow: Running) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(MOST):
            stack.enter_context(line_to(narrow))
        with line_to(narrow, "GET /api/v1/jobs HTTP/1.1") as line:
            refused = answer_of(line)
        with line_to(narrow, f"GET {PATH} HTTP/1.1") as line:
            agent = answer_of(line)
        local = narrow.local().get("/jobs").status

    said = f"connections: {HOST} has too many; allowed are 3 at one time (limits.connections)"
    assert refused == (429, said)
    # An agent is heard whoever else is at its address: this one has no token.
    assert agent[0] == 401
    assert local == 200


def test_an_agent_that_was_let_in_is_not_cut_off(
    narrow: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "REFUSAL_S", 0.05)

    with contextlib.ExitStack() as stack:
        for _ in range(MOST):
            stack.enter_context(line_to(narrow))
        agent, other = (stack.enter_context(line_to(narrow)) for _ in range(2))
        agent.sendall(f"GET {PATH} HTTP/1.1\r\n".encode())

        assert other.recv(1) == b""
        agent.sendall(b"Host: x\r\n\r\n")
        assert answer_of(agent)[0] == 401


def test_who_has_no_place_and_says_nothing_is_not_waited_for(
    narrow: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "REFUSAL_S", 0.05)

    with contextlib.ExitStack() as stack:
        for _ in range(MOST):
            stack.enter_context(line_to(narrow))
        line = stack.enter_context(line_to(narrow))

        assert line.recv(1) == b""


def test_admins_and_agents_have_no_limit(narrow: Running) -> None:
    admin = narrow.as_user("root", "admin")

    with contextlib.ExitStack() as stack:
        for _ in range(3 * MOST):
            line = line_to(narrow, "GET /api/v1/events HTTP/1.1", admin.token)
            assert answer_of(stack.enter_context(line))[0] == 200


class TestPlaces:
    def test_the_last_descriptors_are_for_root_and_agents(self) -> None:
        places = Places(1000, KEPT_MIN + 4)
        users = [places.take(f"{LOCAL}{uid}") for uid in (1001, 1001, 1002)]
        agent = places.take("10.0.0.1")

        late = places.take("10.0.0.2")
        agent.known(Actor("rota", Access.AGENT, ""))
        root = places.take(f"{LOCAL}0")

        assert [place.refused for place in (*users, agent, root)] == [""] * 5
        assert late.refused == "connections: 4 are open; the rest is kept for agents and root"

    def test_what_the_kernel_says_stays_whatever_token_is_shown(self) -> None:
        places = Places(2)
        held = [places.take(f"{LOCAL}1001") for _ in range(2)]

        for place in held:
            place.known(Actor("bob", Access.USER, ""))

        assert places.take(f"{LOCAL}1001").refused
        assert not places.take("10.0.0.1").refused

    def test_a_place_is_given_back_once(self) -> None:
        places = Places(1)
        first = places.take("10.0.0.1")

        first.leave()
        first.leave()

        assert not places.take("10.0.0.1").refused
        assert places.take("10.0.0.1").refused

    def test_one_of_all_addresses_of_a_user_counts(self) -> None:
        places, ann = Places(2), Actor("ann", Access.USER, "")
        for number in range(2):
            places.take(f"10.0.0.{number}").known(ann)

        with pytest.raises(Busy, match="ann has too many"):
            places.take("10.0.0.9").known(ann)

    def test_whoever_goes_on_knocking_is_heard_no_more(self) -> None:
        places = Places(KEPT_MIN)

        last = [places.take("10.0.0.1") for _ in range(2 * KEPT_MIN + 1)][-1]

        assert last.hands_off
        assert not places.take("10.0.0.2").hands_off
