"""What this machine is and has.

discover, gpus                   the node as the controller is told of it
containers, cgroups              how attempts are kept apart
fence, device_program, bpf       what keeps an attempt from the devices of others
memory, foreign, listeners       who uses how much, and who listens at which port
gauges, readings, figures        what is measured every few seconds; of devices; of attempts
looks                            what may hang: the memory of users' processes
amd_processes                    which processes are on AMD cards
"""
