"""Single values as Slurm writes and reads them.

amounts, values                  times, durations, sizes: written, and read
states, patterns                 states of jobs and nodes; file names with marks
"""
