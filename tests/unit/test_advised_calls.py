"""The command that an advice names, as the REST call that it stands for."""

import pytest

from rota.web.advised import call_of

CALLS = {
    "rota update 5 --gpus 1": ("PATCH", "/jobs/5", {"resources": {"gpus": 1}}),
    "rota update 5 --gpus 0.5": ("PATCH", "/jobs/5", {"resources": {"gpus": 0.5}}),
    "rota update 5 --gpus 2 --gpu-type auto": (
        "PATCH", "/jobs/5", {"resources": {"gpus": 2, "gpu_type": ""}},
    ),
    "rota update 5 --gpus 1 --shared --gpu-mem 10G": (
        "PATCH", "/jobs/5", {"resources": {"gpus": 1, "shared": True, "gpu_memory_mb": 10240}},
    ),
    "rota update 5 --cpus 1.5": ("PATCH", "/jobs/5", {"resources": {"cpus": 1.5}}),
    "rota update 5 --mem 2G": ("PATCH", "/jobs/5", {"resources": {"memory_mb": 2048}}),
    "rota update 5 --time 1h30m": ("PATCH", "/jobs/5", {"time_limit_s": 5400}),
    "rota update 5 --tasks 3 --nodes 1": ("PATCH", "/jobs/5", {"tasks": 3, "nodes": 1}),
    "rota update 5 --constraint 'a b' --constraint c": (
        "PATCH", "/jobs/5", {"constraints": ["a b", "c"]},
    ),
    "rota update 5 --exclude ''": ("PATCH", "/jobs/5", {"exclude": []}),
    "rota update 5 --no-exclusive": ("PATCH", "/jobs/5", {"exclusive": False}),
    "rota update 5 --begin now --no-dependencies": (
        "PATCH", "/jobs/5", {"begin_at": "now", "depends_on": []},
    ),
    "rota update 5 --queue 'a b' ": ("PATCH", "/jobs/5", {"queue": "a b"}),
    "rota update 5 --max-concurrent 8": ("PATCH", "/jobs/5", {"max_concurrent": 8}),
    "rota release 5": ("POST", "/jobs:release", {"ids": ["5"]}),
    "rota requeue 5 --hold": ("POST", "/jobs:requeue", {"ids": ["5"], "hold": True}),
    "rota node resume 'n/1'": ("POST", "/nodes/n%2F1:resume", {}),
    "rota reserve remove 3": ("DELETE", "/reservations/3", {}),
    "rota group set g --max-concurrent 4": ("PUT", "/groups/g", {"max_concurrent": 4}),
    "rota queue-admin set q --max-running 9": ("PATCH", "/queues/q", {"max_running": 9}),
    "rota queue-admin set q --state active": ("PATCH", "/queues/q", {"state": "active"}),
    "rota queue-admin set q --hours ''": ("PATCH", "/queues/q", {"hours": ""}),
    "rota quota set --user ann --gpus 3": ("PATCH", "/users/ann", {"quota": {"hard": {"gpus": 3}}}),
    "rota quota set --project 'a b' --mem 2G --soft": (
        "PATCH", "/projects/a%20b", {"quota": {"soft": {"memory_mb": 2048}}},
    ),
    "rota quota set --project p --jobs 4 --type training": (
        "PATCH", "/projects/p", {"quota": {"types": {"training": {"jobs": 4}}}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("command", CALLS)
def test_an_advice_is_the_call_of_its_command(command):
    method, path, body = CALLS[command]

    call = call_of(command)

    assert (call.method, call.path, call.body) == (method, f"/api/v1{path}", body)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "rm -rf /",
        "rota update 5 --gpus",
        "rota update 5 --gpus many",
        "rota update 5 --unheard 1",
        "rota update 5 --queue 'open",
        "rota reserve remove x",
        "rota quota set --user ann",
        "rota quota set --user ann --gpus",
        "rota quota set --user ann --queued 3",
        "rota quota set --default --gpus 3",
    ],
)
def test_what_a_page_cannot_do_is_left_to_the_command_line(command):
    assert call_of(command) is None
