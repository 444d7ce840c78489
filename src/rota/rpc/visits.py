"""What people want of single attempts: to read and search logs, to attach, to reach ports.

Each exchange has a number of its own. None of it concerns the sets of attempts that controller
and agent keep in step, so it may come at any time between the messages about those.
"""

from __future__ import annotations

import msgspec

from rota.rpc.bases import FromAgent, ToAgent

#: What the error of an answer says that the node did not have in time.
NOT_IN_TIME = "not in time"


class LogPart(FromAgent, frozen=True, tag="log-part"):
    """The answer to ``ReadLog``. ``size`` is the file's length when it was read."""

    request: int
    offset: int
    body: bytes
    size: int
    error: str = ""


class FoundLine(msgspec.Struct, frozen=True, array_like=True):
    """One line of a log: its number from 1, whether it is a hit or beside one, its bytes."""

    number: int
    hit: bool
    body: bytes


class LogFound(FromAgent, frozen=True, tag="log-found"):
    """The answer to ``SearchLog``. When ``over`` the log has been looked through; else the search
    goes on at ``offset``, whose line has the number ``line``, with fresh lines from ``fresh`` on.
    """

    request: int
    lines: tuple[FoundLine, ...] = ()
    over: bool = True
    offset: int = 0
    line: int = 1
    fresh: int = 0
    error: str = ""


class TerminalOutput(FromAgent, frozen=True, tag="terminal-output"):
    """What a terminal shows to one who is attached; ``over`` is the last of it."""

    request: int
    body: bytes = b""
    over: bool = False
    error: str = ""


class TunnelOutput(FromAgent, frozen=True, tag="tunnel-output"):
    """What a port of a job sends. ``end``: it will send no more; ``over``: all is closed."""

    request: int
    body: bytes = b""
    end: bool = False
    #: Bytes of input that the port has taken since the last time: as much may follow.
    taken: int = 0
    over: bool = False
    error: str = ""


class ReadLog(ToAgent, frozen=True, tag="read-log"):
    """Read from ``offset`` (negative: from the end, in lines back when ``lines``)."""

    request: int
    uid: str
    stream: str
    offset: int
    limit: int
    lines: int = 0
    #: Where the job asked its output to go; empty: the agent's own log folder.
    path: str = ""
    #: Whose file ``path`` is: it is opened with that user's rights.
    user: str = ""


class SearchLog(ToAgent, frozen=True, tag="search-log"):
    """Look for lines in a log, on the node; ``context`` lines beside each hit come along.

    The answer is bounded: with ``over`` unset the caller asks again where it stopped.
    """

    request: int
    uid: str
    stream: str
    pattern: str
    regex: bool = False
    ignore_case: bool = False
    context: int = 0
    #: The most hits.
    hits: int = 1000
    offset: int = 0
    line: int = 1
    #: Lines before this byte were looked at; they only serve as context.
    fresh: int = 0
    path: str = ""
    user: str = ""


class OpenTerminal(ToAgent, frozen=True, tag="open-terminal"):
    """Attach to the terminal of an attempt; its output comes under this number.

    With ``argv`` it is another one, on which this runs beside the attempt's program, as ``user``.
    """

    request: int
    uid: str
    argv: tuple[str, ...] = ()
    user: str = ""


class TerminalInput(ToAgent, frozen=True, tag="terminal-input"):
    """What was typed, the size of the window where it is known, how much output was taken."""

    request: int
    body: bytes = b""
    rows: int = 0
    columns: int = 0
    #: Bytes of output that have reached the viewer since the last time: as much may follow.
    taken: int = 0


class CloseTerminal(ToAgent, frozen=True, tag="close-terminal"):
    request: int


class OpenTunnel(ToAgent, frozen=True, tag="open-tunnel"):
    """Connect to a port on which a task of a job listens; its bytes come under this number."""

    request: int
    uid: str
    port: int
    #: The caller's machine, by its boot, and the sockets on which the caller itself listens there:
    #: what arrives at one of those would come back for ever.
    boot: str = ""
    own: tuple[int, ...] = ()


class TunnelInput(ToAgent, frozen=True, tag="tunnel-input"):
    """Bytes for the port; ``end``: no more will come; ``taken`` as in ``TunnelOutput``."""

    request: int
    body: bytes = b""
    end: bool = False
    taken: int = 0


class CloseTunnel(ToAgent, frozen=True, tag="close-tunnel"):
    request: int


class SendSignal(ToAgent, frozen=True, tag="send-signal"):
    """A signal for the first process of an attempt, which is not asked to end by it.

    ``group``: for all processes of the attempt, whatever group they have put themselves into.
    """

    uid: str
    number: int
    group: bool = False


class WriteRemark(ToAgent, frozen=True, tag="write-remark"):
    """A line for the end of a file of an attempt, opened with the rights of its user."""

    uid: str
    path: str
    user: str
    text: str


class StartBeside(ToAgent, frozen=True, tag="start-beside"):
    """One more process in a running attempt, with the attempt's environment and its limits."""

    uid: str
    user: str
    argv: tuple[str, ...]


#: What people want of single attempts: the state machine of the agent has no part in it.
Visit = (
    ReadLog
    | SearchLog
    | OpenTerminal
    | TerminalInput
    | CloseTerminal
    | OpenTunnel
    | TunnelInput
    | CloseTunnel
    | SendSignal
    | WriteRemark
    | StartBeside
)
