"""What goes once it is old.

prune      finished jobs and arrays, and on SQLite their events
months     on PostgreSQL the log, by whole months
"""
