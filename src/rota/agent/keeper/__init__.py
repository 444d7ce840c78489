"""The keeper, a program of its own: it imports nothing but the standard library and this folder.

keeper                           its start: a lock, a socket, the state from the journal
loop, orders                     what it is told
journal, lease                   what it keeps, and until when
spawn, exec, files, limits, spares, terminal, beside    how processes begin
reap, processes                  how they end, and what /proc says of them
"""
