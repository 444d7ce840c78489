"""The recorded situation, played on a pretended cluster: each recorded job has its twin."""

from rota.core.facts.states import Cause
from tests.slurm.cluster import Cluster

MAIN = ("-p", "main", "-A", "main", "--mem-per-cpu=500")


def set_the_stage(cluster: Cluster) -> dict[str, str]:
    """Submit, start and end the twins; recorded id -> ours."""
    drain = cluster.server.local().post("/nodes/n4:drain", {"note": "disk replace"})
    assert drain.status == 200, drain.body
    ids = _ended(cluster) | _running(cluster) | _waiting(cluster)
    words = [
        "reservationname=maint",
        "starttime=now+3hours",
        "duration=60",
        "users=root",
        "nodes=n1",
    ]
    cluster.text("scontrol", "create", "reservation", *words)
    return {str(theirs): str(ours) for theirs, ours in ids.items()}


def _ended(cluster: Cluster) -> dict[int, int]:
    done = cluster.submit(*MAIN, "-J", "ok", "-t", "10")
    cluster.finish(done)
    fails = cluster.submit(*MAIN, "-J", "fails", "-t", "10")
    cluster.finish(fails, code=3)
    killed = cluster.submit(*MAIN, "-J", "segv", "-t", "10")
    cluster.finish(killed, signal=11)
    gone = cluster.submit(*MAIN, "-J", "gone", "-H", "-t", "10")
    assert cluster.run("scancel", str(gone)).code == 0
    late, large, lost = (
        cluster.submit(*MAIN, "-J", name, "--no-requeue", "-t", "10")
        for name in ("timeout", "oom", "lostnode")
    )
    cluster.finish(late, signal=15, cause=Cause.TIME_LIMIT)
    cluster.finish(large, signal=9, cause=Cause.OUT_OF_MEMORY)
    cluster.finish(lost, cause=Cause.NODE_LOST)
    twins = {1: late, 3: done, 5: done, 12: fails, 13: gone, 16: killed, 17: large}
    return twins | dict.fromkeys((43, 88), lost)


def _running(cluster: Cluster) -> dict[int, int]:
    gpus = cluster.submit(*MAIN, "-J", "running", "--gres=gpu:2", "-n4", "-t", "20")
    cluster.start(gpus)
    wide = cluster.submit(*MAIN, "-J", "wide", "-N2", "-n4", "-t", "60", user="bob")
    cluster.start(wide)
    steps = cluster.submit(*MAIN, "-J", "steps", "-n1", "-t", "10")
    cluster.start(steps)
    array = cluster.submit(*MAIN, "-J", "arr", "--array=0-9%2", "-t", "10")
    for element in (array + 1, array + 2):
        cluster.start(element)
    return {23: gpus, 48: gpus, 24: wide, 18: steps, 8: array}


def _waiting(cluster: Cluster) -> dict[int, int]:
    running = next(iter(cluster.server.host.cluster.census.by_state["running"]))
    failed = cluster.submit(*MAIN, "-J", "fails2", "-H", "-t", "10")
    wide = ("-N3", "--exclusive", "-t", "30")
    array = cluster.submit(
        *(*MAIN, "-J", "arrpend", "--array=1-50:7%3", "--qos=urgent", *wide), user="root"
    )
    after = cluster.submit(*MAIN, "-J", "after", "-d", f"afterok:{running}", "-t", "10")
    never = cluster.submit(*MAIN, "-J", "never", "-d", f"afterok:{failed}", "-t", "10")
    held = cluster.submit(*MAIN, "-J", "heldself", "-H", "-t", "10")
    later = cluster.submit(*MAIN, "-J", "later", "--begin=now+1hour", "-t", "10")
    full = cluster.submit(*MAIN, "-J", "resources", *wide, user="bob")
    short = cluster.submit("-p", "short", "-A", "main", "-J", "toolong", "-t", "120")
    return {
        47: full,
        25: after,
        27: never,
        28: held,
        30: later,
        38: full,
        39: full,
        40: array,
        37: short,
    }
