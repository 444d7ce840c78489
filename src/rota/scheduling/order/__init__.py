"""Who comes first.

orderings, keys              the rules that order jobs, and the key that a pass sorts by
lengths                      how long a job is taken to run, and to stay
heads                        the first job of a lane, as a pass deals with it
turns                        whose turn it is, of all lanes that a pass looks at
account_queues, standing     open lanes by account; lanes that wait for room, in order
fairshare                    use over target of users and projects
share_tree, share_use, capacity    what each is entitled to, and what it holds and has used
"""
