"""Copies of what the tasks of a step print, for commands that watch it from elsewhere.

Part of one script with ``relay.py`` and ``stepper.py``; see there. What comes through a pipe is
copied as it is read; a file is followed from where it ends when the watching begins.
"""

import os
import stat

from rota.slurm.relay.relay import PART

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.slurm.relay.step_tasks import StepTask

#: So often files are looked at, while somebody watches.
LOOK_MS = 100


def placed(step: int, rank: int, stream: int) -> bytes:
    """In front of what a task printed."""
    return step.to_bytes(4, "big") + rank.to_bytes(4, "big") + bytes([stream])


class Taps:
    """The steps that are watched, and the files that their tasks print to."""

    def __init__(self) -> None:
        self.steps: set[int] = set()
        self.files: dict[int, tuple[int, int, int]] = {}

    @property
    def pause_ms(self) -> "int | None":
        return LOOK_MS if self.files else None

    def open(self, tasks: "list[StepTask]", step: int) -> None:
        """A file that several tasks print to is followed once, as that of the first of them."""
        self.steps.add(step)
        known = set()
        for task in tasks:
            for stream, place in task.places.items():
                number = opened(place, stream)
                if number < 0:
                    continue
                found = os.fstat(number)
                if (found.st_dev, found.st_ino) in known:
                    os.close(number)
                    continue
                known.add((found.st_dev, found.st_ino))
                self.files[number] = (step, task.rank, stream)

    def close(self, step: int) -> None:
        self.steps.discard(step)
        for number in [number for number, place in self.files.items() if place[0] == step]:
            del self.files[number]
            os.close(number)

    def grown(self) -> "list[tuple[int, int, int, bytes]]":
        """What was printed to files since the last look."""
        found = []
        for number, place in self.files.items():
            while part := os.read(number, PART):
                found.append((*place, part))
        return found


def opened(place: str, stream: int) -> int:
    """The end of a file; -1 for what is no file, of which nobody but its reader may read."""
    path = f"/proc/self/fd/{stream}" if place == "inherit" else place
    try:
        if place == "pipe" or not stat.S_ISREG(os.stat(path).st_mode):
            return -1
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        os.lseek(number, 0, os.SEEK_END)
    except OSError:
        return -1
    return number
