"""Room later: when a job that finds no room can start, and what is kept free for it.

promises, start_promised                 who is promised a start; who can have it now
grounds                                  nodes kept for jobs that waited too long
timeline, start_search, reserved         claims on nodes, and the earliest start beside them
occupancy, free_profile, departures      which attempt is where until when
predict, predict_runs                    how long a job will run
"""
