"""A head that answers too late or has forgotten: nothing is lost in silence, nothing runs twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rota.backends.api import EngineAway, EngineRefused, Unsure
from rota.backends.ray.client import RayApi
from rota.backends.ray.package import package, wish
from rota.backends.ray.settings import RaySettings
from rota.core.facts.states import Cause
from tests.engines.kubernetes.test_faults import Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.engines.ray.cluster import Ray
    from tests.engines.ray.conftest import Alone


@pytest.fixture
def proxy(ray: Ray) -> Iterator[Proxy]:
    made = Proxy(ray.url)
    yield made
    made.close()


def test_a_submit_whose_answer_is_cut_off_is_unsure_and_the_next_one_finds_the_job(
    alone: Alone, proxy: Proxy, ray: Ray
):
    order = alone.order("echo", "once")
    settings = RaySettings(address=proxy.url.replace("https", "http"), python=ray.python)

    async def cut_off() -> None:
        api = RayApi(settings)
        name, parcel = package(order)
        await api.upload(name, parcel)
        proxy.deaf = True
        try:
            with pytest.raises(Unsure):
                await api.submit(wish(order, settings, "node:127.0.0.3", name))
        finally:
            proxy.deaf = False
            await api.close()

    alone.do(cut_off())
    alone.do(alone.driver.submit(order))

    assert alone.log(alone.ended(order.uid)) == b"once\n"
    assert len(ray.jobs(alone.driver.cluster)) == 1


def test_what_dies_with_its_node_is_lost_and_a_new_head_knows_of_nothing(alone: Alone, ray: Ray):
    """In one, because a Ray takes its time to come back."""
    other, here = alone.submit("sleep", "600", node="n2"), alone.submit("sleep", "600")
    alone.running(other)
    alone.running(here)

    ray.kill_node("n2")
    try:
        end = alone.ended(other)
        nodes = {node.spec.name: node for node in alone.do(alone.driver.nodes())}
        with pytest.raises(EngineRefused, match="what it printed went with its node"):
            alone.log(end)
        alone.do(alone.driver.forget(end))
        ray.kill_node("head")
        with pytest.raises(EngineAway):
            alone.do(alone.driver.jobs())
        with pytest.raises(EngineAway):
            alone.offer("true")
    finally:
        ray.start()

    assert (end.cause, end.code) == (Cause.NODE_LOST, None)
    assert (nodes["n2"].usable, nodes["n2"].detail) == (False, "Ray has lost it")
    assert alone.do(alone.driver.jobs()) == []
    assert alone.do(alone.driver.find([here])) == []
    alone.do(alone.driver.nodes())
    assert alone.ended(alone.submit("true", node="n2")).code == 0
