"""Ask the four rules something, the way that a pass does: python examples/plugins/try_rules.py"""

from rota.controller.tick.plugins import clock, load_plugins, time_limit
from rota.core.derived.lanes import Shape
from rota.core.facts.job import Role, ServiceClass
from rota.core.facts.node import NodeSpec
from rota.core.facts.placing import ANYWHERE
from rota.core.facts.policy import OrderRules, Policy
from rota.core.facts.resources import Amount, Request
from rota.scheduling.api import NodeView, Victim
from rota.scheduling.evict.victims import LostWork
from rota.scheduling.registry import resolve

policy = Policy(
    order=OrderRules(primary="site_rules:quickest_first"),
    filters=("site_rules:not_on_old_drivers",),
    scorers=("site_rules:cool_nodes=30",),
    victims=("site_rules:SpareTheNight",),
    # Patient: what is slow here is the machine, and a rule that took too long is switched off.
    plugin_budget_ms=10_000,
)
total = Amount(64_000, 262_144, 0, 8000)
rules = resolve(policy, load_plugins(policy), victims=LostWork(total, nodes=1), clock=clock)

gpu_job = Shape(
    (Role(request=Request(device="gpu", device_count=1)),), ANYWHERE, ServiceClass.BURSTABLE
)
node = NodeView(
    NodeSpec("a1", 64_000, 262_144), {"driver": "470", "inlet_celsius": "25"}, (), total
)
night_run = Victim(7, "alice", 400.0, 9 * 3600, 600.0, Amount(4000), 0, 0.0)

with time_limit(rules.watch):
    print("filter:", *rules.plugged_problem(gpu_job, node))
    print("score:", rules.plugged_score(gpu_job, node))
    print("cost of evicting job 7:", rules.victims.cost(night_run))
print("switched off:", rules.dropped or "none")
