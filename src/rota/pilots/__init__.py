"""Pilots: engines are asked for allocations when jobs wait, and Rota's own agent runs in them.

A process of its own beside the controller, to which it is a client like any other. What it has
asked for is in a journal on disk before it is asked, and in the engine under a key of ours: killing
it loses nothing, and nothing is asked for twice.

    plan      how many allocations of which shape would help, without I/O
    shapes    what an allocation has, and its names
    orders    the order for one allocation: our agent, and how it joins
    fleet     the allocations of one pilot
    setbacks  how long to wait when they die at once
    desk      what the controller is asked and told
    keeper    the process that keeps all pilots of a Rota
"""
