"""Room of others: who gives way, and what it costs.

preempting                   what a pass does for a job that may take room from others
search, victims              the cheapest set of victims
victim_nodes, eviction_trial    where to look, and whether it would be enough
lending                      victims that stand still and lend their CPUs
"""
