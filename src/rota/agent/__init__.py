"""The node side: the agent that speaks to the controller and the keeper that owns the processes.

The agent
    agent, instructions, charge, sequence    the state machine, without I/O
    host, alarm, agent_config, folder    the live host of it
    wire, redial, heartbeat, lease, order_checks    the line to the controller
    discover, gpus, address          what this machine is
Attempts
    launch, node_variables, containers, cgroups, gangs, news    how they start, and hear of changes
    errands, bundles, checkpoints, checkpoint_store, spare_folders    folders that come and go
    health, memory, processes, remarks    how they are, and why they were ended
    visits, logs, log_search, log_scan, terminals, tunnels, listeners    what people want of them
The keeper, which imports nothing of the above
    keeper, keeper_loop, keeper_orders, keeper_journal, keeper_lease    what it is told, and keeps
    keeper_spawn, keeper_exec, keeper_files, keeper_limits, keeper_spares, keeper_terminal,
    keeper_beside, keeper_reap       how processes begin and end
    keeper_link                      the agent's end of its socket
"""
