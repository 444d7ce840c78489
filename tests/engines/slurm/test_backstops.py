"""What is on top of a job's own limit goes, whatever Slurm answers the first time."""

import asyncio
from pathlib import Path

import pytest

from rota.backends.api import EngineAway, EngineError, EngineJob, EnginePhase, EngineRefused
from rota.backends.slurm.backstops import Backstops
from rota.backends.slurm.driver import SlurmDriver
from rota.backends.slurm.inner import SlurmRequest
from rota.backends.slurm.settings import SlurmSettings

WAITS = EngineJob(
    uid="a", id="7", phase=EnginePhase.WAITING, reason="PartitionTimeLimit", user="ann"
)
WISH = SlurmRequest(comment="c", script="s", user="ann", name="n", minutes=65, least_minutes=60)


class Slurm:
    """Answers so to what it is asked for, and then as it should."""

    acts_for_all, user = False, "ann"

    def __init__(self, *troubles: EngineError) -> None:
        self._troubles = [*troubles]
        self.shortened: list[tuple[str, int, str]] = []

    async def submit(self, wish: SlurmRequest) -> str:
        return WAITS.id

    async def comment(self, number: str) -> str:
        raise EngineAway("slurmctld is busy")

    async def shorten(self, number: str, minutes: int, user: str) -> None:
        if self._troubles:
            raise self._troubles.pop()
        await asyncio.sleep(0)
        self.shortened.append((number, minutes, user))


@pytest.mark.parametrize(
    ("trouble", "again"), [(EngineAway("no answer"), True), (EngineRefused("not yours"), False)]
)
def test_a_limit_that_could_not_be_lowered_is_lowered_later_unless_that_is_refused(
    trouble: EngineError, again: bool
):
    slurm = Slurm(trouble)
    backstops = Backstops(slurm)  # type: ignore[arg-type]

    async def work() -> None:
        await backstops.submit(WAITS.uid, WISH)
        with pytest.raises(type(trouble)):
            await backstops.take_away(WAITS)
        assert backstops.is_too_long(WAITS) is again
        # Slurm may list two jobs with one key.
        await asyncio.gather(backstops.take_away(WAITS), backstops.take_away(WAITS))

    asyncio.run(work())

    assert slurm.shortened == [(WAITS.id, WISH.least_minutes, WAITS.user)] * (2 if again else 0)
    assert not backstops.is_too_long(WAITS)


def test_a_look_does_not_fail_for_the_sake_of_one_limit(tmp_path: Path):
    driver = SlurmDriver(SlurmSettings(folder=str(tmp_path)), Slurm())  # type: ignore[arg-type]

    asyncio.run(driver._shorten(WAITS))
