"""What touches a user's files: done in a child process that has become that user.

children, frames                 the agent's end: children, bounded in time, number and answers
owners                           who a child must become
child                            the program of the child: it becomes the user, then does errands
unpack, trees, logs, scan        the errands: a working folder, folders of files, output, searches

The child's files run without the package around them and import all they need before the child
gives up its rights: the user may not be allowed to read the program.
"""
