"""The programs that run elsewhere: files that need Python, or a compiler, and nothing of ours.

programs                         they as text, put together from the files beside it
relay                            the commands on PATH (in C: ``relay.c`` and ``bare.c``)
stepper, step_tasks, step_taps, step_programs    what starts the tasks of steps
"""
