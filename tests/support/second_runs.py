"""Which tests are run once more when they fail in CI. The only place that says so.

Where real processes, threads and clocks meet on a busy machine a test may fail for the machine's
sake: it is run again, once, and named at the end. Whatever is pure must pass the first time. So
must tests for which a failure now and then is just what they look for: the database, networks,
and what outlives a death.
"""

from __future__ import annotations

from pathlib import PurePath

#: Folders of tests with real processes. Not among them: store, network, hardware.
REAL = frozenset(
    (
        "agent",
        "api",
        "cli",
        "client",
        "engines",
        "gangs",
        "grpc",
        "inventory",
        "journeys",
        "notify",
        "slurm",
        "web",
    )
)
#: Tests in there of what outlives a ``kill -9``, a lost controller, an end of a lease, another
#: head or another version.
ONCE = (
    *("test_controller_lost", "test_heads", "test_keeper_life", "test_kill_minus_nine"),
    *("test_lease", "test_mixed_versions", "test_restarts", "test_survival", "test_trouble"),
    "test_upgrade_live",
)


def gets_second_run(path: str) -> bool:
    """``path`` is that of a file below the folder of the tests."""
    place = PurePath(path)
    return place.parts[0] in REAL and not place.name.startswith(ONCE)
