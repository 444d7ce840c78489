"""Below the REST client: connections, and what comes back over them.

ways       a unix socket, the network
pinned     an encrypted connection to a server that is known by its certificate
sending    parameters and bodies
leading    whether another head leads by now
answers    a value, or the exception that an answer stands for
"""
