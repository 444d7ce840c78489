"""Builders and stories for tests: public, and used by our own tests."""
