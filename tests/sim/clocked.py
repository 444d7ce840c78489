"""A scene whose clock moves with every tick, as a real one does."""

from typing import Any

from rota.core.changes.events import Recorded
from rota.testing.scene import Scene


class Clocked(Scene):
    """``copies`` are further stores that get every commit."""

    def __init__(self, *copies: Any, **words: Any) -> None:
        self.copies = copies
        super().__init__(**words)

    def tick(self, *inbox: Any) -> Any:
        self.now_s += 0.001
        tick = super().tick(*inbox)
        if tick.batch.events:
            for store in self.copies:
                store.commit(tick.batch)
        return tick

    def run_for(self, job: str, seconds: float, code: int = 0) -> None:
        """The job runs so long and ends."""
        self.pass_time(seconds)
        self.finish(job, code)

    def recorded(self) -> list[Recorded]:
        return [*self.store.all_events()]
