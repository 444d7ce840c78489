"""A module per page: the right that it needs, the words of its frame, and its feeds.

now, job, sweep      what runs and waits; one job; many jobs that differ in parameters
plan, people, care   what was and will be; who used what; how the machines do
asked                a request for a page or a feed
"""
