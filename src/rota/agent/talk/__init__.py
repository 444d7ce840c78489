"""The lines of the agent: to the controller, and to the keeper on the same machine.

line                             the connection and its beats, for a far controller in a thread
wire, order_checks               the connection to the controller; what it may say
keyring                          what is shown to it: a join token, then the node's own key
redial, heartbeat, lease         when to dial again, when to beat, how long work may go on
keeper_link                      the agent's end of the keeper's socket
"""
