"""``rota mcp``: Rota for agents, by the Model Context Protocol over standard input and output.

One JSON-RPC message per line. The protocol needs no more than this for tools, so that no package
beyond the standard library has to be there.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from rota import __version__
from rota.cli.shared import session
from rota.client.errors import ClientError
from rota.core.facts.errors import RotaError
from rota.core.facts.tenant import Access

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rota.cli.service.mcp_tools import Tool
    from rota.client.http import Client

#: Versions of the protocol that say the same about tools, the newest first.
VERSIONS = ("2025-06-18", "2025-03-26", "2024-11-05")
PARSE_ERROR, INVALID_REQUEST, NO_METHOD, BAD_PARAMS = -32700, -32600, -32601, -32602
ABOUT = (
    "Rota schedules jobs on shared machines. Ask 'limits' for what you may spend, 'plan' or "
    "'preview' before a change, and 'why' when a job waits."
)


class _Wrong(Exception):
    """An error of the protocol: its code and a line."""

    def __init__(self, code: int, line: str) -> None:
        super().__init__(line)
        self.code = code


class McpServer:
    """Answers one message at a time."""

    def __init__(self, connect: Callable[[], Client], tools: dict[str, Tool]) -> None:
        self._connect = connect
        self._client: Client | None = None
        #: What the agent must know of the server, beside each answer.
        self._remarks: set[str] = set()
        self._tools = tools
        #: Whether the token that is shown may change anything; None: not asked yet.
        self._may_change: bool | None = None

    def answer(self, line: str | bytes) -> dict[str, Any] | None:
        """The answer to one line; None for a notification."""
        number: object = None
        try:
            message = _read(line)
            number = message.get("id")
            if "id" not in message:
                return None
            result = self._result(message["method"], message.get("params") or {})
        except _Wrong as wrong:
            error = {"code": wrong.code, "message": str(wrong)}
            return {"jsonrpc": "2.0", "id": number, "error": error}
        return {"jsonrpc": "2.0", "id": number, "result": result}

    def _result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            asked = params.get("protocolVersion")
            return {
                "protocolVersion": asked if asked in VERSIONS else VERSIONS[0],
                "capabilities": {"tools": {"listChanged": False}},
                "serverInfo": {"name": "rota", "version": __version__},
                "instructions": ABOUT,
            }
        if method == "ping":
            return {}
        if method == "tools/list":
            return {"tools": [tool.schema(name) for name, tool in self._offered().items()]}
        if method == "tools/call":
            return self._call(params)
        raise _Wrong(NO_METHOD, f"there is no method {method!r}")

    def _reached(self) -> Client:
        if self._client is None:
            self._client = self._connect()
            self._client.remark = self._remarks.add
        return self._client

    def _offered(self) -> dict[str, Tool]:
        """What the token may use: one that may only look is shown nothing else."""
        if self._may_change is None:
            from rota.cli.service.mcp_tools import own_token

            try:
                token = own_token(self._reached())
            except RotaError:
                # The server says what it refuses, once it is there.
                return self._tools
            self._may_change = token is None or token["access"] != Access.VIEWER
        if self._may_change:
            return self._tools
        return {name: tool for name, tool in self._tools.items() if not tool.changes}

    def _call(self, params: dict[str, Any]) -> dict[str, Any]:
        """What a tool says. Its refusals are results, so that the agent can read them."""
        name, given = params.get("name"), params.get("arguments") or {}
        offered = self._offered()
        tool = offered.get(name) if isinstance(name, str) else None
        if tool is None:
            raise _Wrong(BAD_PARAMS, f"no tool {name!r}; there are {', '.join(offered)}")
        if not isinstance(given, dict):
            raise _Wrong(BAD_PARAMS, "arguments: must be an object")
        try:
            tool.check(given)
            text, failed = tool.act(self._reached(), given), False
        except (RotaError, ValueError) as error:
            text, failed = str(error), True
        said = [{"type": "text", "text": line} for line in (text, *sorted(self._remarks))]
        return {"content": said, "isError": failed}


def _read(line: str | bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except ValueError as error:
        raise _Wrong(PARSE_ERROR, f"not JSON: {error}") from None
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        raise _Wrong(INVALID_REQUEST, "a message is an object with a method")
    if not isinstance(message.get("params") or {}, dict):
        raise _Wrong(BAD_PARAMS, "params: must be an object")
    return message


def serve(server: McpServer, lines: Iterable[bytes], write: Callable[[str], object]) -> None:
    """Until the other end hangs up."""
    for line in lines:
        if not line.strip():
            continue
        answer = server.answer(line)
        if answer is not None:
            write(json.dumps(answer, ensure_ascii=False) + "\n")


@click.command()
@click.option("--read-only", is_flag=True, help="Leave out what changes anything.")
def mcp(read_only: bool) -> None:
    """Serve Rota to an agent, by the Model Context Protocol on standard input and output.

    \b
    In the agent's configuration:
      {"mcpServers": {"rota": {"command": "rota", "args": ["mcp"]}}}

    With ROTA_URL and ROTA_TOKEN it has the rights of that token: one of 'rota token create
    --project NAME' submits and changes jobs of that project only, within its quota.
    """
    from rota.cli.service.mcp_tools import TOOLS

    chosen = {name: tool for name, tool in TOOLS.items() if not (read_only and tool.changes)}

    def write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    try:
        serve(McpServer(session.connect, chosen), sys.stdin.buffer, write)
    except BrokenPipeError:
        raise ClientError("the other end is gone") from None
