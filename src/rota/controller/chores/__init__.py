"""What a live host does beside its ticks, for ever and by the way.

rounds                           how a chore is done for ever
retention, garbage               what is forgotten; how the collector of Python is set
trusted_time                     by which time, where the clock may be wrong
audit_shipping                   the audit in a file, or in syslog
saved_work                       saved work of jobs: what is there, what is dropped
node_keys                        new keys for nodes
outbox, elsewhere                who is told, and who is asked: notices, an inventory outside
measures                         what agents measure: kept for a while, and what follows
quota_sync                       who is asked for quotas that another program has
foretelling                      when jobs that wait will probably start
policy_guard                     rules on trial, undone when jobs wait longer than foretold
reign                            one head of several leads: its signs of life, and its end
"""
