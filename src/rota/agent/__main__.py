"""``python -m rota.agent``: run the agent of this machine in the foreground."""

from __future__ import annotations

import argparse
import logging
import os
from pathlib import Path

from rota.agent.host import AgentConfig, run_agent
from rota.agent.machine.discover import Overrides
from rota.given_tokens import SEEN_BY_ALL, NoToken, read_token
from rota.log_lines import LogLines
from rota.settings.agent import POLICIES


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.token:
        parser.error(SEEN_BY_ALL)
    target = logging.StreamHandler()
    target.setFormatter(LogLines("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[target], force=True)
    overrides = Overrides(
        name=options.name,
        cpus=options.cpus,
        memory_mib=options.memory_mib,
        disk_mib=options.disk_mib,
        gpus_file=options.gpus_file,
        labels=dict(options.label),
    )
    try:
        token = read_token(options.token_file, os.environ)
    except NoToken as error:
        parser.error(str(error))
    return run_agent(
        AgentConfig(
            options.state_dir,
            options.url,
            token,
            overrides,
            options.cgroup_root,
            enforce_devices=options.enforce_devices,
        )
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rota-agent", description=__doc__)
    parser.add_argument("--state-dir", type=Path, required=True, help="its folder is agent/ below")
    parser.add_argument(
        "--url", required=True, help="unix:///path/rota.sock or http(s)://host:port"
    )
    parser.add_argument(
        "--token-file", default="", help="where a join token is, until the node has a key"
    )
    parser.add_argument("--token", default="", help=argparse.SUPPRESS)
    parser.add_argument("--name", default="", help="the node's name; default: the host's")
    parser.add_argument("--cpus", type=float, help="instead of what the machine has")
    parser.add_argument("--memory-mib", type=int, help="instead of what the machine has")
    parser.add_argument("--disk-mib", type=int, help="instead of what is free")
    parser.add_argument("--gpus-file", default="", help="JSON file of made-up GPUs")
    parser.add_argument("--label", type=_label, action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--cgroup-root", default="", help="a delegated cgroup v2 folder")
    parser.add_argument(
        "--enforce-devices",
        choices=POLICIES,
        default="auto",
        help="whether jobs can open only the GPUs that they were given; required: else no GPU jobs",
    )
    return parser


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


if __name__ == "__main__":
    raise SystemExit(main())
