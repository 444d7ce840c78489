"""The pure core: facts, states, events, and the one function that applies an event.

facts/      jobs, machines, amounts, accounts, rules; the table of legal moves
changes/    what happened, what it changes, and what must hold afterwards
derived/    what follows from the facts, kept in step with them
words/      what people write, read and printed
cluster     all of it: the facts, and what is derived
"""
