"""Fixtures of the journeys: a running box, with or without pretended GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.journeys.box import Box

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def new_box(tmp_path: Path) -> Iterator[Callable[..., Box]]:
    """Make boxes that are taken down, jobs and all, when the test ends."""
    boxes: list[Box] = []

    def make(**options: int) -> Box:
        box = Box(tmp_path / f"box{len(boxes)}", **options)
        boxes.append(box)
        return box

    yield make
    for box in boxes:
        box.down("--stop-jobs")


@pytest.fixture
def box(new_box: Callable[..., Box]) -> Box:
    """A box that is up, with four CPUs."""
    made = new_box()
    made.up()
    return made


@pytest.fixture
def gpu_box(new_box: Callable[..., Box]) -> Box:
    """A box that is up, with four CPUs and four pretended GPUs."""
    made = new_box(gpus=4)
    made.up()
    return made
