"""What follows from the facts, kept in step with them.

lanes                        jobs that are ready, by the class
waiting, running             what waits and what runs, by account
holdings, usage              what accounts hold, and what they have used
overruns                     how far their runs outlive what they said
"""
