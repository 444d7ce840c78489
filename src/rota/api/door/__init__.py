"""The way in.

front, short_way                 who asks, and the few busy routes
methods                          which methods a path has
sockets, certificate             what it listens on, TLS
server, heads                    bounds on headers, a clean end
agents                           the agents' WebSocket
"""
