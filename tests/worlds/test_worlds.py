"""Two thousand worlds. A failure prints its seed; ``python -m rota.sim SEED`` tells its story."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rota.sim.world import World

WORLDS = int(os.environ.get("ROTA_WORLDS", "2000"))
CHUNK = 100

#: Seeds that once broke a promise, kept for good.
ONCE_BROKEN = (16, 24, 30, 62, 96, 103, 141, 147, 178, 722)


def play(seed: int) -> str:
    try:
        return World(seed).play()
    except Exception as error:
        pytest.fail(f"seed {seed}: {type(error).__name__}: {error}")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", range(0, WORLDS, CHUNK))
def test_every_world_with_faults_keeps_all_promises(first: int) -> None:
    digests = [play(seed) for seed in range(first, first + CHUNK)]

    assert len(set(digests)) == CHUNK, "each seed makes a world of its own"


@pytest.mark.parametrize("seed", ONCE_BROKEN)
def test_a_world_that_once_broke_a_promise_keeps_it_now(seed: int) -> None:
    assert play(seed)


def test_the_same_seed_in_two_processes_with_other_hash_seeds_gives_the_same_log() -> None:
    logs = [_digests_in_a_process(hash_seed) for hash_seed in ("1", "2")]

    assert logs[0] == logs[1]
    assert len(logs[0]) == 40


def _digests_in_a_process(hash_seed: str) -> list[str]:
    code = "from rota.sim.world import World\nfor s in range(40): print(World(s).play())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return done.stdout.split()
