"""Rota for agents: what is said on the wire, what tools ask the server and how they refuse."""

import json

import pytest

from rota.cli.service.mcp import VERSIONS, McpServer, serve
from rota.cli.service.mcp_tools import TOOLS
from rota.client.http import Client
from tests.cli.test_render import a_job

JOB = {"id": 12, "name": "train", "state": "queued", "reason": "not enough free cpus", "uid": "u"}


@pytest.fixture
def server(fake):
    client = Client([f"unix://{fake.path}"])
    yield McpServer(lambda: client, TOOLS)
    client.close()


def say(server, method, number=1, **params):
    return server.answer(json.dumps({"jsonrpc": "2.0", "id": number, "method": method,
                                     "params": params}))  # fmt: skip


def call(server, tool, **arguments):
    """The text of a tool's answer, and whether it is a refusal."""
    result = say(server, "tools/call", name=tool, arguments=arguments)["result"]
    return result["content"][0]["text"], result["isError"]


def test_a_conversation_begins_with_a_version_that_both_speak(server):
    old = say(server, "initialize", protocolVersion=VERSIONS[-1])["result"]
    unknown = say(server, "initialize", protocolVersion="1999-01-01")["result"]

    assert (old["protocolVersion"], unknown["protocolVersion"]) == (VERSIONS[-1], VERSIONS[0])
    assert old["serverInfo"]["name"] == "rota"
    assert "tools" in old["capabilities"]


def test_tools_list_explain_preview_and_do_and_say_which_of_them_change_anything(server):
    tools = {tool["name"]: tool for tool in say(server, "tools/list")["result"]["tools"]}

    changing = [n for n, tool in tools.items() if not tool["annotations"]["readOnlyHint"]]
    assert {"queue", "show", "why", "logs", "nodes", "plan", "limits"} == set(tools) - set(changing)
    assert changing == ["submit", "cancel", "hold", "release", "update"]
    assert all("preview" in tools[name]["inputSchema"]["properties"] for name in changing)
    assert tools["submit"]["inputSchema"]["required"] == ["command"]


def test_jobs_are_listed_in_short(fake, server):
    fake.routes["GET /jobs"] = {"items": [JOB], "cursor": None}

    text, failed = call(server, "queue", state="queued", limit=5)

    assert not failed
    assert (fake.asked[-1].query["state"], fake.asked[-1].query["limit"]) == ("queued", "5")
    assert json.loads(text)[0]["reason"] == "not enough free cpus"
    assert "uid" not in json.loads(text)[0]


def test_why_gives_reason_and_advice(fake, server):
    fake.routes["GET /jobs/12/why"] = {
        "reason": "not enough free cpus",
        "lines": ["needs 8 CPUs, 4 of 8 free"],
        "help": ["--cpus 4"],
    }

    assert call(server, "why", job=12) == (
        "not enough free cpus\nneeds 8 CPUs, 4 of 8 free\ntry: --cpus 4",
        False,
    )


def test_logs_are_the_last_lines_of_a_stream(fake, server):
    fake.routes["GET /jobs/12/logs"] = "epoch 1\n"

    text, _ = call(server, "logs", job="12", stream="stderr", tail=5)

    assert "epoch 1" in text
    assert fake.asked[-1].query == {"stream": "stderr", "tail": "5"}


def test_a_submit_sends_what_the_command_line_would(fake, server, tmp_path):
    fake.routes["POST /jobs"] = {"id": 13, "uid": "u", "state": "queued"}

    text, failed = call(
        server, "submit", command="python train.py | tee log", cpus=0.5, memory="16g", gpus=2,
        gpu_type="A100", time="2h", after_ok=["12"], workdir=str(tmp_path), priority=60,
    )  # fmt: skip

    body = fake.asked[-1].body
    assert (text, failed) == ("submitted job 13", False)
    assert body["command"] == "python train.py | tee log"
    assert body["resources"] == {"cpus": 0.5, "memory_mb": 16384, "gpus": 2, "gpu_type": "A100"}
    assert (body["time_limit_s"], body["priority"]) == (7200, 60)
    assert body["depends_on"] == [{"kind": "after-ok", "job": 12}]
    assert body["workdir"] == str(tmp_path)
    assert "Idempotency-Key" in fake.asked[-1].headers


def test_a_plan_submits_nothing(fake, server):
    fake.routes["POST /plan"] = {
        **{"starts": False, "start_at": None, "reason": "not enough free gpus", "lines": []},
        **{"help": [], "allocations": [], "evicts": [], "delays": []},
    }

    text, _ = call(server, "plan", command="train", gpus=8)

    assert text.startswith("it would wait: not enough free gpus")
    assert [asked.path.rpartition("/")[2] for asked in fake.asked] == ["plan"]


def test_a_refusal_of_the_server_is_a_line_that_the_agent_can_read(fake, server):
    refusal = {"id": 12, "reason": "job 12 is completed already"}
    fake.routes["POST /jobs:cancel"] = {"changed": [], "refused": [refusal]}

    assert call(server, "cancel", job=12) == ("job 12 is completed already", True)


def test_a_preview_of_a_change_is_the_rehearsal_of_the_server(fake, server):
    fake.routes["GET /jobs/12"] = a_job(id=12, name="train", state="running", nodes=["n1"])
    done = {"changed": [12], "refs": ["12"], "refused": []}
    fake.routes["POST /jobs:cancel"] = done
    fake.routes["PATCH /jobs/12"] = a_job(id=12, priority=75, time_limit_s=7200)

    cancel, _ = call(server, "cancel", job=12, preview=True)
    update, _ = call(server, "update", job=12, preview=True, priority=75, time="2h")

    changes = [asked for asked in fake.asked if asked.method != "GET"]
    assert [asked.query for asked in changes] == [{"preview": "true"}] * 2
    assert cancel == "would cancel job 12 (train, of ada): running on n1"
    assert update.splitlines()[1:] == ["priority: 50 -> 75", "time_limit_s: 0 -> 7200"]


def test_a_preview_refuses_what_the_change_would(fake, server):
    refusal = {"id": 12, "reason": "job 12 is not held"}
    fake.routes["POST /jobs:release"] = {"changed": [], "refs": [], "refused": [refusal]}

    assert call(server, "release", job=12, preview=True) == ("job 12 is not held", True)


def test_an_array_or_a_sweep_with_variables_and_an_image_is_one_submit(fake, server):
    fake.routes["POST /jobs"] = {"id": 13, "uid": "u", "state": "queued"}
    more = {"env": {"SEED": 7}, "image": "docker.io/x"}

    array, _ = call(server, "submit", command="x", array="0-9%2", **more)
    one = fake.asked[-1].body
    sweep, _ = call(server, "submit", command="x {lr}", params={"lr": [0.1, 0.01], "n": ["a"]})
    other = fake.asked[-1].body

    assert array == "submitted job 13: 10 jobs"
    assert (one["array"], one["variables"], one["image"]) == (
        "0-9%2",
        {"SEED": "7"},
        "docker.io/x",
    )
    assert sweep == "submitted job 13: 2 jobs"
    assert other["parameters"] == {"names": ["lr", "n"], "rows": [["0.1", "a"], ["0.01", "a"]]}


@pytest.mark.parametrize(
    ("tool", "arguments", "line"),
    [
        (
            "submit",
            {"command": "x", "params": {"lr": 3}},
            "params: lr: 3 is not valid; expected a list",
        ),
        ("submit", {"command": "x", "env": {"A": [1]}}, "env: [1] is not valid; expected texts"),
        ("submit", {"command": "x", "array": "0-3", "params": {"a": [1]}}, "exclude each other"),
        ("cancel", {"job": 1, "preview": "yes"}, "preview: 'yes' is not valid; expected boolean"),
        ("update", {"job": 1}, "nothing to change; give one of name, time"),
        ("submit", {}, "command: is missing"),
        ("submit", {"command": " "}, "command: the line is empty"),
        ("submit", {"command": "x", "cpu": 1}, "cpu: there is no such argument; allowed: command"),
        ("submit", {"command": "x", "gpus": "2"}, "gpus: '2' is not valid; expected number"),
        ("submit", {"command": "x", "memory": "much"}, "memory: 'much'"),
        (
            "submit",
            {"command": "x", "priority": 101},
            "priority: '101' is not valid; expected 0 to",
        ),
        ("update", {"job": 1, "priority": "top"}, "priority: 'top' is not valid; expected 0 to"),
        ("queue", {"state": "asleep"}, "state: 'asleep' is not one of held, queued"),
        ("show", {"job": "no job!"}, "job: 'no job!' is not valid; expected a job id"),
    ],
)
def test_a_wrong_argument_is_refused_naming_what_is_allowed(server, tool, arguments, line):
    text, failed = call(server, tool, **arguments)

    assert failed
    assert line in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700),
        (b"\xff", -32700),
        (b"[]", -32600),
        (b'{"id": 1}', -32600),
        (b'{"id": 1, "method": "tools/eat"}', -32601),
        (b'{"id": 1, "method": "tools/call", "params": {"name": "eat"}}', -32602),
        (b'{"id": 1, "method": "tools/call", "params": []}', -32602),
        (b'{"id": 1, "method": "ping", "params": 5}', -32602),
    ],
)
def test_what_is_no_message_is_answered_with_the_code_of_the_protocol(server, line, code):
    answer = server.answer(line)

    assert answer["error"]["code"] == code


def test_notifications_get_no_answer_and_the_rest_is_one_line_each(server):
    written = []
    lines = [
        b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n',
        b"\n",
        b'{"jsonrpc": "2.0", "id": "a", "method": "ping"}\n',
    ]

    serve(server, lines, written.append)

    assert [json.loads(line) for line in written] == [{"jsonrpc": "2.0", "id": "a", "result": {}}]


def test_nothing_running_is_told_to_the_agent_in_a_line(tmp_path):
    server = McpServer(lambda: Client([f"unix://{tmp_path}/none.sock"]), TOOLS)

    text, failed = call(server, "queue")

    assert failed
    assert "rota up" in text
