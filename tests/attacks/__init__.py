"""What a plain user of a site tries: as real users, against a service that runs as root.

becoming            to get the rights of root or of another user
freezing            to stop the service, a node, or the work of others
asking              to keep the others waiting by questions
reading             to see what is another's
posing              to act as another user, as a job or as a node
"""
