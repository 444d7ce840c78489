"""Commands about rules and shares.

policy, policy_trial             the rules of scheduling, and what others would have meant
sim, sim_options, replay         recorded workloads; decisions on record, taken again
accounts, quota, queue_admin, vdc    projects, users, what they may hold; queues, pools of clusters
"""
