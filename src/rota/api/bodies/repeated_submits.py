"""Jobs that differ in their command alone: what they have in common is checked once.

A script that submits in a loop sends the same environment, folder and resources with each job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from rota.api.bodies import checks
from rota.api.bodies.submission import Desk, name_of, to_submission, work_of

if TYPE_CHECKING:
    from rota.api.bodies.requests import JobRequest
    from rota.controller.commands.commands import Submission
    from rota.core.facts.tenant import Actor


class _Listening(Desk):
    """A desk that notes whether it was asked: the answer may be another one the next time."""

    def __init__(self, desk: Desk) -> None:
        # What is missing here is found below, and noted.
        self._desk = desk
        self.knows_blob, self.vault, self.limits = desk.knows_blob, desk.vault, desk.limits
        self.was_asked = False

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the desk has
        self.was_asked = True
        return getattr(self._desk, name)


class RepeatedSubmits:
    """Remembers the last job that was taken in, without its command and name."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._last: tuple[Actor, JobRequest, Submission] | None = None

    def submission(self, request: JobRequest, actor: Actor) -> Submission:
        """The same as ``to_submission``, and as strict."""
        rest = replace(request, command="", name="")
        if self._last is not None and self._last[:2] == (actor, rest):
            made = self._last[2]
            spec = made.spec
            if all(map(self._desk.knows_blob, filter(None, (spec.environment, spec.stdin)))):
                blobs: dict[str, bytes] = {}
                command, script = work_of(request, self._desk, blobs)
                name = checks.name(request.name) if request.name else name_of(request)
                same = replace(spec, command=command, script=script, name=name)
                return replace(made, spec=same, blobs=blobs)
        desk = _Listening(self._desk)
        made = to_submission(request, actor, desk)
        # Values of a sweep are text by how they are written: 1 and 1.0 are equal, yet not alike.
        if not desk.was_asked and not request.script and request.parameters is None:
            # Its blobs may be megabytes, and are in the store when they are needed next.
            self._last = (actor, rest, replace(made, blobs={}))
        return made
