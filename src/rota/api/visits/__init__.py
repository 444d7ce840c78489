"""Going into running jobs.

visits                           who may, which task, how it ends
attach, forward, inside          a terminal, a port, a program beside the job's own
"""
