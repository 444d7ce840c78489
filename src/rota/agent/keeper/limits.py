"""What a process is held to before its program takes over: its cgroup and its ulimits.

The keeper runs this file without the package around it.
"""

from __future__ import annotations

import resource


class LimitFailed(Exception):
    """It cannot be held to that; the text says why."""


def join_cgroup(cgroup: str) -> None:
    try:
        with open(cgroup + "/cgroup.procs", "wb", buffering=0) as procs:
            procs.write(b"0")
    except OSError as error:
        raise LimitFailed(f"cgroup {cgroup}: {(error.strerror or 'failed').lower()}") from None


def raise_limits(ulimits: dict[str, int]) -> list[tuple[int, int, int]]:
    """The limits as (number, soft, hard), after moving hard ones that are too low for them.

    Called while we may still be root; the soft limits are set last, because a low one could
    hinder what has to be done before the job's program takes over.
    """
    if not ulimits:
        return []
    limits = []
    for name, value in ulimits.items():
        number = getattr(resource, f"RLIMIT_{name.upper()}", None)
        if number is None:
            raise LimitFailed(f"ulimit {name}: no such limit on this node")
        soft = resource.RLIM_INFINITY if value < 0 else value
        soft_now, hard = resource.getrlimit(number)
        if hard != resource.RLIM_INFINITY and (soft == resource.RLIM_INFINITY or soft > hard):
            hard = soft
            try:
                resource.setrlimit(number, (soft_now, hard))
            except (OSError, ValueError):
                raise LimitFailed(f"ulimit {name}={value}: above the hard limit") from None
        limits.append((number, soft, hard))
    return limits
