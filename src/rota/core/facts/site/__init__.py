"""What a site has of machines in the large.

clusters    which machines belong together, and virtual data centres over several clusters
models      whether a device is of the model that was asked for
prices      what an hour costs
"""
