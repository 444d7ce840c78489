"""What happened, and what it changes.

events, node_events, site_events, gpu_events    facts in the past tense
apply, apply_jobs, apply_attempts, apply_saving, apply_site, apply_steps, apply_clock    its effect
apply_engines, apply_gpus           the same of quotas and allocations of engines; of GPUs
holding, charging                   how attempts take room, and what they are charged for
dependencies                        whether a job's parents let it run
invariants, compare                 what must hold; whether two are the same
"""
