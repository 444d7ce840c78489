"""How many connections one caller may hold, and what becomes of one more."""

import contextlib
import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from rota.api.auth import LOCAL
from rota.api.door import server as door
from rota.api.door.agents import PATH
from rota.api.door.certificate import server_context
from rota.api.door.places import KEPT_MIN, Places
from rota.core.facts.errors import Busy
from rota.settings.limits import UserLimits
from tests.agent.support import wait_until
from tests.api.joining import Joiner, join_token
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


def test_handshakes_that_do_not_end_count_and_others_do_not_wait(
    socket_folder: Path, tmp_path: Path
) -> None:
    secure, _ = server_context(tmp_path, [HOST])
    blind = ssl.create_default_context()
    blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
    limits = UserLimits(connections=MOST)
    with (
        running(socket_folder, limits=limits, secure=secure) as server,
        contextlib.ExitStack() as stack,
    ):
        silent = [stack.enter_context(line_to(server)) for _ in range(MOST)]
        refused = _healthy(server, blind)
        local = server.local().get("/jobs").status
        silent[0].close()
        wait_until(lambda: _healthy(server, blind)[0] == 200)

    assert refused[0] == 429
    assert f"{HOST} has too many; allowed are 3 at one time" in refused[1]
    assert local == 200


def _healthy(server: Running, blind: ssl.SSLContext) -> tuple[int, str]:
    with line_to(server) as plain, blind.wrap_socket(plain) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        return answer_of(line)


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


def test_the_key_of_one_node_opens_no_more_than_one_user_may(narrow: Running) -> None:
    n1, n2 = Joiner(narrow, "n1"), Joiner(narrow, "n2")
    for joiner in (n1, n2):
        assert joiner.joins(join_token(narrow)["token"]) == ""
        joiner.close()

    with contextlib.ExitStack() as stack:
        heard = []
        for _ in range(MOST + 1):
            line = line_to(narrow, "GET /api/v1/jobs HTTP/1.1", n1.key)
            heard.append(answer_of(stack.enter_context(line))[0])
        with pytest.raises(InvalidStatus):
            n1.dial(n1.key)
        other = n2.joins(n2.key)

    assert heard == [403] * MOST + [429]
    assert other == ""


class TestPlaces:
    def test_the_last_descriptors_are_for_root_and_agents(self) -> None:
        places = Places(1000, KEPT_MIN + 4)
        users = [places.take(f"{LOCAL}{uid}") for uid in (1001, 1001, 1002)]
        free = places.take("10.0.0.1")

        late = places.take("10.0.0.2")
        free.known("")
        root = places.take(f"{LOCAL}0")

        assert [place.refused for place in (*users, free, root)] == [""] * 5
        assert late.refused == "connections: 4 are open; the rest is kept for agents and root"

    def test_many_addresses_take_no_more_than_half_of_the_room(self) -> None:
        places = Places(1000, KEPT_MIN + 8)
        strangers = [places.take(f"10.0.0.{number}") for number in range(5)]

        local = places.take(f"{LOCAL}1001")
        strangers[0].known("ann")
        after = places.take("10.0.0.9")

        assert [bool(place.refused) for place in strangers] == [False] * 4 + [True]
        assert "4 callers have not said their name" in strangers[4].refused
        assert not local.refused
        # The fifth is still there, to be told why.
        assert after.refused
        strangers[4].leave()
        after.leave()
        assert not places.take("10.0.0.9").refused

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("127.0.0.1", "127.200.3.4"),
            ("127.0.0.1", "::1"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("2001:db8::1", "2001:db8::ffff:1"),
            ("fe80::1%eth0", "fe80::2%eth0"),
        ],
    )
    def test_addresses_that_one_machine_chooses_from_count_as_one(
        self, one: str, other: str
    ) -> None:
        places = Places(1)
        places.take(one)

        assert places.take(other).refused
        assert not places.take("10.9.9.9").refused

    def test_what_the_kernel_says_stays_whatever_token_is_shown(self) -> None:
        places = Places(2)
        held = [places.take(f"{LOCAL}1001") for _ in range(2)]

        for place in held:
            place.known("bob")

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
        places = Places(2)
        for number in range(2):
            places.take(f"10.0.0.{number}").known("ann")

        with pytest.raises(Busy, match="ann has too many"):
            places.take("10.0.0.9").known("ann")

    def test_whoever_goes_on_knocking_is_heard_no_more(self) -> None:
        places = Places(KEPT_MIN)

        last = [places.take("10.0.0.1") for _ in range(2 * KEPT_MIN + 1)][-1]

        assert last.hands_off
        assert not places.take("10.0.0.2").hands_off
