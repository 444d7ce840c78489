"""Why a job waits, and what would help. Asked from above: no part that decides imports this room.

explain, explain_past, reasons, prose, survey    why it waits, now or then
cluster_health                                   whether a cluster takes work, else why not
filed                                            what the pass filed it under
outer_words                                      numbers behind a reason of another program
queue_position, next_job                         which jobs come before it, and which one first
queue_stats, outlook, whole_sweep                how long jobs waited, and this one will
pledging                                         whether it can be promised to be done in time
waiting_line, line_plan, line_play               when each job of the line starts
bands, words                                     how sure that is, by what came of such words
demand                                           what waits, and which nodes would take it
advice, possible_changes, remedies, whatif       what would help, tried without a trace
"""
