"""Old finished jobs and the log in compressed columnar files.

writing    what is added to them
reading    an archive as a store that is only read
"""
