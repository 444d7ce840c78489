"""Folders on this node that come and go with jobs.

bundles                          working folders that travel with jobs
checkpoints, checkpoint_store    saved work, here and in a store that all nodes reach
spare_folders                    folders that are used again
reports                          where jobs say how far they are
"""
