"""Rota: one scheduler for AI/ML compute, from a single GPU box to a cluster."""

__version__ = "0.1.0"
