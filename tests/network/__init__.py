"""Clusters over networks that fail, and peers that do not keep to the protocol."""
