"""The stage for psij-python's own tests of executors, a plug-in of the pytest that runs them.

Its source package brings the tests without the modules and the fixture that they share. Those are
here, under the names by which the tests ask for them. Run with psij's Python, never with ours.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psij
import pytest
from psij.executors.batch.slurm import SlurmExecutorConfig

for name in ("executor_test_params", "_test_tools"):
    sys.modules[name] = sys.modules[__name__]

PATIENCE = timedelta(seconds=120)


@dataclass(frozen=True)
class ExecutorTestParams:
    executor: str
    launcher: str


@pytest.fixture(params=os.environ.get("PSIJ_LAUNCHERS", "single").split(","))
def execparams(request: pytest.FixtureRequest) -> ExecutorTestParams:
    return ExecutorTestParams("slurm", request.param)


def _get_executor_instance(
    params: ExecutorTestParams, job: psij.Job | None = None
) -> psij.JobExecutor:
    if job is not None:
        assert job.spec is not None
        job.spec.launcher = params.launcher
    # It asks for the queue every 30 seconds otherwise, and every test takes as long.
    quick = SlurmExecutorConfig(queue_polling_interval=0.2, initial_queue_polling_delay=0)
    return psij.JobExecutor.get_instance(params.executor, config=quick)


def _get_timeout(_params: ExecutorTestParams) -> timedelta:
    return PATIENCE


def _make_test_dir() -> None:
    (Path.home() / ".psij" / "test").mkdir(parents=True, exist_ok=True)


def assert_completed(job: psij.Job, status: psij.JobStatus | None, attached: bool = False) -> None:
    assert status is not None, f"job {job.native_id} was not over in time"
    assert status.state == psij.JobState.COMPLETED, (job.native_id, attached, status)
