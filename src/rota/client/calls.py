"""Python functions as jobs: how a call travels to the job.

Function and arguments are pickled by value where they must be (what is defined in ``__main__``, a
lambda, a closure) and by reference where the job can import them. The call is the job's standard
input, so it goes wherever the job goes. One that is too large for that is left in a folder that
job and submitter must share.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
from binascii import b2a_base64
from typing import TYPE_CHECKING, Any

import cloudpickle

from rota.client.handle import JobReference
from rota.client.runner import IN_FILE, ITEM, returned_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

#: The jobs that an argument refers to.
References = list[JobReference]

#: A call above this goes into a file. The server takes 8 MiB of standard input, as text.
CALL_BYTES_MAX = 5 * 1024 * 1024
#: An item travels as a variable, of which the kernel takes 128 KiB.
ITEM_CHARS_MAX = 96 * 1024
#: The most text that goes into one request for a family of jobs.
ROWS_CHARS_MAX = 12 * 1024 * 1024
#: The name of the parameter behind ``ITEM``.
PARAMETER = ITEM.removeprefix("ROTA_PARAM_")

COMMAND = ("-c", "from rota.client.runner import main; main()")


class HandleInside(TypeError):
    """A function that has a handle in its body: nothing there is waited for."""


class CallPickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles a call. A handle among the arguments is noted, and left as a reference."""

    def __init__(self, file: io.BytesIO, protocol: int, found: References) -> None:
        super().__init__(file, protocol)
        self._found = found
        #: What is being pickled belongs to the function itself, not to its arguments.
        self.inside = ""

    def reducer_override(self, value: Any) -> Any:  # noqa: ANN401 - pickle's own contract
        """Asked for all but numbers, texts and the like: large lists of those cost nothing."""
        if not isinstance(value, JobReference):
            return super().reducer_override(value)
        if self.inside:
            raise HandleInside(
                f"job {value.id} is used inside {self.inside}: give its handle as an argument"
            )
        self._found.append(value)
        return returned_by, (value.id, value.tasks)

    def put(self, value: object, what: str) -> None:
        """Pickle it, or say what of the call it is that cannot be sent."""
        try:
            self.dump(value)
        except HandleInside:
            raise
        except (TypeError, pickle.PicklingError, AttributeError) as error:
            raise TypeError(f"{what} cannot be sent: {error}") from None


class CallFolder:
    """Where large calls wait for their job."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self) -> Path:
        """The folder itself; it is nobody else's to read."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.path

    def pack(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        found: References,
    ) -> str:
        """One call, as the text of a standard input; ``found`` gets the handles in it."""
        file = io.BytesIO()
        packing = CallPickler(file, pickle.HIGHEST_PROTOCOL, found)
        packing.inside = f"the function {name_of(function)}"
        packing.put(function, packing.inside)
        packing.inside = ""
        packing.put((args, dict(kwargs)), f"an argument of {name_of(function)}()")
        search = [os.path.abspath(entry) for entry in sys.path]
        whole = (sys.version_info[:2], search, file.getvalue())
        return self._text(pickle.dumps(whole, protocol=4), CALL_BYTES_MAX)

    def row(self, item: tuple[Any, ...], found: References) -> str:
        """The text for the arguments of one element of a map."""
        file = io.BytesIO()
        CallPickler(file, 4, found).put(item, "an item")
        return self._text(file.getvalue(), ITEM_CHARS_MAX * 3 // 4)

    def _text(self, body: bytes, bytes_max: int) -> str:
        if len(body) <= bytes_max:
            return b2a_base64(body, newline=False).decode()
        # Its name cannot be guessed: on another machine a stranger might have made such a folder.
        file = self.make() / f"call-{os.urandom(8).hex()}"
        file.write_bytes(body)
        return f"{IN_FILE}{file}"


def name_of(function: object) -> str:
    """What a function is called, and the job that runs it."""
    return str(getattr(function, "__name__", "call")).strip("<>")


def portions(rows: Iterable[tuple[str, References]]) -> list[list[tuple[str, References]]]:
    """The rows in requests of a size that the server takes."""
    made: list[list[tuple[str, References]]] = []
    size = ROWS_CHARS_MAX
    for text, found in rows:
        if size + len(text) > ROWS_CHARS_MAX:
            made.append([])
            size = 0
        made[-1].append((text, found))
        size += len(text)
    return made
