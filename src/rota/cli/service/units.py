"""Units for systemd: the text of one, for the machine or for one person, head or agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

HEAD, AGENT = "rota.service", "rota-agent.service"
#: From this version on systemd puts a service into a part of its group; the rest is for jobs.
SUBGROUPS_SINCE = 254


class UnitOrder(NamedTuple):
    """What the unit shall start, and for whom."""

    command: Sequence[str]
    #: The service of the whole machine, run by root; else that of one person.
    system: bool
    #: What it is, in a word for people: ``scheduler``, ``agent``.
    what: str
    state_dir: str = ""
    #: The version of systemd on the machine; 0: unknown.
    systemd: int = 0


def unit(wanted: UnitOrder) -> str:
    """The text of the unit."""
    return "\n".join(
        [
            "[Unit]",
            f"Description=Rota {wanted.what}",
            *(["Wants=network-online.target"] if wanted.system else []),
            *(["After=network-online.target postgresql.service"] if wanted.system else []),
            # It is started again for as long as it takes: nodes and databases come back.
            "StartLimitIntervalSec=0",
            "",
            "[Service]",
            "Type=notify",
            *([f'Environment="ROTA_STATE_DIR={wanted.state_dir}"'] if wanted.state_dir else []),
            "ExecStart=" + " ".join(_quoted(word) for word in wanted.command),
            "Restart=always",
            "RestartSec=1",
            "TimeoutStartSec=180",
            "TimeoutStopSec=60",
            "# Only the first process is told to stop. Jobs and their keeper go on.",
            "KillMode=process",
            *_groups(wanted),
            "# A job that the kernel ends for its memory is the end of that job, not of the unit.",
            "OOMPolicy=continue",
            *_limits(wanted),
            "",
            "[Install]",
            f"WantedBy={'multi-user' if wanted.system else 'default'}.target",
            "",
        ]
    )


def _groups(wanted: UnitOrder) -> list[str]:
    lines = ["# The control groups of jobs are made in that of the unit.", "Delegate=yes"]
    if wanted.systemd >= SUBGROUPS_SINCE or not wanted.systemd:
        lines.append("DelegateSubgroup=rota")
    return lines


def _limits(wanted: UnitOrder) -> list[str]:
    """Only the manager of the whole machine can lift limits."""
    if not wanted.system:
        return []
    return [
        "# Jobs are in this unit too: its limits would be theirs.",
        "TasksMax=infinity",
        "LimitNOFILE=1048576",
    ]


def _quoted(word: str) -> str:
    """As systemd reads a command: quotes, and no specifiers or variables."""
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return plain if plain == word and word and not set(word) & set(" \t';") else f'"{plain}"'


def settings(state_dir: str) -> str:
    """A first ``rota.toml``: nothing is set, the usual things are there to be taken up."""
    return f"""\
# Settings of this machine's Rota; its state is in {state_dir}. All keys: docs/admin.md.
# After a change: systemctl restart rota (jobs go on).

[server]
# Other machines may come in over the network (with TLS and tokens):
# listen = "0.0.0.0:8082"
# tls_names = ["head.example.org"]
# A password may stand here: keep this file closed to others.
# database = "postgresql://rota:SECRET@127.0.0.1:5432/rota"

[agent]
# reserve_memory = "4g"
"""
