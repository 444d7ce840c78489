"""The standard library's ``Executor`` on Rota.

executor     a job per call
pool         workers that stay, each a job
pool_worker  what such a job does
chunks       calls that share a job
"""
