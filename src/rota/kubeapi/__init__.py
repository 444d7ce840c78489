"""What every client of a Kubernetes needs, whatever it asks for.

credentials    where they are found
quantity       amounts
words          what an error says, in one line
"""
