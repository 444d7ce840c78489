"""The same API for programs that run an event loop.

No thread makes requests and nothing blocks the loop: all calls go over one kept connection, and
one open line tells of the ends of all jobs.

cluster      AsyncCluster and what opens one
job          AsyncJob: a job to await
verbs        questions and orders
watch        the open line for ends
line         HTTP to the server
"""

from rota.client.aio.cluster import AsyncCluster, connect_async, local_async
from rota.client.aio.job import AsyncJob

__all__ = ["AsyncCluster", "AsyncJob", "connect_async", "local_async"]
