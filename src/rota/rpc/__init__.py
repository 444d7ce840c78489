"""The wire between controller and agents: messages and how they are framed."""
