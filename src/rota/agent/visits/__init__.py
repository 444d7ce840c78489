"""What people want of single attempts on this node.

visits                           who is sent where
logs, log_order                  what attempts printed, in which order, and a last word of ours
terminals, tunnels               terminals and ports
"""
