"""How a node speaks to the controller, whether a keeper or an engine runs its work.

The state machine has no I/O and no clock: the worlds and the swarm run it unchanged.

    agent, charge                    all attempts of a node, and one of them
    instructions                     what it says and hears
    news, sequence                   changes for running attempts; which set comes next

The line to the controller:

    line                             the connection and its beats, for a far controller in a thread
    wire, order_checks               the connection to the controller; what it may say
    greeting                         to whom it says it
    keyring                          what is shown to it: a join token, then the node's own key
    redial, heartbeat, lease         when to dial again, when to beat, how long work may go on
    alarm                            the one timer of a live host
    folder                           who works in a node's folder, and which installation it is
"""
