"""Commands about machines and their use.

nodes, gpu_table, inventory      machines and devices
top, top_app, top_frame          the same live, with jobs: the screens, and one frame as text
node_keys                        which machines are let in as nodes
queue_stats, usage, stats        what waits, who uses how much, how jobs fared
report, report_page              a week or month, as text or as one page
web                              the web page, opened in a browser
clusters                         several clusters, and whether they take work
reserve, timeline                reservations, and when they are
"""
