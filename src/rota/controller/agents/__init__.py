"""Agents as the controller sees them.

links, visit_lines, refusals     their connections, and lines to single attempts over them
report_checks, observe           what they report: whether it can be, and what follows
news_budget                      how much of what they say of themselves is put on record
admission, identity              who joins, and as which node
sessions, registering            who is connected, and the lease that they hold
liveness                         whether they are still there
bundles, job_tokens              what they fetch, and what jobs elsewhere show
user_secrets                     what only a launch carries
"""
