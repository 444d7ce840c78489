"""Which devices each task of a step is shown."""

from __future__ import annotations

from rota.core.facts.node import Device, NodeSpec
from rota.slurm.orders.options import SHEETS
from rota.slurm.orders.orders import read_order
from rota.slurm.steps.step_plan import StepPart, members_of, plan_step, task_environment
from rota.testing.scene import Scene


def test_behind_a_fence_the_tasks_of_a_step_count_the_devices_of_their_job():
    scene = Scene(nodes=0)
    devices = tuple(Device(index=at, uuid=f"g{at}") for at in range(4))
    scene.add_node(NodeSpec("n1", 8000, 1000, devices=devices, fenced=True))
    scene.submit("first", gpus=2)
    scene.submit("job", gpus=2, cpus=2)
    order = read_order(SHEETS["srun"], [("ntasks", "2"), ("gpus-per-task", "1")])
    members = members_of(scene.controller.cluster, scene.job("job"))

    plan = plan_step(scene.job("job"), [StepPart(order, ["true"], members)], {})
    found = [task_environment(plan, place) for place in plan.places]

    assert [one["CUDA_VISIBLE_DEVICES"] for one in found] == ["0", "1"]
    assert [one["SLURM_STEP_GPUS"] for one in found] == ["2", "3"]
