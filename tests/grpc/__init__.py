"""The gRPC service, with real channels to a real controller."""
