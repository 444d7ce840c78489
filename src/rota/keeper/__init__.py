"""The keeper, a program of its own: it imports nothing but the standard library and this folder.

keeper, means                    its start: a lock, a socket, the state from the journal
loop, wake, orders               what it is told
journal, lease                   what it keeps, and until when
starting, link, spares, beside   how processes begin: orders to a starter, and its reports
packed, failures                 the bytes of both, and why there is no process in words
build, starter, bond, terminal   the starter: compiled (``starter.c``), and in Python
reap, signals, processes         how they end, and what /proc says of them
origins, asides                  whose a process is that left its attempt
"""
