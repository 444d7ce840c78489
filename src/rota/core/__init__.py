"""The pure core: facts, states, events, and the one function that applies an event.

Each room knows only those below it; an import contract holds that.

changes/    what happened, what it changes, and what must hold afterwards
cluster     all of it: the facts, and what is derived
derived/    what follows from the facts, kept in step with them
words/      what people write, read and printed; beside derived
facts/      jobs, machines, amounts, accounts, rules; the table of legal moves
"""
