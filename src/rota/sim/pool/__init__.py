"""The pass for a site that counts one thing only: one line, one number of free processors.

Many machines are such a *pool*: equal processors behind one queue, as in most recorded logs.
There a decision needs no search over nodes, so that a log of a year plays in seconds. A pool
decides what the general pass decides; tests hold one against the other. Only the simulator has
one; a site that a pool does not know is refused and played by the pass.

    api         what a pool is told and what it answers; which sites it refuses
    easy        strict, with skipping, or with EASY backfill: a pool that counts
    planned     conservative backfill, and promises on numbered processors
    profile     how many processors, or which ones, are free from when to when
    line        waiting jobs in order, cut into blocks
    ranking     where each job stands, by the orderings of the pass
    dues        the same under the order ``due``, with fair share
    shares      use over target of users
    candidates  jobs that may pass the first
    ranked      jobs give way at any moment: the one that has least left to do runs
"""
