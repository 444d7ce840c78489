"""gRPC for typed clients: the same functions as behind REST, told in ``cluster.proto``'s words.

server                           the door
calls, endpoints                 the calls
reading, views                   what arrives, and what is told
"""
