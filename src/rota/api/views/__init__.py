"""Jobs found and shown.

lookup, listing                  one job or array; lists of them
views, attempt_views, checkpoint_views    a job, its attempts, its saved work
paging                           lists a page at a time
times, reasons, refs             moments; why jobs wait, one line each, and their names in it
foretold                         when a job will probably start
gpus, pools                      devices; pools of engines
quota_use                        what accounts hold against their limits
"""
