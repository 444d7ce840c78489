"""The way in.

front, short_way                 who asks, and the few busy routes
editing                          tags of what admins edit, and edits that name them
repeating                        answers of requests with a key, for when they come again
cookie                           what a browser shows, and when it counts
methods                          which methods a path has
sockets, certificate             what it listens on, TLS
server, heads                    bounds on headers, a clean end
places                           how many connections one caller may hold
agents, request_times            the agents' WebSocket; how long requests take
"""
