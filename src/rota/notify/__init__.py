"""Telling others what happened to jobs: webhooks, mail and notifiers of one's own.

From an event to a message
collect                  which messages follow from an event: to whom and by which way
notice                   which events tell of what, in which words
sweeps                   what is told of an array as a whole
node_notices, quota_notices  what the site is told of its nodes and its quotas

From a message to somebody
courier, receiver        the thread that carries them; what waits for one receiver
channels, mail, tracker  a POST to a URL, SMTP, a tracker of experiments
plugins                  notifiers of one's own
"""
