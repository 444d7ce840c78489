"""Words: what people write, read and printed.

units, policy_text, placing_text    amounts, times, rules and places
presets                             policies by name
kin                                 what a job may do for itself
"""
