"""The Slurm commands: parsed and answered in the server, relayed by a tiny program."""
