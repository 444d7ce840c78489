"""A Rota of the tests' own for all tests of the Python API, and a server with a pretended agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import rota
from rota.client.http import Client
from tests.api.conftest import agent, caller, server, session_server, socket_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["agent", "caller", "server", "session_server", "socket_folder"]


@pytest.fixture(scope="session", autouse=True)
def _results_elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Results outlive their programs; those of tests shall not stay on the machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rota.client.making.LASTING", str(tmp_path_factory.mktemp("results")))
        yield


@pytest.fixture(scope="session")
def _own_cluster() -> Iterator[rota.ClusterContext]:
    with rota.local(cpus=4, gpus=2) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def network(_own_cluster: rota.ClusterContext) -> tuple[str, str]:
    """The address of the tests' own Rota over TCP, and a token for it."""
    client = Client([_own_cluster.url])
    url = client.get("/status")["controller"]["url"]
    token = client.post("/tokens", {})["token"]
    client.close()
    return url, token


@pytest.fixture
def cluster(_own_cluster: rota.ClusterContext) -> Iterator[rota.ClusterContext]:
    """Four CPUs and two made-up GPUs; what a test leaves unfinished is cancelled behind it."""
    yield _own_cluster
    left = _own_cluster.unfinished
    for job in left:
        job.cancel()
    for job in left:
        job.exception(timeout=60)
