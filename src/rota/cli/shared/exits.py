"""Exit codes of ``rota``, so that scripts can tell what happened.

``rota run`` ends with the code of its job instead (128 + the signal when one ended it).
"""

from __future__ import annotations

OK = 0
#: A negative answer: a job did not complete, a check failed, some job could not be changed.
NEGATIVE = 1
#: The command line was wrong, or the server refused the request.
USAGE = 2
#: Nothing answers where we looked.
UNREACHABLE = 3
#: What we waited for did not happen in time.
TIMEOUT = 124
INTERRUPTED = 130
#: The reader of our output went away, as `head` does.
PIPE_CLOSED = 141
