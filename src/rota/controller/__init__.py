"""The live host of the core: commands in, one tick, one commit, orders to agents out."""
