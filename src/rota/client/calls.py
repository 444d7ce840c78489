"""Python functions as jobs: how a call travels to the job and how its result comes back.

The submitter pickles function and arguments by value into a file next to which the job will put its
result; both files are in a folder of the submitter's, which job and submitter share.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Any

import cloudpickle


class JobError(Exception):
    """The function raised something that cannot be brought back; the text is its traceback."""


def write_call(folder: Path, function: object, args: tuple[Any, ...], kwargs: object) -> None:
    """Put a call into a folder of its own."""
    folder.mkdir(parents=True)
    (folder / "call").write_bytes(cloudpickle.dumps((function, args, kwargs)))


def command(folder: Path) -> list[str]:
    """The argument list that runs the call."""
    return [sys.executable, "-m", "rota.client.calls", str(folder)]


def read_result(folder: Path) -> tuple[bool, Any]:
    """Whether the function returned, and what it returned or raised."""
    returned, value = cloudpickle.loads((folder / "result").read_bytes())
    return bool(returned), value


def main(folder: Path) -> int:
    """Run the call in this folder; exit 0 if it returned, 1 if it raised."""
    function, args, kwargs = cloudpickle.loads((folder / "call").read_bytes())
    try:
        outcome = (True, function(*args, **kwargs))
    except Exception as error:
        traceback.print_exc()
        outcome = (False, _portable(error))
    part = folder / "result.part"
    part.write_bytes(cloudpickle.dumps(outcome))
    os.replace(part, folder / "result")
    return 0 if outcome[0] else 1


def _portable(error: Exception) -> Exception:
    """The exception itself if it survives the journey, else its traceback as text."""
    try:
        cloudpickle.loads(cloudpickle.dumps(error))
    except Exception:
        return JobError("".join(traceback.format_exception(error)))
    return error


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
