"""How Rota fares, and who hears of it.

status, tally, metrics           counts of what waits and runs
database                         whether it answers
live, notify                     events as they happen; notices
"""
