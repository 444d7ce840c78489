"""Going into running jobs.

visits                           who may, which task, how it ends
attach, forward                  a terminal, a port
"""
