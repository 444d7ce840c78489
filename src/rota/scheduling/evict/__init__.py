"""Room of others: who gives way, and what it costs.

preempting                   what a pass does for a job that may take room from others
search, cheapest_set         the cheapest set of victims
claimant, victims, unit      who may take whose room, and what each victim costs
worth                        what jobs are worth against each other: by priority or by length
victim_nodes, node_units     where to look, and the least that it can cost there
prospects                    shapes that no eviction helps, from pass to pass
eviction_trial               whether it would be enough
lending                      victims that stand still and lend their CPUs
"""
