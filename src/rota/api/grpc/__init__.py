"""gRPC for typed clients: the same functions as behind REST, told in ``cluster.proto``'s words."""
