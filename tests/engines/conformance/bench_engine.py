"""What the benches of all engines share: one process of Rota's that serves the engine."""

from __future__ import annotations

import asyncio
import sqlite3
from abc import abstractmethod
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from rota.backends.registry import make
from tests.engines.conformance.bench import Bench
from tests.engines.conformance.scenarios import Power

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from rota.backends.api import Feature
    from tests.engines.conformance.scenarios import Need

HOST = "host"
ENGINE = "lab"
#: Short, so that what waits for a machine that is gone soon waits for another.
GIVE_BACK_S = 8.0
#: Faults that lie between the controller and its nodes, on every backend.
SESSION = ("repeat", "gap", "again")


class EngineBench(Bench):
    """``agent`` is the engine's: ``rota engine run``."""

    suffix = f".{ENGINE}"
    powers: ClassVar[frozenset[Power]]

    @property
    @abstractmethod
    def table(self) -> dict[str, Any]:
        """What ``[engines.NAME]`` says."""

    @abstractmethod
    def engine_fault(self, name: str, target: str) -> AbstractContextManager[None]:
        """A fault of the engine itself, or before it."""

    @abstractmethod
    def revive(self) -> None:
        """Kill the engine's own server, and start it again."""

    @property
    def host_env(self) -> dict[str, str]:
        return {}

    @property
    def has(self) -> frozenset[Need]:
        return self.powers | asyncio.run(self._features())

    async def _features(self) -> frozenset[Feature]:
        _, driver = make(ENGINE, self.table)
        await driver.open()
        await driver.close()
        return driver.features

    def begin(self) -> None:
        lines = [f"{key} = {_toml(value)}" for key, value in self.table.items()]
        config = self.root / "rota.toml"
        config.write_text("\n".join([f"[engines.{ENGINE}]", *lines, ""]))
        words = ("engine", "run", ENGINE, "--join", self.url)
        self.join(HOST, *words, ROTA_CONFIG=str(config), **self.host_env)
        self.until_up()

    @contextmanager
    def fault(self, name: str, target: str = "") -> Iterator[None]:
        if name in SESSION:
            with self.session_fault(name):
                yield
        elif name == "unserved":
            self.kill(HOST)
            yield
            self.begin()
        else:
            with self.engine_fault(name, target):
                yield
            if target in self.machines:
                self.restart("agent")  # It looks at the nodes as it starts.

    def restart(self, part: str) -> None:
        if part == "controller":
            self.box.kill("controller")
        elif part == "engine":
            self.revive()
        else:
            with self.fault("unserved"):
                for path in self.home.glob("journal.db*") if part == "journal" else ():
                    path.unlink()

    @property
    def home(self) -> Path:
        return self.root / HOST / "engines" / ENGINE

    @property
    def cluster(self) -> str:
        """What stands in every key of this Rota."""
        with closing(sqlite3.connect(self.home / "journal.db")) as journal:
            row = journal.execute("SELECT value FROM facts WHERE name = 'cluster'").fetchone()
        return str(row[0])


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {_toml(each)}' for key, each in value.items())}}}"
    return msgspec.json.encode(value).decode()
