"""Hosts for the core on a virtual clock: deterministic worlds with faults."""
