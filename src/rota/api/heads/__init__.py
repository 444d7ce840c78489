"""Several controllers over one PostgreSQL: one leads, the others wait to take over.

turn           when a process leads
standby        how a head waits for its turn
waiting_room   what it answers meanwhile: who leads
reading        what it can be asked all the same: lists, pages of jobs, metrics
shared_keys    certificate and keys, which the successor needs
"""
