"""One scheduling pass, pure: reads a Cluster, returns decisions. Imports core and nothing else."""
