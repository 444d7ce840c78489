"""What a tick does by itself.

scribe, batches                  the events of one tick, and the rows that they changed
lifecycle, timers, migrate       what follows from what, what is due, nodes that are emptied
plan_events, forecast, plugins   the pass: its decisions as events, run times, others' rules
"""
