"""Quotas of projects as other tools know them: Rota's own, and those that another program has.

api         what every provider answers, and what a source outside is asked for
sources     the sources by their names
k8s         ResourceQuota objects of a Kubernetes
slurm       accounts, QOS and GrpTRES of a Slurm
slurm_ways  how Slurm is asked: by its commands, or by slurmrestd
tres        what Slurm's words for limits and use mean
"""
