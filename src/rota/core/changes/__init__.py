"""What happened, and what it changes.

events, node_events                 facts in the past tense
apply, apply_jobs, apply_attempts, apply_saving, apply_site, apply_steps    its effect
dependencies                        who waits for whom
invariants, compare                 what must hold; whether two are the same
"""
