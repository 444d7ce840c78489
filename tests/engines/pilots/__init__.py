"""Allocations of real engines that are asked for when jobs wait."""
