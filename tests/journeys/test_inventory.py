"""An inventory outside of Rota, as people set it up: what others have is not used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.inventory.service import Service
from tests.journeys.box import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.journeys.box import Box


def states(box: Box) -> list[str]:
    return [gpu["state"] for gpu in box.api("GET", "/gpus")[1]["items"]]


def test_gpus_that_others_have_stay_free_of_our_jobs_and_silence_is_told(
    new_box: Callable[..., Box],
):
    service = Service()
    box = new_box(gpus=3)
    box.env["ROTA_INVENTORY_SERVICE_URL"] = service.url
    service.gpus = [{"node": "box", "index": n, "available": n != 1} for n in range(3)]
    box.up()
    until(lambda: "elsewhere" in states(box), "the inventory's word to count")

    first = box.job(["sleep", "60"], resources={"gpus": 2})
    held = box.reach(first, "running")["allocations"][0]["gpus"]
    well = box.api("GET", "/status")[1]["inventory"]["state"]
    service.close()
    box.kill("controller")
    until(lambda: box.api("GET", "/status")[1]["inventory"]["state"] == "silent", "silence")
    second = box.job(["true"], resources={"gpus": 1})
    silent = box.rota("inventory", check=False)
    doctor = box.rota("doctor", check=False).stdout

    assert held == [0, 2]
    assert well == "ok"
    assert silent.returncode == 1
    assert "2 used, 1 elsewhere" in silent.stdout
    assert "warn  inventory" in doctor
    assert box.api("GET", f"/jobs/{second}")[1]["state"] == "queued"


def test_an_address_that_is_none_is_refused_at_the_start(new_box: Callable[..., Box]):
    box = new_box()

    said = box.refusal("up", "--detach", env={"ROTA_INVENTORY_SERVICE_URL": "inventory:8081"})

    assert said.startswith(
        "rota: ROTA_INVENTORY_SERVICE_URL: 'inventory:8081' is not valid; expected"
    )
