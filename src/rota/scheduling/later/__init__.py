"""Room later: when a job that finds no room can start, and what is kept free for it.

promises, promising                      what is promised, and which jobs are promised a start
grounds                                  nodes kept for jobs that waited long
start_search                             the earliest start of a waiting job
timeline, free_profile                   what will be free on each node, from moment to moment
occupancy, departures, reserved          what that follows from: attempts that leave, and claims
predict, predict_runs                    how long a job will run
"""
