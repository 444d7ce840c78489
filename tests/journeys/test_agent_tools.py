"""An agent lists, previews, does and asks why, through ``rota mcp`` on a real box."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.journeys.box import Box


def talk(home: Box, *calls: tuple[str, dict[str, Any]], options: tuple[str, ...] = ()) -> list[str]:
    """What each tool answers, in one conversation."""
    messages: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]
    for number, (name, arguments) in enumerate(calls, start=1):
        params = {"name": name, "arguments": arguments}
        messages.append({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
    told = "".join(json.dumps(message) + "\n" for message in messages)
    said = [json.loads(line) for line in home.rota("mcp", *options, stdin=told).stdout.splitlines()]
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

    assert refused == "no tool 'submit'; there are queue, show, why, logs, nodes, plan"
