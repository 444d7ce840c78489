"""Quotas that a real Slurm or Kubernetes enforces."""
