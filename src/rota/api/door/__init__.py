"""The way in.

front, short_way                 who asks, and the few busy routes
methods                          which methods a path has
server, heads, certificate       connections, bounds on headers, TLS, a clean end
sockets                          where the controller listens
agents                           the agents' WebSocket
"""
