"""Routes about the site: machines, rules and shares.

nodes, pools, reservations       machines, and who may have them when
node_keys                        which machine is let in as a node
pilots                           allocations of engines that are asked for when jobs wait
clusters, vdcs                   machines by their cluster; virtual data centres
queues, queue_stats              where jobs wait
accounts, quotas, usage, stats, tokens    who jobs count for, and what was used
project_quotas                   what a project has, and whether it may have more now
quota_alerts                     limits that are nearly used up, put on record
report, report_sums              a period in figures
policy, policy_replay            the rules of scheduling
policy_apply                     rules that are set with a guard
user_secrets, audit              what only jobs see; who did what
"""
