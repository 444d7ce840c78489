"""What all commands share.

session, exits                   the connection, and exit codes
options, types                   options in sections, and their values
render, job_fields               rows become text; the fields of a job
"""
