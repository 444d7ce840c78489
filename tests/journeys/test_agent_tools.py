"""An agent lists, previews, does and asks why, through ``rota mcp`` on a real box."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.journeys.box import Box


def talk(
    home: Box,
    *calls: tuple[str, dict[str, Any]],
    options: tuple[str, ...] = (),
    env: dict[str, str] | None = None,
) -> list[str]:
    """What each tool answers, in one conversation."""
    messages: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]
    for number, (name, arguments) in enumerate(calls, start=1):
        params = {"name": name, "arguments": arguments}
        messages.append({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
    told = "".join(json.dumps(message) + "\n" for message in messages)
    said = [
        json.loads(line)
        for line in home.rota("mcp", *options, stdin=told, env=env).stdout.splitlines()
    ]
    assert [answer["id"] for answer in said] == list(range(len(calls) + 1))
    return [
        answer["result"]["content"][0]["text"] if "result" in answer else answer["error"]["message"]
        for answer in said[1:]
    ]


def test_an_agent_previews_submits_reads_and_cancels(home: Box) -> None:
    preview, submitted = talk(
        home,
        ("plan", {"command": "echo hello", "cpus": 1}),
        ("submit", {"command": "echo hello; pwd", "name": "greet", "cpus": 1}),
    )
    greet = int(submitted.rpartition(" ")[2])
    home.ended(greet)

    printed, listed, submitted = talk(
        home,
        ("logs", {"job": greet}),
        ("queue", {"limit": 1}),
        ("submit", {"command": "sleep 300", "cpus": 1}),
    )
    sleeper = int(submitted.rpartition(" ")[2])
    why, cancelled = talk(home, ("why", {"job": "@"}), ("cancel", {"job": sleeper}))

    assert preview.startswith("it would start now")
    assert printed == f"hello\n{home.work}\n"
    assert [(job["id"], job["state"]) for job in json.loads(listed)] == [(greet, "completed")]
    assert "box" in why
    assert cancelled == f"cancelled job {sleeper}"
    assert home.ended(sleeper)["state"] == "cancelled"


def test_an_agent_that_may_only_look_cannot_submit(home: Box) -> None:
    (refused,) = talk(home, ("submit", {"command": "true"}), options=("--read-only",))

    assert refused == "no tool 'submit'; there are queue, show, why, logs, nodes, plan, limits"


def test_every_change_is_previewed_before_it_is_done(home: Box) -> None:
    previews = talk(
        home,
        ("submit", {"command": "sleep 300", "array": "0-3", "preview": True}),
        ("queue", {"limit": 1}),
    )
    (submitted,) = talk(home, ("submit", {"command": "sleep 300", "array": "0-3", "name": "many"}))
    job = int(submitted.split()[2].rstrip(":"))
    calls = ("hold", "release", "cancel")
    said = talk(
        home,
        *((verb, {"job": job, "preview": True}) for verb in calls),
        ("update", {"job": job, "time": "1h", "preview": True}),
    )
    state = home.rota("queue", "--json").stdout

    done = talk(home, ("update", {"job": job, "time": "1h"}), ("cancel", {"job": job}))

    assert previews[0].startswith("4 jobs; of the first one:\nall 4 elements would start now")
    assert submitted == f"submitted job {job}: 4 jobs"
    assert [line.split(f" job {job}")[0] for line in said[:3]] == [f"would {v}" for v in calls]
    assert said[3].splitlines()[-1] == "time_limit_s: 0 -> 3600"
    assert "many" in state
    assert done == [f"changed job {job}: time_limit_s", f"cancelled job {job}"]


def test_a_token_of_a_project_is_scope_and_budget(home: Box) -> None:
    home.rota("project", "add", "agents")
    home.rota("quota", "set", "--project", "agents", "--cpus", "1")
    other = home.submit("--", "sleep", "300")
    token = home.rota("token", "create", "--project", "agents", "--expires", "1h").stdout.strip()
    env = {"ROTA_URL": f"unix://{home.state}/rota.sock", "ROTA_TOKEN": token}

    limits, submitted, escaped, large, foreign = talk(
        home,
        ("limits", {}),
        ("submit", {"command": "true", "cpus": 1}),
        ("submit", {"command": "true", "project": "other"}),
        ("submit", {"command": "true", "cpus": 2}),
        ("cancel", {"job": other}),
        env=env,
    )
    more = home.rota("token", "create", check=False, env=env)

    told = json.loads(limits)
    job = home.ended(int(submitted.split()[2]))
    assert (told["token"]["project"], told["quota"]["hard"]["cpus"]) == ("agents", 1)
    assert (job["project"], job["state"]) == ("agents", "completed")
    assert escaped == "project: 'other': this token is for jobs of project agents"
    assert "project agents" in large
    assert foreign == f"job {other} is not of project agents, which this token is for"
    assert "this token is for jobs of project agents" in more.stderr
    home.rota("cancel", str(other))
    home.rota("project", "remove", "agents")


class Session:
    """A conversation as an agent holds it: each message waits for its answer."""

    def __init__(self, home: Box) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rota.cli.main", "mcp"],
            cwd=home.work,
            env=home.env,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._number = 0

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self.tell(message)
        assert self._process.stdout is not None
        answer = json.loads(self._process.stdout.readline())
        assert answer["id"] == self._number
        result: dict[str, Any] = answer["result"]
        return result

    def tell(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def end(self) -> int:
        """The exit code once the agent has hung up."""
        self._process.communicate(timeout=60)
        return self._process.returncode


def test_a_session_lists_tools_acts_and_sees_what_came_of_it(home: Box) -> None:
    session = Session(home)
    begun = session.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={})
    session.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
    tools = {tool["name"]: tool for tool in session.ask("tools/list")["tools"]}
    asked = {
        "command": "echo $GREETING $ROTA_ARRAY_INDEX",
        "array": "0-1",
        "env": {"GREETING": "hi"},
    }

    submitted = session.ask("tools/call", name="submit", arguments=asked)
    job = int(submitted["content"][0]["text"].split()[2].rstrip(":"))
    home.ended(job)
    printed = session.ask("tools/call", name="logs", arguments={"job": f"{job}_1"})
    wrong = session.ask("tools/call", name="logs", arguments={"job": 999999})

    assert begun["protocolVersion"] == "2025-06-18"
    assert tools["submit"]["inputSchema"]["properties"]["array"]["type"] == "string"
    assert printed["content"][0]["text"] == "hi 1\n"
    assert wrong["isError"]
    assert session.end() == 0


def test_a_token_that_may_only_look_is_offered_nothing_else(home: Box) -> None:
    token = home.rota("token", "create", "--access", "viewer").stdout.strip()
    env = {"ROTA_URL": f"unix://{home.state}/rota.sock", "ROTA_TOKEN": token}

    (refused,) = talk(home, ("cancel", {"job": 1}), env=env)

    assert refused.startswith("no tool 'cancel'; there are queue,")
