"""The way in.

front, short_way                 who asks, and the few busy routes
server, certificate              sockets, TLS, a clean end
agents                           the agents' WebSocket
"""
