"""What the starters of a step's tasks are told: what to run, and where its streams go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.digits import is_digits
from rota.slurm.steps.step_plan import file_name, task_environment

if TYPE_CHECKING:
    from rota.slurm.orders.orders import JobOrder
    from rota.slurm.steps.step_plan import StepMember, StepPlace, StepPlan


class Streams:
    """The orders of one step. ``home`` is the member as which srun itself runs; -1: none."""

    def __init__(self, plan: StepPlan, home: int, cwd: str, umask: int) -> None:
        self._plan = plan
        self._home = home
        self._cwd = cwd
        self._umask = f"{umask:04o}"
        #: Files that tasks of several members print to: srun itself writes those.
        self._shared: set[str] = set()
        self._shared = {path for path, tasks in self._writers().items() if len(tasks) > 1}

    def spawn_order(self, member: StepMember, env: dict[str, str] | None) -> dict[str, Any]:
        """For one member; without an environment the tasks have that of their starter."""
        places = self._plan.on(member)
        order = self._order(places[0])
        return {
            "op": "spawn",
            "step": self._plan.step,
            "cwd": self._folder(order),
            "env": env,
            "tasks": [
                {
                    "rank": place.rank,
                    "argv": self._plan.parts[place.part].argv_of(place.rank),
                    "env": {**task_environment(self._plan, place), "SLURM_UMASK": self._umask},
                    **self._of(place),
                }
                for place in places
            ],
            "append": order.text("open-mode").startswith("a"),
            "pty": order.has("pty"),
            "prolog": order.text("task-prolog"),
            "epilog": order.text("task-epilog"),
            "node": member.node,
            "whole": len(places) == len(self._plan.places),
        }

    def sinks(self) -> dict[str, Any] | None:
        """The order for srun to open files that several members print to; None: there are none."""
        files: dict[str, list[tuple[int, int]]] = {path: [] for path in sorted(self._shared)}
        for place in self._plan.places if files else ():
            for stream, path in enumerate(self._files(place), 1):
                if path in files:
                    files[path].append((place.rank, stream))
        if not files:
            return None
        append = self._plan.parts[0].order.text("open-mode").startswith("a")
        found = [{"path": path, "streams": streams} for path, streams in files.items()]
        return {"op": "sinks", "files": found, "append": append}

    def _writers(self) -> dict[str, set[int]]:
        """Paths of output, and the members whose tasks print there."""
        found: dict[str, set[int]] = {}
        for place in self._plan.places if len(self._plan.members) > 1 else ():
            for path in self._files(place):
                if path.startswith("/"):
                    found.setdefault(path, set()).add(place.member.task)
        return found

    @property
    def wants_stdin(self) -> bool:
        """Whether somebody reads what srun is given."""
        if self._plan.parts[0].order.has("pty"):
            return True
        return any(self._of(place)["stdin"] == "pipe" for place in self._plan.places)

    def _order(self, place: StepPlace) -> JobOrder:
        return self._plan.parts[place.part].order

    def _folder(self, order: JobOrder) -> str:
        asked = order.text("chdir")
        if not asked:
            return self._cwd
        return asked if asked.startswith("/") else f"{self._cwd.rstrip('/')}/{asked}"

    def _of(self, place: StepPlace) -> dict[str, str]:
        """Where the three streams of a task go: ``inherit``, ``pipe``, a path, or nowhere."""
        label = self._plan.parts[0].order.has("label")
        here = place.member.task == self._home and not label
        # Beside tasks elsewhere all output goes by way of srun, which knows whose it is.
        usual = "inherit" if here and len(self._plan.members) == 1 else "pipe"
        alone = here and len(self._plan.places) == 1
        stdout, stderr = self._files(place, usual)
        return {
            "stdin": self._input(place, alone),
            "stdout": "pipe" if stdout in self._shared else stdout,
            "stderr": "pipe" if stderr in self._shared else stderr,
        }

    def _files(self, place: StepPlace, usual: str = "pipe") -> tuple[str, str]:
        """Where both outputs of a task go; errors go with the rest unless a file is named."""
        order = self._order(place)
        stdout = self._output(order.text("output"), place, usual)
        stderr = self._output(order.text("error"), place, usual)
        if not order.text("error") and stdout not in ("inherit", "pipe"):
            stderr = stdout
        return stdout, stderr

    def _output(self, pattern: str, place: StepPlace, usual: str) -> str:
        if pattern in ("", "all"):
            return usual
        if pattern == "none":
            return ""
        if is_digits(pattern):
            return usual if int(pattern) == place.rank else ""
        return file_name(pattern, self._plan, place, self._folder(self._order(place)))

    def _input(self, place: StepPlace, alone: bool) -> str:
        order = self._order(place)
        pattern = order.text("input")
        if pattern == "none":
            return ""
        if is_digits(pattern):
            return "pipe" if int(pattern) == place.rank else ""
        if pattern in ("", "all"):
            return "inherit" if alone else "pipe"
        return file_name(pattern, self._plan, place, self._folder(order))
