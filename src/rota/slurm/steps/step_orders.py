"""What those who start the tasks of a step are told: what to run, and where its streams go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.slurm.steps.step_plan import file_name, task_environment

if TYPE_CHECKING:
    from rota.slurm.orders.orders import Order
    from rota.slurm.steps.step_plan import Member, Place, Plan


class Streams:
    """The orders of one step. ``home`` is the member as which srun itself runs; -1: none."""

    def __init__(self, plan: Plan, home: int, cwd: str) -> None:
        self._plan = plan
        self._home = home
        self._cwd = cwd

    def spawn_order(self, member: Member, env: dict[str, str] | None) -> dict[str, Any]:
        """For one member; without an environment the tasks have that of whoever starts them."""
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
                    "argv": self._plan.parts[place.part].argv,
                    "env": task_environment(self._plan, place),
                    **self._of(place),
                }
                for place in places
            ],
            "append": order.text("open-mode").startswith("a"),
            "pty": order.has("pty"),
            "node": member.node,
            "whole": len(places) == len(self._plan.places),
        }

    @property
    def wants_stdin(self) -> bool:
        """Whether somebody reads what srun is given."""
        if self._plan.parts[0].order.has("pty"):
            return True
        return any(self._of(place)["stdin"] == "pipe" for place in self._plan.places)

    def _order(self, place: Place) -> Order:
        return self._plan.parts[place.part].order

    def _folder(self, order: Order) -> str:
        asked = order.text("chdir")
        if not asked:
            return self._cwd
        return asked if asked.startswith("/") else f"{self._cwd.rstrip('/')}/{asked}"

    def _of(self, place: Place) -> dict[str, str]:
        """Where the three streams of a task go: ``inherit``, ``pipe``, a path, or nowhere."""
        order = self._order(place)
        label = self._plan.parts[0].order.has("label")
        here = place.member.task == self._home and not label
        usual = "inherit" if here else "pipe"
        alone = here and len(self._plan.places) == 1
        found = {
            "stdin": self._input(place, alone),
            "stdout": self._output(order.text("output"), place, usual),
        }
        error = order.text("error")
        found["stderr"] = self._output(error, place, usual)
        if not error and found["stdout"] not in ("inherit", "pipe"):
            found["stderr"] = found["stdout"]
        return found

    def _output(self, pattern: str, place: Place, usual: str) -> str:
        if pattern in ("", "all"):
            return usual
        if pattern == "none":
            return ""
        if pattern.isdecimal():
            return usual if int(pattern) == place.rank else ""
        return file_name(pattern, self._plan, place, self._folder(self._order(place)))

    def _input(self, place: Place, alone: bool) -> str:
        order = self._order(place)
        pattern = order.text("input")
        if pattern == "none":
            return ""
        if pattern.isdecimal():
            return "pipe" if int(pattern) == place.rank else ""
        if pattern in ("", "all"):
            return "inherit" if alone else "pipe"
        return file_name(pattern, self._plan, place, self._folder(order))
