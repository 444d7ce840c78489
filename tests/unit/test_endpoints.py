"""Where tasks of running jobs can be reached: told by the job, gone with the attempt."""

import pytest

from rota.controller.commands import commands as cmd
from rota.controller.commands.endpoints import ENDPOINTS_MAX, living
from rota.core.changes.compare import differences, fold
from rota.core.facts.errors import Conflict, NotFound
from rota.testing.scene import ALICE, Scene


def tell(scene: Scene, job: str, name: str, address: str = "box:80", task: int = 0) -> None:
    wish = {"job": scene.names[job], "task": task, "name": name, "address": address}
    scene.ask(cmd.SetEndpoint(actor=ALICE, **wish))


def reachable(scene: Scene) -> list[tuple[str, int, str]]:
    return [(one.name, one.task, one.address) for _, one in living(scene.cluster)]


def test_endpoints_are_found_again_after_a_restart_and_in_the_log():
    scene = Scene()
    scene.submit("serve", tasks=2)
    tell(scene, "serve", "web", "box:80")
    tell(scene, "serve", "web", "box:81", task=1)

    scene.restart()

    assert reachable(scene) == [("web", 0, "box:80"), ("web", 1, "box:81")]
    log = list(scene.store.all_events())
    assert differences(fold(log, scene.cluster.ids.cluster_id), scene.cluster) == []


def test_an_endpoint_ends_with_its_attempt_also_when_the_job_runs_again():
    scene = Scene()
    scene.submit("serve")
    tell(scene, "serve", "web", "box:80")

    scene.requeue("serve")
    scene.finish("serve")
    before = reachable(scene)
    scene.start("serve")
    tell(scene, "serve", "board", "box:6006")

    assert before == []
    assert reachable(scene) == [("board", 0, "box:6006")]
    assert len(scene.job("serve").endpoints) == 1


def test_an_endpoint_is_taken_back_by_its_task_and_name_and_not_twice():
    scene = Scene()
    scene.submit("serve", tasks=2)
    tell(scene, "serve", "web")
    tell(scene, "serve", "web", task=1)

    tell(scene, "serve", "web", "", task=1)

    assert reachable(scene) == [("web", 0, "box:80")]
    with pytest.raises(NotFound, match="task 1 of job 1 has no endpoint web"):
        tell(scene, "serve", "web", "", task=1)


def test_a_task_that_does_not_run_cannot_be_reached():
    scene = Scene()
    scene.submit("serve")

    with pytest.raises(Conflict, match="task 3 of job 1 does not run"):
        tell(scene, "serve", "web", task=3)


@pytest.mark.slow
def test_a_job_cannot_fill_the_memory_with_endpoints():
    scene = Scene()
    scene.submit("serve")
    for number in range(ENDPOINTS_MAX):
        tell(scene, "serve", f"e{number}")

    with pytest.raises(Conflict, match="1000 endpoints already"):
        tell(scene, "serve", "one-more")
    tell(scene, "serve", "e0", "box:99")

    assert len(reachable(scene)) == ENDPOINTS_MAX
