"""The API, against a real server on real sockets."""
