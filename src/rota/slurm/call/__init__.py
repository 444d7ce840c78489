"""One call of a command.

command, view                    what is asked and answered, by whom, and what may be known
opening, getopt                  its words
wire, waiting                    its line, and waiting on it
list_turns                       long lists of one user, one after the other
people                           commands that wait until users of this machine are known
"""
