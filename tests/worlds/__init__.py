"""Whole worlds from a seed: the real controller and agents, everything around them pretended."""
