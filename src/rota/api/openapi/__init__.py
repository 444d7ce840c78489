"""The OpenAPI document: what is in it, its examples, and the page that people read."""
