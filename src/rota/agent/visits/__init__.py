"""What people want of single attempts on this node.

visits                           who is sent where
logs, log_order                  what attempts printed, in which order, and a last word of ours
log_days                         logs of ended attempts, in folders by day
terminals, tunnels               terminals and ports
"""
