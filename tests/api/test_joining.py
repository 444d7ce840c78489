"""Who becomes a node: join tokens, the keys of nodes, and what they do not open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from msgspec.structs import replace
from websockets.exceptions import ConnectionClosed, InvalidStatus

from rota.api.door.agents import AGAIN_S
from rota.controller.agents import links, news_budget
from rota.controller.chores.node_keys import renew_old_keys
from rota.core.facts.node import NodeSpec
from rota.node_keys import digest_of, new_key
from rota.rpc.messages import (
    Beat,
    BeatSeen,
    Hello,
    NewKey,
    RenewKey,
    Resized,
    SessionRefused,
    encode,
)
from rota.session.wire import ControllerAway, dial
from tests.api.joining import Joiner, join_token
from tests.api.running import WAIT_S, Caller, Running

Join = Callable[..., Joiner]


@pytest.fixture
def node(server: Running) -> Iterator[Join]:
    made: list[Joiner] = []

    def make(name: str, key: str = "") -> Joiner:
        made.append(Joiner(server, name, key))
        return made[-1]

    yield make
    for joiner in made:
        joiner.close()


def turned_away(joiner: Joiner, shown: str) -> str:
    with pytest.raises(InvalidStatus) as refused:
        joiner.dial(shown)
    return (refused.value.response.body or b"").decode()


def enrolled(server: Running, node: Join, name: str) -> Joiner:
    joiner = node(name)
    assert joiner.joins(join_token(server)["token"]) == ""
    return joiner


def test_a_node_joins_with_a_token_and_comes_back_with_its_own_key(server: Running, node: Join):
    made = join_token(server)
    n1 = node("n1")

    assert n1.joins(made["token"]) == ""
    assert n1.joins(n1.key) == ""

    shown = server.local().get("/nodes/n1").json
    assert (shown["joined_with"], shown["key"]) == (made["id"], digest_of(n1.key)[:16])
    assert n1.key not in server.local().get("/nodes/n1").body.decode()


def test_a_join_token_is_good_for_one_node_unless_more_are_asked_for(server: Running, node: Join):
    single, double = join_token(server), join_token(server, uses=2)
    for name, token in (("n1", single), ("n2", double), ("n3", double)):
        assert node(name).joins(token["token"]) == ""

    once_more = node("n4").joins(single["token"])
    twice_more = node("n5").joins(double["token"])

    assert once_more.startswith(f"join token {single['id']} is used up (by n1)")
    assert "(by n2, n3)" in twice_more
    assert [n["name"] for n in server.local().get("/nodes").json["items"]] == ["n1", "n2", "n3"]


def test_two_that_join_at_once_with_the_last_use_do_not_both_become_nodes(
    server: Running, node: Join
):
    token = join_token(server)["token"]
    rivals = [node(f"n{number}") for number in range(4)]

    with ThreadPoolExecutor(len(rivals)) as pool:
        answers = list(pool.map(lambda rival: rival.joins(token), rivals))

    assert sorted(bool(answer) for answer in answers) == [False, True, True, True]


def test_a_join_token_ends_after_a_day_unless_told_otherwise(server: Running, node: Join):
    made = join_token(server, expires_s=60)
    usual = join_token(server)
    host = server.host
    host.clock._offset_s += 61

    refusal = turned_away(node("n1"), made["token"])

    assert "the token has expired" in refusal
    assert node("n2").joins(usual["token"]) == ""
    host.clock._offset_s += 86_400
    assert "the token has expired" in turned_away(node("n3"), usual["token"])


def test_a_key_speaks_for_the_name_of_its_node_only(server: Running, node: Join):
    n1 = enrolled(server, node, "n1")
    enrolled(server, node, "n2")
    rogue = node("n2", n1.key)

    refusal = rogue.joins(n1.key, incarnation="i-n2")

    assert refusal.startswith("this is the key of node n1, it does not speak for n2")


@pytest.mark.parametrize("away", [False, True])
def test_a_join_token_cannot_take_the_name_of_a_node(server: Running, node: Join, away: bool):
    n1 = enrolled(server, node, "n1")
    if away:
        n1.close()
    token = join_token(server, uses=0)["token"]

    refusals = [node("n1").joins(token, incarnation=word) for word in ("i-n1", "another")]

    for refusal in refusals:
        assert "node n1 has joined and has a key of its own" in refusal
        assert "rota node remove n1" in refusal
    assert n1.joins(n1.key) == ""


def test_a_join_token_cannot_take_the_name_of_the_controllers_own_node(
    server: Running, node: Join, make_agent: Callable[..., object]
):
    make_agent(name="head").close()  # type: ignore[attr-defined]

    refusal = node("head").joins(join_token(server)["token"])

    assert "node head is on record as another installation (inc-head)" in refusal


def test_a_node_from_before_there_were_keys_gets_one_at_its_next_hello(
    server: Running, node: Join, make_agent: Callable[..., object]
):
    make_agent(name="old").close()  # type: ignore[attr-defined]
    old = node("old")

    assert old.joins(join_token(server, uses=0)["token"], incarnation="inc-old") == ""

    assert old.joins(old.key, incarnation="inc-old") == ""
    assert server.local().get("/nodes/old").json["key"] == digest_of(old.key)[:16]


def test_an_agent_that_brings_no_key_does_not_join(server: Running, node: Join):
    refusal = node("n1").joins(join_token(server)["token"], key="")

    assert refusal == "agent test of node n1 has no key: install a newer rota"


def test_two_nodes_do_not_share_a_key(server: Running, node: Join):
    n1 = enrolled(server, node, "n1")

    refusal = node("n2", n1.key).joins(join_token(server)["token"])

    assert refusal.startswith("the key of node n2 is that of another node")


def test_tokens_of_people_and_of_nobody_do_not_join(server: Running, node: Join):
    admin = server.local().post("/tokens", {"access": "admin"}).json["token"]
    user = server.local().post("/tokens", {"user": "ann"}).json["token"]

    assert "is not for agents" in turned_away(node("n1"), admin)
    assert "ann has the role user" in turned_away(node("n1"), user)
    assert "the key of this node is not valid" in turned_away(node("n1"), new_key())
    assert "the token is not valid" in turned_away(node("n1"), "rota_beef_x")


def test_a_node_key_opens_no_other_route(server: Running, node: Join):
    n1 = enrolled(server, node, "n1")

    answer = server.network(n1.key).get("/nodes")

    assert answer.status == 403


def test_only_on_the_controllers_own_socket_an_agent_is_believed_to_be_local(
    server: Running, node: Join
):
    server.host._controller.liveness.lease_s = 30.0
    n1 = node("n1")

    assert n1.joins(join_token(server)["token"], local=True) == ""

    assert n1.lease_s == 30.0


def test_a_key_does_not_make_an_engine_of_a_machine(server: Running, node: Join):
    server.host._controller.liveness.lease_s = 30.0
    n1 = enrolled(server, node, "n1")

    refused = n1.joins(n1.key, engine="slurm")

    assert "n1 is on record as a machine, not an engine" in refused
    assert n1.joins(n1.key) == ""
    assert n1.lease_s == 30.0


def test_the_key_of_an_agent_of_one_user_gets_no_jobs_of_others(server: Running, node: Join):
    bobs = NodeSpec(name="n1", cpu_milli=1000, memory_mib=100, user="bob")
    everybodys = replace(bobs, user="")
    n1 = node("n1")
    assert n1.joins(join_token(server)["token"], node=bobs) == ""

    refused = n1.joins(n1.key, node=everybodys)
    assert n1.joins(n1.key, node=bobs) == ""
    n1.says(lambda session: Resized(session, everybodys))
    n1.says(lambda session: Beat(session, 1))
    n1.hears_a(BeatSeen)

    assert "for the jobs of bob alone" in refused
    assert server.host.cluster.nodes["n1"].spec.user == "bob"


def test_a_node_that_says_too_much_of_itself_is_not_heard_for_a_while(
    server: Running, node: Join, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(news_budget, "BURST_BYTES", 100_000)
    n1, n2 = enrolled(server, node, "n1"), enrolled(server, node, "n2")
    spec = NodeSpec(name="n1", cpu_milli=1000, memory_mib=100)

    with suppress(ConnectionClosed):
        for number in range(100):
            large = replace(spec, labels={"a": f"{number}" + "x" * 50_000})
            n1.says(lambda session, large=large: Resized(session, large))
    n1.hears_a(SessionRefused)

    assert "n1 says too much of itself; it is heard again in" in n1.joins(n1.key)
    assert n2.joins(n2.key) == ""
    seen = server.local().get("/events?kinds=node-registered&node=n1&after=0&limit=1000")
    assert len(seen.body) < 1_000_000


def test_of_too_many_agents_at_once_the_last_are_told_when_to_come_again(
    server: Running, node: Join, monkeypatch: pytest.MonkeyPatch
):
    n1 = enrolled(server, node, "n1")
    n1.close()
    monkeypatch.setattr(links, "NEWCOMERS_MAX", 0)

    async def dialled() -> float:
        with pytest.raises(ControllerAway, match="busy") as away:
            await dial(f"http://127.0.0.1:{server.port}", n1.key, lambda _: None)
        return away.value.busy_s

    assert asyncio.run(dialled()) == AGAIN_S
    monkeypatch.undo()
    assert n1.joins(n1.key) == ""


def test_a_node_waits_until_an_operator_approves_it(server: Running, node: Join):
    caller = server.local()
    n1 = node("n1")
    waits = n1.joins(join_token(server, approve=True)["token"], home="rack1:/var/lib/rota/agent")

    still = n1.joins(n1.key)
    pending = caller.get("/nodes").json["pending"]
    approved = caller.post("/nodes/n1:approve", {})

    key = digest_of(n1.key)[:16]
    assert waits == still
    assert waits.startswith(f"node n1 waits for an operator's approval (key {key})")
    assert [(p["name"], p["home"], p["key"]) for p in pending] == [
        ("n1", "rack1:/var/lib/rota/agent", key)
    ]
    assert approved.status == 200
    assert n1.joins(n1.key) == ""
    assert caller.get("/nodes").json["pending"] == []


def test_users_approve_rotate_and_remove_nothing(server: Running, node: Join):
    n1 = node("n1")
    assert n1.joins(join_token(server, approve=True)["token"]) != ""
    ann = server.as_user("ann")

    answers = [
        ann.post("/nodes/n1:approve", {}).status,
        ann.post("/nodes/n1:rotate", {}).status,
        ann.delete("/nodes/n1").status,
        ann.post("/tokens", {"access": "agent"}).status,
    ]

    assert answers == [403, 403, 403, 403]


def test_a_node_that_is_turned_down_is_forgotten(server: Running, node: Join):
    n1 = node("n1")
    assert n1.joins(join_token(server, approve=True)["token"]) != ""

    assert server.local().delete("/nodes/n1").status == 204

    assert "the key of this node is not valid" in turned_away(n1, n1.key)
    assert server.local().get("/nodes").json["pending"] == []


def test_a_node_that_is_removed_is_cut_off_at_once_and_its_key_is_refused(
    server: Running, node: Join
):
    n1 = enrolled(server, node, "n1")

    removed = server.local().delete("/nodes/n1")

    assert removed.status == 204
    assert n1.hears_a(SessionRefused).reason == "node n1 was removed by an operator"
    assert n1.socket is not None
    with pytest.raises(ConnectionClosed):
        n1.socket.recv(timeout=WAIT_S)
    assert "the key of this node is not valid: the node was removed" in turned_away(n1, n1.key)
    assert server.local().get("/nodes/n1").status == 404
    assert node("n1").joins(join_token(server)["token"]) == ""


def test_revoking_a_join_token_leaves_its_nodes_in_and_lets_no_more_in(server: Running, node: Join):
    made = join_token(server, uses=5)
    n1 = node("n1")
    assert n1.joins(made["token"]) == ""
    shown = next(t for t in server.local().get("/tokens").json["items"] if t["id"] == made["id"])

    assert server.local().delete(f"/tokens/{made['id']}").status == 204

    assert (shown["uses_left"], shown["nodes"]) == (4, ["n1"])
    assert n1.joins(n1.key) == ""
    assert "the token is not valid" in turned_away(node("n2"), made["token"])


def test_the_key_of_a_node_is_no_token_to_list_or_revoke(server: Running, node: Join):
    n1 = enrolled(server, node, "n1")
    key = digest_of(n1.key)[:16]

    refused = server.local().delete(f"/tokens/{key}")

    assert refused.status == 409
    assert "rota node remove n1" in refused.json["detail"]
    assert key not in [t["id"] for t in server.local().get("/tokens").json["items"]]


def test_a_new_key_takes_the_place_of_the_one_before(server: Running, node: Join):
    n1 = enrolled(server, node, "n1")
    before, n1.key = n1.key, new_key()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(server.local().post, "/nodes/n1:rotate", {})
        order = n1.hears_a(RenewKey)
        assert n1.socket is not None
        n1.socket.send(encode(NewKey(order.request, digest_of(n1.key))))
        answer = asked.result(WAIT_S)

    assert answer.json["key"] == digest_of(n1.key)[:16]
    assert n1.joins(n1.key) == ""
    assert "the key of this node is not valid" in turned_away(node("n1"), before)


def test_a_node_whose_key_has_become_old_is_asked_for_a_new_one(server: Running, node: Join):
    n1 = enrolled(server, node, "n1")
    server.host.clock._offset_s += 31 * 86_400
    chore = asyncio.run_coroutine_threadsafe(renew_old_keys(server.host, 30), server.loop)
    order = n1.hears_a(RenewKey)
    n1.key = new_key()
    assert n1.socket is not None
    n1.socket.send(encode(NewKey(order.request, digest_of(n1.key))))

    chore.result(WAIT_S)

    assert server.local().get("/nodes/n1").json["key"] == digest_of(n1.key)[:16]


def test_a_node_that_is_away_gets_no_new_key(server: Running, node: Join, caller: Caller):
    enrolled(server, node, "n1").close()
    while caller.get("/nodes/n1").json["state"] == "up":
        pass

    away = caller.post("/nodes/n1:rotate", {})
    unknown = caller.post("/nodes/nosuch:rotate", {})

    assert (away.status, unknown.status) == (503, 404)
    assert "node n1 is not connected" in away.json["detail"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"access": "agent", "uses": -1}, "uses"),
        ({"access": "user", "uses": 3}, "uses: only a token with access agent has it"),
        ({"approve": True}, "approve: only a token with access agent has it"),
    ],
)
def test_a_join_token_that_cannot_be_is_refused_in_one_line(
    caller: Caller, body: dict[str, object], said: str
):
    refused = caller.post("/tokens", body)

    assert refused.status == 400
    assert said in refused.json["detail"]


def test_the_log_names_who_was_refused_and_why_and_not_for_ever(
    server: Running, node: Join, caplog: pytest.LogCaptureFixture
):
    made = join_token(server)
    assert node("n1").joins(made["token"]) == ""
    with caplog.at_level(logging.WARNING, "rota.controller"):
        for number in range(30):
            node(f"x{number}").joins(made["token"])
        for _ in range(30):
            turned_away(node("n2"), "rota_beef_nosecret")
    lines = [record.getMessage() for record in caplog.records if "refused" in record.getMessage()]

    assert len(lines) == 2
    assert f"(node x0, token {made['id']}): join token {made['id']} is used up" in lines[0]
    assert "127.0.0.1:" in lines[1]
    assert "(token beef): the token is not valid" in lines[1]
    assert "nosecret" not in "".join(lines)


def test_the_log_names_an_agent_of_another_protocol(
    server: Running, node: Join, caplog: pytest.LogCaptureFixture
):
    n1 = node("n1")
    socket = n1.dial(join_token(server)["token"])
    spec = NodeSpec(name="n1", cpu_milli=1, memory_mib=1)
    with caplog.at_level(logging.WARNING, "rota.controller"):
        socket.send(encode(Hello(5, spec, "i", "b", "0.1")))
        for _ in socket:
            pass

    said = [record.getMessage() for record in caplog.records]
    assert any("node n1" in line and "the agent 5" in line for line in said)
