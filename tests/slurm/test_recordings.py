"""The commands print of the fixed story, word for word, what was recorded of it.

A change that is meant is recorded anew: ``python -m tests.slurm.recordings``.
"""

from collections.abc import Iterator

import pytest

from tests.slurm.cluster import Cluster, recorded_cluster
from tests.slurm.recordings import CALLS, FOLDER, answer_to, play


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, dict[str, int]]]:
    with recorded_cluster(tmp_path_factory.mktemp("story")) as cluster:
        yield cluster, play(cluster)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_prints_what_was_recorded(name: str, story: tuple[Cluster, dict[str, int]]) -> None:
    cluster, ids = story

    assert answer_to(cluster, ids, name) == (FOLDER / f"{name}.txt").read_text()


def test_every_recording_belongs_to_a_call() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(CALLS)
