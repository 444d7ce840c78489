"""What a request to slurmrestd's paths asks, and how it is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rota.api.context import Context
    from rota.core.facts.tenant import Actor

#: Slurm's number for a job that is not there.
INVALID_JOB = 2017


class RestRequest(NamedTuple):
    """One request: ``name`` is the last word of a path that ends with one."""

    context: Context
    actor: Actor
    name: str
    query: dict[str, str]
    body: bytes


def error_entry(
    description: str, number: int, error: str = "Unspecified error", source: str = ""
) -> dict[str, Any]:
    entry: dict[str, Any] = {"description": description} if description else {}
    entry |= {"error_number": number, "error": error}
    return {**entry, "source": source} if source else entry


class RestRefusal(Exception):
    """Ends a request with errors, and with what the document holds beside them."""

    def __init__(
        self, entry: dict[str, Any], status: int = 500, *also: dict[str, Any], **more: object
    ) -> None:
        super().__init__(entry)
        self.entries = [entry, *also]
        self.status = status
        self.more = more


def unread(entry: dict[str, Any]) -> RestRefusal:
    """A body that makes no sense; slurmrestd says so in two errors."""
    return RestRefusal(entry, 400, {"error_code": 9001, "error": "Failure during parsing"})


def unknown_key(name: str) -> RestRefusal:
    return unread({"description": f'Unknown key "{name}"', "source": "hsearch_r"})
