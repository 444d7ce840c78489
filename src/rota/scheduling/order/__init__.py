"""Who comes first.

orderings                    the rules that order jobs, each one a key
heads                        the first job of a lane, as a pass deals with it
lengths                      how long a job is taken to run, and to stay
account_queues               lanes in the order of the policy, one queue per account
first_blocked                the first lanes among those that wait for room
key_memo                     how long a remembered key holds
fairshare, share_tree        use over target of users and projects
"""
