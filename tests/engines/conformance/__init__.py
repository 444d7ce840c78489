"""One suite for all backends: what every engine must do as our own agents do.

scenarios         the 52 scenarios, and what each of them needs of a backend
bench             a controller, and a backend behind it, with five verbs
bench_agents      our own agents
bench_slurm       a real Slurm, by slurmrestd and by its commands
bench_kubernetes  a real Kubernetes, with nodes that run commands and with a real kubelet
proxy             what delays, drops, repeats and refuses between the parts
report            backend by scenario, at the end of a run and in docs/engines.md
"""
