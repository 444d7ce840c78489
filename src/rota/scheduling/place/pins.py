"""Which single CPUs a task is pinned to, where some are nearer to its devices than others."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import lru_cache


@lru_cache(maxsize=1024)
def _is_run(cpus: tuple[int, ...]) -> bool:
    """Whether these are numbers one after the other, as the CPUs of a NUMA domain mostly are."""
    return bool(cpus) and cpus == tuple(range(cpus[0], cpus[0] + len(cpus)))


def near_cpus(free: list[int], whole: int, domains: list[tuple[int, ...]]) -> tuple[int, ...]:
    """``whole`` of the free CPUs (in order): those of these domains first, then low numbers."""
    if len(domains) == 1 and _is_run(domains[0]):
        low = bisect_left(free, domains[0][0])
        if bisect_right(free, domains[0][-1], low) - low >= whole:
            return tuple(free[low : low + whole])
    near = {cpu for domain in domains for cpu in domain}
    first = [cpu for cpu in free if cpu in near]
    if len(first) < whole:
        first += [cpu for cpu in free if cpu not in near]
    return tuple(sorted(first[:whole]))
