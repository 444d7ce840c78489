"""What a tick does by itself.

scribe, batches, broken          the events of one tick, the rows they changed, jobs that break it
lifecycle, timers, migrate       what follows from what, what is due, nodes that are emptied
endings                          what the end of a job is called, and in which words
promised                         deadlines that were promised
plan_events, forecast, plugins   the pass: its decisions as events, run times, others' rules
"""
