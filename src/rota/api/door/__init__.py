"""The way in.

front, short_way                 who asks, and the few busy routes
methods                          which methods a path has
server, heads, certificate       sockets, bounds on headers, TLS, a clean end
agents, request_times            the agents' WebSocket; how long requests take
"""
