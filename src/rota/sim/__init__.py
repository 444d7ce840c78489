"""The simulator: recorded workloads through the scheduling core on a virtual clock."""
