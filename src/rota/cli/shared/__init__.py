"""What all commands share.

session, asking, exits           the connection, a question first, and exit codes
options, types                   options in sections, and their values
naming, complete                 which jobs are meant; values for the Tab key
live_line                        one line that is written over
render, job_fields, foretold     rows become text; the fields of a job, and when it will start
"""
