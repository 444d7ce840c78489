"""Fixtures for every test, markers that set themselves, and the list of what was skipped."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.engines.conformance.report import summary
from tests.notify.receivers import MailSink, WebSink
from tests.support.machine import REPOSITORY, in_ci, missing
from tests.support.second_runs import gets_second_run

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer

# The same cases every time, and as long as they take: a run fails for a reason or not at all.
settings.register_profile(
    "steady",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("steady")

# A shell lets what it starts in the background ignore Ctrl-C, and all that this starts in turn.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    # `nohup` does so with hang-ups. The tests go on then; what they start has the default.
    signal.signal(signal.SIGHUP, lambda *_: None)

# The Rotas of tests leave the socket of this machine's own Rota alone.
os.environ["ROTA_SERVER_SOCKET"] = "none"

#: A test that asks for the fixture carries the marker, so that ``-m`` can choose it.
MARKER_OF_FIXTURE = {"postgres_url": "postgres", "shared_folder": "shared"}


@pytest.fixture(scope="session")
def postgres_server() -> Iterator["PostgresServer"]:
    """One server per test process, started when the first test asks for it."""
    try:
        from tests.support import postgres
    except ImportError as absent:
        missing(f"{absent.name} is not installed (the extra `postgres` brings it)")
    programs = postgres.find_programs()
    if programs is None:
        missing("no PostgreSQL server programs on this machine")
    with postgres.running_server(programs) as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: "PostgresServer") -> Iterator[str]:
    """The SQLAlchemy URL of a fresh, empty PostgreSQL database."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture
def web() -> Iterator[WebSink]:
    """A receiver of webhooks."""
    sink = WebSink()
    yield sink
    sink.close()


@pytest.fixture
def mail() -> Iterator[MailSink]:
    """A mail server that keeps what it gets."""
    sink = MailSink()
    yield sink
    sink.close()


@pytest.fixture(scope="session")
def shared_folder() -> Path:
    """The folder beside the repository with traces, recorded output and peers."""
    folder = REPOSITORY.parent / "shared"
    if not folder.is_dir():
        missing("no folder ../shared beside the repository")
    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if in_ci() and gets_second_run(str(item.path.relative_to(REPOSITORY / "tests"))):
            item.add_marker(pytest.mark.flaky(reruns=1))
        for fixture in MARKER_OF_FIXTURE.keys() & set(getattr(item, "fixturenames", ())):
            item.add_marker(MARKER_OF_FIXTURE[fixture])


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("root") and os.geteuid() != 0:
        missing("needs the rights of root")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what was skipped, and what failed once: a number at the end is easily overlooked."""
    again = terminalreporter.stats.get("rerun", [])
    if again:
        terminalreporter.section("failed once and were run again, by name: each is a bug")
        for report in again:
            terminalreporter.line(f"{report.nodeid}\n{report.longreprtext}")
    if lines := list(summary(terminalreporter.stats)):
        terminalreporter.section("backends by scenario")
        for line in lines:
            terminalreporter.line(line)
    skipped = terminalreporter.stats.get("skipped", [])
    if not skipped:
        return
    terminalreporter.section("skipped tests, by name")
    for report in sorted(skipped, key=lambda report: report.nodeid):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        terminalreporter.line(f"{report.nodeid}: {str(reason).removeprefix('Skipped: ')}")
