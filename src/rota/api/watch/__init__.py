"""How Rota fares, and who hears of it.

status, tally, metrics, gpu_metrics    counts of what waits and runs, for Prometheus too
event_views                      what of an event is told
database                         whether it answers
live, notify                     events as they happen; notices
curves                           what was measured lately
"""
