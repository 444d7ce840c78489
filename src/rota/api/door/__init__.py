"""The way in.

front, short_way                 who asks, and the few busy routes
cookie                           what a browser shows, and when it counts
methods                          which methods a path has
server, heads, certificate       sockets, bounds on headers, TLS, a clean end
agents                           the agents' WebSocket
"""
