"""What people want of single attempts on this node.

visits                           who is sent where
logs                             what attempts printed, and a last word of ours in it
terminals, tunnels               terminals and ports
"""
