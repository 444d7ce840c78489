"""A client for slurmrestd, the REST service of Slurm.

client      calls as any user, bounded in time, in the newest version that both sides know
values      numbers in all shapes that versions have for them
verdicts    what an error of Slurm means: refused, not now, silent, or nobody knows
"""
