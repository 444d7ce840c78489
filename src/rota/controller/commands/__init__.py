"""What a caller may ask: each command is a value that becomes events or a refusal.

commands, access                 the values, and whether a role allows them
submit, possible, change         jobs: new ones, and changes of those that exist
rehearse                         what a change would do, without doing it
enter_job, endpoints, steps      what is inside of running jobs
site, accounts, reserve, reserve_job    nodes, queues, projects, reservations
pledges                                 deadlines that are promised
clusters                         which cluster a job names; virtual data centres
credentials                      tokens, and the keys of nodes
gpu_findings                     what measuring has found about GPUs
"""
