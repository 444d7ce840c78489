"""What people want of single attempts on this node: their logs, their terminals, their ports."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from rota.agent.chores import Complaints
from rota.agent.files.reports import drop_old_reports
from rota.agent.visits.log_days import QUIET_S, STAYS, drop_old_days, file_away, trusted_s
from rota.agent.visits.log_order import LogOrder
from rota.agent.visits.logs import Logs, close_to_others, drop_beginning
from rota.agent.visits.terminals import Terminals
from rota.agent.visits.tunnels import Tunnels
from rota.keeper.processes import start_of
from rota.rpc.visits import (
    CloseTunnel,
    OpenTunnel,
    ReadLog,
    SearchLog,
    SendSignal,
    StartBeside,
    TunnelInput,
    WriteRemark,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.agent.agent_config import AgentConfig
    from rota.agent.chores import Chore
    from rota.rpc.messages import AgentMessage
    from rota.rpc.visits import Visit
    from rota.session.charge import Alive

#: How often the logs of running attempts are measured, and old ones looked for.
MEASURE_S, LOOK_S, DAY_S = 5.0, 3600.0, 86_400.0


class Visits:
    """Answers visits. ``alive`` gives every running attempt, its uid first."""

    def __init__(
        self,
        config: AgentConfig,
        send: Callable[[AgentMessage], object],
        alive: Callable[[], list[Alive]],
        tell_keeper: Callable[[bytes], None],
    ) -> None:
        self._config = config
        self._send = send
        self._alive = alive
        self._tell_keeper = tell_keeper
        self._logs = Logs(config.folder)
        self._terminals = Terminals(config.folder, send, tell_keeper)
        self._tunnels = Tunnels(send, self._pid_of)
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, message: Visit) -> None:
        if isinstance(message, ReadLog | SearchLog | WriteRemark):
            task = asyncio.get_running_loop().create_task(self._visit_log(message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif isinstance(message, OpenTunnel | TunnelInput | CloseTunnel):
            self._tunnels.take(message)
        elif isinstance(message, SendSignal):
            self._signal(message)
        elif isinstance(message, StartBeside):
            order = {"op": "beside", "uid": message.uid, "user": message.user}
            self._tell_keeper(msgspec.json.encode(order | {"argv": message.argv}))
        else:
            self._terminals.take(message)

    def _signal(self, message: SendSignal) -> None:
        """To the first process of the attempt, if it lives: its number may be another's."""
        if message.group:
            order = {"op": "signal", "uid": message.uid, "signal": message.number}
            self._tell_keeper(msgspec.json.encode(order))
            return
        for one in self._alive():
            if one.uid == message.uid and one.start == start_of(one.pid) > 0:
                with suppress(OSError):
                    os.kill(one.pid, message.number)

    async def _visit_log(self, message: ReadLog | SearchLog | WriteRemark) -> None:
        if isinstance(message, ReadLog):
            self._send(await self._logs.read(message))
        elif isinstance(message, SearchLog):
            self._send(await self._logs.search(message))
        else:
            await self._logs.remark(message)

    def close(self) -> None:
        """The controller has gone: so has everybody who came by way of it."""
        for task in self._tasks:
            task.cancel()
        self._terminals.close()
        self._tunnels.close()

    def stop(self) -> None:
        """The agent ends."""
        self.close()
        self._logs.close()

    def chores(self) -> dict[str, Chore]:
        """What has to be looked after all the time; the files of all jobs are many."""
        order = LogOrder(self._config.folder, self._uids)
        chores: dict[str, Chore] = {"old logs": self._tidy_logs, "order of logs": order.run}
        if self._config.log_max_bytes:
            chores["size of logs"] = self._hold_down
        return chores

    def _pid_of(self, wanted: str) -> int:
        return next((one.pid for one in self._alive() if one.uid == wanted), 0)

    def _uids(self) -> frozenset[str]:
        return frozenset(one.uid for one in self._alive())

    async def _tidy_logs(self) -> None:
        logs = self._config.folder / "logs"
        await asyncio.to_thread(close_to_others, self._config.folder)
        moving, dropping = Complaints(STAYS), Complaints(STAYS)
        while True:
            await asyncio.to_thread(file_away, logs, time.time() - QUIET_S, self._uids(), moving)
            if self._config.log_days:
                now_s = await asyncio.to_thread(trusted_s, self._config.folder, time.time())
                before_s = now_s - self._config.log_days * DAY_S
                await asyncio.to_thread(drop_old_days, logs, before_s, self._uids(), dropping)
                folder = self._config.folder
                await asyncio.to_thread(drop_old_reports, folder, before_s, self._uids())
            await asyncio.sleep(LOOK_S)

    async def _hold_down(self) -> None:
        """No job fills the disk with what it prints."""
        logs = self._config.folder / "logs"
        while True:
            for uid in sorted(self._uids()):
                for ending in ("out", "err"):
                    path = str(logs / f"{uid}.{ending}")
                    await asyncio.to_thread(drop_beginning, path, self._config.log_max_bytes)
            await asyncio.sleep(MEASURE_S)
