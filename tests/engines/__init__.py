"""Rota on engines that it does not own."""
