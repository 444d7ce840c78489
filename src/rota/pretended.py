"""A Rota whose machines are made up says so with every answer: nobody takes its jobs for real."""

from __future__ import annotations

#: In every answer of such a Rota.
HEADER = "Rota-Pretended"
#: What people are told.
REMARK = "the machines are pretended: jobs are placed and ended, and nothing is executed"
