"""The node side: the agent that speaks to the controller and the keeper that owns the processes."""
