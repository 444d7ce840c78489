"""What tasks leave on their nodes, and say from there of how far they are.

artifacts              all of it, as one list
results, left_files    what functions returned
reports, progress      what jobs say; of many at once, and of one over time
"""
