"""The agent as a state machine: no I/O, no clock. The worlds and the swarm run it unchanged.

agent, charge                    all attempts of a node, and one of them
instructions                     what it says and hears
news, sequence                   changes for running attempts; which set comes next
"""
