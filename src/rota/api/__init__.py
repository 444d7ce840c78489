"""The REST interface, the agents' WebSocket and the process that serves both."""
