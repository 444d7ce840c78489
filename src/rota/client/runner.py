"""Inside a job: run the function that was sent on standard input and leave its outcome.

A thousand short calls pay a thousand times for what this file imports, so it imports little.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
from binascii import a2b_base64

from rota.client import outcomes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: The arguments of one element of a map; see ``calls.rows``.
ITEM = "ROTA_PARAM_ITEM"
#: A body that was too large for its place is in a file, whose path stands there instead.
IN_FILE = "@"


def main() -> None:
    """Exit with 0 if the function returned, with 1 if it raised."""
    folder = os.environ[outcomes.RESULT_DIR]
    name = outcomes.file_name(os.environ["ROTA_JOB_ID"], os.environ["ROTA_TASK_INDEX"])
    if os.path.exists(f"{folder}/{name}"):
        # What an attempt before this one left must not be taken for ours if we are killed.
        os.unlink(f"{folder}/{name}")
    try:
        body = outcomes.returned(_run())
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        body = outcomes.raised(outcomes.JobError(f"the function called sys.exit({leaving.code!r})"))
    except BaseException as error:
        import traceback

        outcomes.forget_own_frames(error)
        traceback.print_exception(error)
        body = outcomes.raised(error)
        code = 1
    outcomes.leave(folder, name, body)
    sys.exit(code)


def _run() -> Any:  # noqa: ANN401 - whatever the function gives
    function, args, kwargs = load(sys.stdin.read())
    item = os.environ.pop(ITEM, "")
    return function(*(pickle.loads(_bytes(item)) if item else args), **kwargs)


def returned_by(job: int, tasks: int) -> Any:  # noqa: ANN401 - what the job returned
    """What stands where the handle of another job stood: what that one returned.

    It is read from the folder that both use, else through the server.
    """
    if not tasks:
        return None
    try:
        with open(f"{os.environ[outcomes.RESULT_DIR]}/{outcomes.file_name(job, 0)}", "rb") as file:
            found = outcomes.read(file.read())
    except OSError:
        found = None
    if found is None or found.error is not None:
        # What lies here may be from an attempt before the last one, on another node.
        from rota.client.http import Client

        body = Client.from_environment(os.environ).left_by(job)
        if body is None:
            raise outcomes.ResultGone(job)
        found = outcomes.read(body)
    return found.give()


def load(text: str) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """A call as ``calls.pack`` wrote it. What it refers to must be found where it was found."""
    version, search, body = pickle.loads(_bytes(text))
    sys.path[:1] = [os.getcwd()]
    sys.path += [entry for entry in search if entry not in sys.path]
    reading = pickle.Unpickler(io.BytesIO(body))
    try:
        function: Callable[..., Any] = reading.load()
        args, kwargs = reading.load()
    except outcomes.JobError:
        raise
    except Exception as error:
        here = sys.version_info[:2]
        if tuple(version) != here:
            told = "the call was made by Python {}.{}, the job runs {}.{}; use the same for both"
            raise outcomes.JobError(told.format(*version, *here)) from error
        raise
    return function, args, kwargs


def _bytes(text: str) -> bytes:
    if text.startswith(IN_FILE):
        with open(text[1:], "rb") as file:
            return file.read()
    return a2b_base64(text)
