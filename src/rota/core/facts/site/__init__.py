"""What a site has beside machines and jobs.

clusters     which machines belong together, and virtual data centres over several clusters
models       whether a device is of the model that was asked for
prices       what an hour costs
pilot        allocations that engines are asked for when jobs wait
outer        quotas that another program keeps, as it said last
audit        who did what
"""
