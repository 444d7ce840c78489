"""Commands start fast and import little: scripts call them in loops."""

import os
import resource
import subprocess
import sys

import pytest

BUDGET_CPU_S = 0.12


def imports_of(*arguments):
    code = (
        "import sys; from rota.cli.main import _run; _run(sys.argv[1:]); "
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    environment = {**os.environ, "ROTA_STATE_DIR": "/nonexistent", "ROTA_URL": ""}
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return set(ended.stderr.splitlines()[-1].split())


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [["version"], ["queue"], ["submit", "--", "true"], ["wait", "1"], ["--help"]]
)
def test_a_command_imports_no_framework(arguments):
    heavy = {"rich", "msgspec", "litestar", "asyncio", "uvicorn", "sqlalchemy", "psutil", "sqlite3"}

    assert not heavy & imports_of(*arguments)


@pytest.mark.slow
def test_the_version_needs_no_connection_library():
    assert "http.client" not in imports_of("version")


@pytest.mark.slow
def test_the_version_is_printed_within_the_budget():
    def cpu_s():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "rota.cli.main", "version"], check=True, capture_output=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    best_s = min(cpu_s() for _ in range(5))

    assert best_s < BUDGET_CPU_S


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_traceback():
    pipeline = f"{sys.executable} -m rota.cli.main --help | true"

    ended = subprocess.run(["bash", "-c", pipeline], capture_output=True, text=True, check=False)

    assert "Traceback" not in ended.stderr
    assert "Exception" not in ended.stderr
