"""The way in.

front, short_way                 who asks, and the few busy routes
editing                          tags of what admins edit, and edits that name them
repeating                        answers of requests with a key, for when they come again
methods                          which methods a path has
server, heads, certificate       sockets, bounds on headers, TLS, a clean end
agents                           the agents' WebSocket
"""
