"""Connections of agents: how a message reaches one, and how a question to one gets its answer."""

from __future__ import annotations

import asyncio
import itertools
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.controller.agents.news_budget import NewsBudget
from rota.controller.agents.refusals import Refusals
from rota.controller.agents.report_checks import doubt
from rota.controller.agents.visit_lines import TerminalLine, TunnelLine
from rota.core.facts.errors import Unavailable
from rota.rpc.messages import (
    AgentAnswer,
    CheckpointAnswer,
    DeviceUse,
    Farewell,
    Hello,
    Measured,
    NewKey,
    ReadBundle,
    RenewKey,
    Resized,
    SessionRefused,
    Welcome,
    encode,
)
from rota.rpc.visits import (
    LogFound,
    LogPart,
    OpenTerminal,
    OpenTunnel,
    ReadLog,
    SearchLog,
    TerminalOutput,
    TunnelOutput,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.controller.agents.bundles import BundleShelf
    from rota.rpc.messages import AgentMessage, ControllerMessage

#: An agent that does not answer a question in this time is treated as absent.
ANSWER_S = 10.0
#: What answers what; everything else is about saved work.
_ANSWERS: dict[type, type[AgentAnswer]] = {
    ReadLog: LogPart,
    SearchLog: LogFound,
    RenewKey: NewKey,
}
#: What a node says of itself, and what becomes an event each time.
_NEWS = Hello | Resized | DeviceUse | Farewell
#: Agents that are taken in at one time; more are told to come a little later.
NEWCOMERS_MAX = 1000
#: An agent of which more waits for the next tick than this is not listened to any longer.
WAITING_BYTES_MAX = 64 * 1024 * 1024


class AgentLink:
    """One open connection; ``outbox`` is drained by the owner of the socket, None ends it."""

    def __init__(self, number: int, shown: str, place: str) -> None:
        self.number = number
        #: The id of the token that it came with (empty: the local socket), and where from.
        self.shown = shown
        self.place = place
        #: The name that its agent gave itself.
        self.node = ""
        self.outbox: asyncio.Queue[bytes | None] = asyncio.Queue()
        #: How a message goes out; the owner of the socket may know a shorter way.
        self.write: Callable[[bytes], None] = self.outbox.put_nowait
        #: Whether its agent has said who it is.
        self.greeted = False
        #: Whether its agent was taken in: before that it is given nothing of anybody's.
        self.admitted = False
        #: Its agent did not keep to the protocol: nothing more is heard of it.
        self.refused = False
        #: How many bytes of its messages wait for the next tick.
        self.waiting_bytes = 0
        #: The size of its hello, and whether it speaks for an engine.
        self.hello_bytes, self.engine = 0, False


class Question(NamedTuple):
    """What we asked, of whom, and what kind of message answers it."""

    link: int
    kind: type[AgentAnswer]
    answer: asyncio.Future[Any]


class Links:
    """All open connections."""

    def __init__(self, put: Callable[[int, AgentMessage | None, str], None]) -> None:
        self._put = put
        self.refusals = Refusals()
        self._numbers = itertools.count(1)
        self._links: dict[int, AgentLink] = {}
        self._questions: dict[int, Question] = {}
        self._news = NewsBudget()
        #: Those whose hello waits for the next tick.
        self._newcomers: set[int] = set()
        #: Those of whom something waits for the next tick.
        self._waiting: list[AgentLink] = []
        #: Who has the working folders that agents fetch.
        self.bundles: BundleShelf | None = None
        #: Who hears what is measured: it changes no state and waits for no tick.
        self.measured: Callable[[int, Measured], None] = lambda link, message: None
        self._terminals: dict[int, TerminalLine] = {}
        self._tunnels: dict[int, TunnelLine] = {}

    @property
    def is_rushed(self) -> bool:
        """Whether more agents come at once than are taken in at once."""
        return len(self._newcomers) >= NEWCOMERS_MAX

    def open(self, shown: str, place: str) -> AgentLink:
        link = AgentLink(next(self._numbers), shown, place)
        self._links[link.number] = link
        return link

    def objection(self, link: AgentLink, message: AgentMessage, size: int = 0) -> str:
        """Why a message of an agent is not taken in, in one line; empty: it is."""
        if isinstance(message, Hello) == link.greeted:
            return "a second hello on one connection" if link.greeted else "the hello comes first"
        if link.waiting_bytes > WAITING_BYTES_MAX:
            return "this agent says more than can be heard"
        # On the controller's own socket it is root, or the user that the controller runs as.
        if link.shown and isinstance(message, _NEWS):
            node = message.node.name if isinstance(message, Hello) else link.node
            if wait_s := self._news.wait_s(node):
                return f"node {node} says too much of itself; it is heard again in {wait_s:.0f} s"
            if link.admitted:
                self._news.spend(node, size, engine=link.engine)
        return doubt(message)

    def drained(self) -> None:
        """A tick has taken everything out of the inbox."""
        for link in self._waiting:
            link.waiting_bytes = 0
        self._waiting.clear()

    def heard(self, link: AgentLink, message: AgentMessage, size: int = 0) -> None:
        """Answers go to who asked; everything else concerns the state and goes to the inbox."""
        if isinstance(message, AgentAnswer):
            self._answered(link, message)
            return
        if isinstance(message, Measured):
            self.measured(link.number, message)
            return
        if isinstance(message, ReadBundle):
            if self.bundles is not None and link.admitted:
                self.send(link.number, self.bundles.read(message))
            return
        if isinstance(message, TerminalOutput | TunnelOutput):
            self._passed_on(link, message)
            return
        if isinstance(message, Hello):
            link.greeted, link.node = True, message.node.name
            link.hello_bytes, link.engine = size, bool(message.engine)
            self._newcomers.add(link.number)
        if not link.waiting_bytes:
            self._waiting.append(link)
        link.waiting_bytes += size
        self._put(link.number, message, link.shown)

    def _passed_on(self, link: AgentLink, message: TerminalOutput | TunnelOutput) -> None:
        if isinstance(message, TerminalOutput):
            terminal = self._terminals.get(message.request)
            if terminal is not None and terminal.link == link.number:
                terminal.heard(message)
            return
        tunnel = self._tunnels.get(message.request)
        if tunnel is not None and tunnel.link == link.number:
            tunnel.heard(message)

    def _answered(self, link: AgentLink, message: AgentAnswer) -> None:
        """Only whom we asked can answer, and only with what we asked for."""
        question = self._questions.get(message.request)
        if question is None or question.link != link.number:
            return
        if isinstance(message, question.kind) and not question.answer.done():
            question.answer.set_result(message)

    def closed(self, link: AgentLink) -> None:
        lines: list[TerminalLine | TunnelLine] = [*self._terminals.values()]
        lines += self._tunnels.values()
        for line in lines:
            if line.link == link.number:
                line.cut()
        self._newcomers.discard(link.number)
        if self._links.pop(link.number, None) is not None:
            self._put(link.number, None, link.shown)

    def send(self, number: int, message: ControllerMessage) -> None:
        link = self._links.get(number)
        if link is None:
            return
        if isinstance(message, Welcome | SessionRefused):
            self._newcomers.discard(number)
        if isinstance(message, Welcome):
            link.admitted = True
            if link.shown:
                # Not before: anybody may say any name.
                self._news.spend(link.node, link.hello_bytes, engine=link.engine)
        elif isinstance(message, SessionRefused):
            link.admitted = False
            self.refusals.note(link.place, link.node, link.shown, message.reason)
        link.write(encode(message))

    def hang_up(self, number: int) -> None:
        link = self._links.get(number)
        if link is not None:
            link.outbox.put_nowait(None)

    def hang_up_all(self) -> None:
        for number in list(self._links):
            self.hang_up(number)

    def open_terminal(
        self, number: int, uid: str, argv: tuple[str, ...] = (), user: str = ""
    ) -> TerminalLine:
        """Attach to the terminal of an attempt; the last piece of output says why it ended.

        With ``argv`` it is a new one, on which that runs beside the attempt's program.
        """
        request = self._request_to(number)
        line = TerminalLine(number, request, partial(self.send, number))
        self._terminals[request] = line
        self.send(number, OpenTerminal(request, uid, argv, user))
        return line

    def leave_terminal(self, line: TerminalLine) -> None:
        if self._terminals.pop(line.request, None) is not None:
            line.close()

    def open_tunnel(
        self, number: int, uid: str, port: int, boot: str = "", own: tuple[int, ...] = ()
    ) -> TunnelLine:
        """Connect to a port of an attempt; the last piece of output says why it ended."""
        request = self._request_to(number)
        line = TunnelLine(number, request, partial(self.send, number))
        self._tunnels[request] = line
        self.send(number, OpenTunnel(request, uid, port, boot, own))
        return line

    def leave_tunnel(self, line: TunnelLine) -> None:
        if self._tunnels.pop(line.request, None) is not None:
            line.close()

    def _request_to(self, number: int) -> int:
        if number not in self._links:
            raise Unavailable("the node's agent is not connected")
        return next(self._numbers)

    async def read_log(
        self,
        number: int,
        *,
        uid: str,
        stream: str,
        offset: int,
        limit: int,
        lines: int = 0,
        path: str = "",
        user: str = "",
    ) -> LogPart:
        """Ask an agent for a piece of a log."""
        if number not in self._links:
            raise Unavailable("the node's agent is not connected, its logs cannot be read now")
        part: LogPart = await self.ask(
            number,
            lambda request: ReadLog(request, uid, stream, offset, limit, lines, path, user),
        )
        return part

    async def search_log(self, number: int, message: Callable[[int], SearchLog]) -> LogFound:
        """Ask an agent to look for lines in a log."""
        if number not in self._links:
            raise Unavailable("the node's agent is not connected, its logs cannot be read now")
        found: LogFound = await self.ask(number, message)
        return found

    async def ask(
        self,
        number: int,
        message: Callable[[int], ControllerMessage],
        answer_s: float = ANSWER_S,
    ) -> Any:  # noqa: ANN401 - each has its own answer
        """Ask an agent something, under a number that its answer carries."""
        request = next(self._numbers)
        asked = message(request)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        kind = _ANSWERS.get(type(asked), CheckpointAnswer)
        self._questions[request] = Question(number, kind, answer)
        self.send(number, asked)
        try:
            async with asyncio.timeout(answer_s):
                return await answer
        except TimeoutError:
            raise Unavailable("the node's agent did not answer in time") from None
        finally:
            self._questions.pop(request, None)
