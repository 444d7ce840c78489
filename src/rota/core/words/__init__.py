"""Words: what people write, read and printed.

units, policy_text, placing_text    amounts, times, rules and places
licenses                            licences and how many of each
presets                             policies by name
bound                               how long a job waits at most under a policy
kin                                 what a job may do for itself
"""
