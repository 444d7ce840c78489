"""What nodes say about a job that waits: each is counted once, and the numbers are its own."""

from hypothesis import given, settings

from rota.core.facts.policy import Policy
from rota.scheduling.answers import reasons as why
from rota.scheduling.answers.explain import Inquiry
from rota.testing.stage import Stage
from tests.property import sites

OF_NODES = (
    why.Unfit,
    why.Away,
    why.Scarce,
    why.Metered,
    why.BadCompany,
    why.Claimed,
    why.WouldDelay,
)
UNITS = {"cpus": 1000, "memory": 1, "disk": 1}


def free_on(stage: Stage, name: str) -> dict[str, float]:
    """CPUs, MiB of memory and of disk that are left, by plain sums."""
    node = stage.cluster.nodes[name]
    held = node.live.values()
    return {
        "cpus": (node.spec.cpu_milli - sum(one.cpu_milli for one in held)) / 1000,
        "memory": node.spec.memory_mib - sum(one.memory_mib for one in held),
        "disk": node.spec.disk_mib - sum(one.disk_mib for one in held),
    }


@settings(max_examples=40)
@given(nodes=sites.nodes(most=4), jobs=sites.submissions(sites.specs(), most=10))
def test_every_node_is_counted_in_one_reason_and_the_nearest_is_named(nodes, jobs):
    stage = Stage(nodes, Policy())
    for job in jobs:
        stage.submit_later(job.at_s, job.spec, job.runs_s)

    more = True
    while more:
        more = stage.step()
        inquiry = Inquiry(stage.scheduler, stage.now_s)
        for job in stage.waiting:
            spec = stage.cluster.jobs[job].spec
            if len(spec.roles) > 1:
                continue
            request = spec.roles[0].request
            told = [one for one in inquiry.tree(job).unsatisfied if isinstance(one, OF_NODES)]
            open_nodes = len(nodes) - sum(one.nodes for one in told)
            first = inquiry.decisive(job)

            assert open_nodes >= 0
            assert (open_nodes == 0) == (first in told), "where a node is open none is to blame"
            for one in told:
                if not isinstance(one, why.Scarce) or one.resource not in UNITS:
                    continue
                unit = UNITS[one.resource]
                asked = {
                    "cpus": request.cpu_milli,
                    "memory": request.memory_mib,
                    "disk": request.disk_mib,
                }[one.resource]
                owned = {
                    "cpus": stage.cluster.nodes[one.node].spec.cpu_milli,
                    "memory": stage.cluster.nodes[one.node].spec.memory_mib,
                    "disk": stage.cluster.nodes[one.node].spec.disk_mib,
                }[one.resource]
                free = free_on(stage, one.node)[one.resource]
                assert one.needed == asked / unit
                assert one.total == owned / unit
                assert one.free == max(0, free) < one.needed
