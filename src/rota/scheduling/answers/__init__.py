"""Why a job waits, and what would help.

explain, reasons, prose, survey, queue_position, past    why it waits
queue_stats, outlook                                     how long others waited, and it will
advice, possible_changes, remedies, whatif               what would help, tried without a trace
policies                                                 the rules, job by job
"""
