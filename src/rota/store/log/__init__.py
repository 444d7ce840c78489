"""The log: events that are new have rows of their own, old ones share pages.

page       many events in one row, and which jobs they are about
reading    the events, wherever they are
paging     puts old events onto pages, and lets old pages go
"""
