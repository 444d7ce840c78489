"""Durable state: one transaction per tick, on SQLite or PostgreSQL."""
