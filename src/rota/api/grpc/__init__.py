"""gRPC for typed clients: the same functions as behind REST, told in ``cluster.proto``'s words.

server                           the door
calls, endpoints                 the calls
reading, views                   what arrives, and what is told
"""

import os

# The library would end every copy of this process that answers a question aside.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
