"""The pure core: facts, states, events, and the one function that applies an event."""
