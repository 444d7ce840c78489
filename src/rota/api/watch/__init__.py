"""How Rota fares, and who hears of it.

status, tally, metrics           counts of what waits and runs
live, notify                     events as they happen; notices
curves                           what was measured lately
"""
