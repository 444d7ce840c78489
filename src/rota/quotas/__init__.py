"""Quotas of projects as other tools know them: an interface, and Rota's own records behind it."""
