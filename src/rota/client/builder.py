"""A job put together step by step, for commands that are not Python functions.

job = rota.Job("train").command("python", "train.py").cpus(4).gpus(2, "A100").time_limit("2h")
cluster.launch(job)

Every step gives a new builder, so that one can be the start of several. A step refuses what
cannot be meant with a ``ValueError``; what only the controller can know, it refuses at launch.
"""

from __future__ import annotations

import os
from typing import Any

from rota.core.words.units import parse_cpu_milli, parse_duration_s, parse_memory_mib

#: What a job has to name at least one of.
RESOURCES = ("cpus", "memory_mb", "gpus")


class Job:
    """A request in the making; ``request()`` is what ``POST /jobs`` takes."""

    def __init__(self, name: str = "") -> None:
        self._fields: dict[str, Any] = {"priority": "normal", "workdir": os.getcwd()}
        self._resources: dict[str, Any] = {}
        if name:
            self._fields["name"] = name

    def _with(self, **fields: object) -> Job:
        other = Job()
        other._fields = {**self._fields, **fields}
        other._resources = dict(self._resources)
        return other

    def _asking(self, **resources: object) -> Job:
        other = self._with()
        other._resources |= resources
        return other

    def command(self, *words: str) -> Job:
        """The program and its arguments, run as they are."""
        if not words:
            raise ValueError("command: name at least the program")
        return self._with(command=[str(word) for word in words])

    def shell(self, line: str) -> Job:
        """A line for ``/bin/sh`` in place of a command."""
        return self._with(command=line)

    def cpus(self, count: float | str) -> Job:
        """CPUs, also parts of one: ``4``, ``1.5``, ``"500m"``."""
        return self._asking(cpus=parse_cpu_milli(str(count)) / 1000)

    def memory(self, size: str | int) -> Job:
        """``16g``, ``512m``, or a number of MiB."""
        return self._asking(memory_mb=parse_memory_mib(size) if isinstance(size, str) else size)

    def gpus(self, count: int = 1, model: str = "") -> Job:
        """Whole GPUs, of one model if it is named."""
        if count < 1:
            raise ValueError(f"gpus: {count} is not valid; at least 1")
        asked = {"gpus": count, "gpu_type": model} if model else {"gpus": count}
        return self._asking(**asked)

    def priority(self, priority: int | str) -> Job:
        """0 to 100, or ``low``, ``normal``, ``high``."""
        return self._with(priority=priority)

    def time_limit(self, time: str | int) -> Job:
        """``2h``, ``90m``, or seconds."""
        return self._with(time_limit_s=parse_duration_s(str(time)))

    def env(self, **variables: str) -> Job:
        """Variables on top of those of this process."""
        return self._with(env={**self._fields.get("env", {}), **variables})

    def options(self, **fields: object) -> Job:
        """Any other field of a request: ``queue=``, ``project=``, ``retries=``, ``labels=``."""
        return self._with(**fields)

    def request(self) -> dict[str, Any]:
        """The finished request. Refused without a command or without any resource."""
        if not self._fields.get("command") and not self._fields.get("script"):
            raise ValueError("a job needs a command: say .command('python', 'train.py')")
        if not any(name in self._resources for name in RESOURCES):
            raise ValueError("a job needs a resource: say .cpus(1), .memory('1g') or .gpus(1)")
        inherited = {name: value for name, value in os.environ.items() if name != "ROTA_TOKEN"}
        env = {**inherited, **self._fields.get("env", {})}
        return {**self._fields, "env": env, "resources": dict(self._resources)}
