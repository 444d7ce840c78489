"""An API server that answers late, not at all, or has forgotten: nothing is lost, nothing twice."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from lightkube.config.kubeconfig import KubeConfig

from rota.backends.api import EngineAway, EnginePhase, Unsure
from rota.backends.kubernetes.client import Api
from rota.backends.kubernetes.objects import build
from rota.backends.kubernetes.settings import KubernetesSettings
from rota.backends.registry import make
from tests.engines.kubernetes.cluster import IMAGE, NAMESPACE
from tests.engines.kubernetes.conftest import Alone, table
from tests.journeys.box import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.engines.kubernetes.cluster import Kube


class Proxy:
    """Between the driver and the server. ``deaf``: requests pass, and the line is cut on answer."""

    def __init__(self, server: str) -> None:
        parts = urlsplit(server)
        self._target = (parts.hostname or "", parts.port or 0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self.deaf = False
        self._lines: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._begin(self._serve)

    def _begin(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._target)
                self._lines += [near, far]
                self._begin(self._carry, near, far, False)
                self._begin(self._carry, far, near, True)

    def _carry(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while body := source.recv(65536):
                if answers and self.deaf:
                    break
                sink.sendall(body)
        for line in (source, sink):
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """All lines that are open now."""
        for line in self._lines:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self.cut()
        for thread in self._threads:
            thread.join(10)
        for line in (self._listener, *self._lines):
            line.close()


@pytest.fixture
def proxy(kube: Kube) -> Iterator[Proxy]:
    made = Proxy(json.loads(kube.config.read_text())["clusters"][0]["cluster"]["server"])
    yield made
    made.close()


@pytest.fixture
def config(kube: Kube, proxy: Proxy, tmp_path: Path) -> Path:
    """The same rights, with the proxy between."""
    told = json.loads(kube.config.read_text())
    told["clusters"][0]["cluster"]["server"] = proxy.url
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(told))
    return path


@pytest.fixture
def behind(kube: Kube, config: Path) -> Iterator[Alone]:
    made = Alone(make("lab", {**table(kube), "kubeconfig": str(config)})[1])
    yield made
    made.close()


def test_a_create_whose_answer_is_cut_off_is_unsure_and_the_next_one_finds_the_pod(
    alone: Alone, proxy: Proxy, config: Path, kube: Kube
):
    order = alone.order("echo", "once")
    secret, pod = build(order, KubernetesSettings(image=IMAGE))

    async def cut_off() -> None:
        api = Api(KubeConfig.from_file(config).get(), NAMESPACE)
        await api.connect()
        await api.create(secret)
        proxy.deaf = True
        try:
            with pytest.raises(Unsure):
                await api.create(pod)
        finally:
            proxy.deaf = False
            await api.close()

    alone.do(cut_off())
    until(lambda: alone.do(alone.driver.find([order.uid])), "the pod that was made")
    alone.do(alone.driver.submit(order))

    assert alone.log(alone.ended(order.uid)) == b"once\n"
    assert len(kube.show("pods", "-l", f"rota/cluster={alone.driver.cluster}")["items"]) == 1


def test_a_server_that_is_away_is_away_and_is_listed_anew_when_it_is_back(
    behind: Alone, proxy: Proxy
):
    uid = behind.submit("sh", "-c", "sleep 2; exit 5")
    behind.reach(uid, EnginePhase.RUNNING)

    proxy.deaf = True
    proxy.cut()
    with pytest.raises(EngineAway):
        until(lambda: behind.do(look(behind)), "the driver to notice")
    with pytest.raises(EngineAway):
        behind.submit("true")
    proxy.deaf = False

    assert behind.ended(uid).code == 5


async def look(behind: Alone) -> None:
    await behind.driver.jobs()
    await asyncio.sleep(0.05)


def test_a_token_that_expires_is_read_anew_from_where_it_is_renewed(kube: Kube, tmp_path: Path):
    config = tmp_path / "kubeconfig"
    config.write_text(kube.kubeconfig(kube.another_token("first")))
    alone = Alone(make("lab", {**table(kube), "kubeconfig": str(config)})[1])
    uid = alone.submit("sh", "-c", "sleep 1; exit 6")

    kube.revoke("first")
    with pytest.raises(EngineAway, match="Unauthorized"):
        until(lambda: alone.do(alone.driver.nodes()) is None, "the token to be no good")
    config.write_text(kube.kubeconfig(kube.another_token("second")))

    until(lambda: answers(alone), "the driver to read the new one")
    assert alone.ended(uid).code == 6
    alone.close()
    kube.revoke("second")


def answers(alone: Alone) -> bool:
    with suppress(EngineAway):
        return bool(alone.do(alone.driver.nodes()))
    return False
