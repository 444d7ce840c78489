"""The pass for a site that counts one thing only: one line, one number of free processors.

Many machines are such a *pool*: equal processors behind one queue, as in most recorded logs, or a
box whose jobs ask for CPUs alone. There a decision needs no search over nodes, so that a log of
a year plays in seconds. ``Pool`` decides what the general pass decides; tests hold one against
the other. The simulator drives it directly, and a ``Scheduler`` uses it where a site allows.
"""
