"""The node side against real processes, and its state machine without any."""
