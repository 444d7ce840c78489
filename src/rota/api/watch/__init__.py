"""How Rota fares, and who hears of it.

status, tally, metrics           counts of what waits and runs
event_views                      what of an event is told
database                         whether it answers
live, notify                     events as they happen; notices
"""
