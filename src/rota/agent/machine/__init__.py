"""What this machine is and has.

discover, gpus                   the node as the controller is told of it
containers, cgroups              how attempts are kept apart
memory, listeners                who uses how much, and who listens at which port
"""
