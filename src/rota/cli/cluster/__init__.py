"""Commands about machines and their use.

nodes, gpu_table, inventory, top, top_frame    machines and devices, also live
node_keys                        which machines are let in as nodes
queue_stats, usage, stats        what waits, who uses how much, how jobs fared
web                              the web page, opened in a browser
clusters                         several clusters, and whether they take work
reserve, timeline                reservations, and when they are
"""
