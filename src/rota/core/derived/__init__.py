"""What follows from the facts, kept in step with them.

lanes, log                   jobs that are ready, by the class
census, families             jobs by state and by cap; arrays and elements, parents and children
demand                       what unfinished jobs ask of devices
live                         attempts that hold room, wait for it or lend it
accounts                     users and projects with all that follows for them:
holdings, running, usage     what they hold, what that has used so far, what they used before
overruns                     how far their runs outlive what they said
waiting                      how many of their jobs wait
ids                          which were given out, and how their jobs ended
agenda, dirty                what a pass, a tick and the store have to look at next
"""
