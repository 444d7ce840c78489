"""What an open web page costs the controller, while jobs come and go on a site of middle size.

The page is drawn by no browser here: a process of its own hears the news and asks for the feeds as
often as the page's scripts do.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bench import machine
from bench.herd import Herd
from bench.report import Row, against, value_at_most

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.context import Context
    from bench.rota import Rota

SECTION = "page"
NODES, CPUS, GPUS, JOBS = 20, 8, 8, 200
WINDOW_S, WINDOW_S_QUICK = 60, 10
#: A job ends and another one comes in so often.
PAUSE_S = 1.0
SHARE_MAX = 0.01


def measure(context: Context) -> list[Row]:
    window_s = context.pick(WINDOW_S, WINDOW_S_QUICK)
    with (
        context.rota(SECTION, with_agent=False) as rota,
        Herd(rota, NODES, CPUS, GPUS),
    ):
        size = {"cpus": 1, "gpus": 1}
        rota.submit_batch([rota.job(["sleep", "3600"], resources=size) for _ in range(JOBS)])
        alone = share(rota, window_s)
        with page(rota):
            one = share(rota, window_s) - alone
        with page(rota), page(rota), page(rota), page(rota):
            four = share(rota, window_s) - alone
    what = f"{NODES} nodes, {JOBS} jobs, one job a second: CPU of the controller for "
    note = f"over {window_s} s each; without a page {alone:.4f} of a core"
    return [
        against(
            SECTION, what + "an open page", "of a core", one, "bar", SHARE_MAX,
            value_at_most(SHARE_MAX), note=note,
        ),
        against(
            SECTION, what + "each of four open pages", "of a core", four / 4, "bar", SHARE_MAX,
            value_at_most(SHARE_MAX),
        ),
    ]  # fmt: skip


def share(rota: Rota, window_s: float) -> float:
    """Of a core, while jobs come and go."""
    time.sleep(2)  # The first drawing is over by then.
    pid = rota.controller_pid()
    began_ns, began_s = machine.run_ns([pid]), time.perf_counter()
    while (passed_s := time.perf_counter() - began_s) < window_s:
        rota.submit(command=["true"])
        time.sleep(PAUSE_S)
    return (machine.run_ns([pid]) - began_ns) / 1e9 / passed_s


@contextmanager
def page(rota: Rota) -> Iterator[None]:
    """A page that is open while the block runs."""
    socket = str(rota.state / "rota.sock")
    command = [sys.executable, "-m", "bench.open_page", socket]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        child.kill()
        child.wait()
