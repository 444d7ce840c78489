"""The hosts behind ``rota up`` and ``rota agent``: processes on this machine."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import stat
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rota import config, paths, sd_notify
from rota.agent.record import forget
from rota.cli.service import engines, pilots, pretend
from rota.cli.service.logbook import formatter, open_logbook
from rota.cli.service.state_folder import StateFolder, read_json, refuse_anothers
from rota.cli.service.stop_jobs import let_jobs_start
from rota.cli.service.supervise import Supervisor, Ward
from rota.client.errors import ClientError
from rota.core.facts.errors import Rejected, RotaError
from rota.core.words.placing_text import parse_taint
from rota.digits import is_digits

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.api.plan import ControllerPlan
    from rota.cli.service.service_options import AgentOptions, UpOptions
    from rota.config import Config

#: How long the first start may take: loading a large state, an agent finding its devices.
READY_S = 120.0
#: With less than this free a start ends without a word.
ROOM_BYTES = 1 << 20
FAKE_GPU_MIB = 16_384


def up(options: UpOptions) -> int:
    """Start controller and agent and keep them alive; in the background if asked."""
    place, settings = prepare(options.state_dir or pretend.folder(options))
    try:
        holder = place.supervisor.take()
    except OSError as error:
        raise Rejected(f"cannot write in {place.folder}: {error.strerror}") from None
    if holder and options.accept_database:
        raise Rejected("--accept-database: rota is up; stop it first with 'rota down'")
    if holder:
        return _already_up(place, holder, options.detach)
    if options.accept_database:
        forget(place.agent_folder)
    pretend.check(place, settings, options)
    plan = _plan(place, settings, options)
    engines.check(settings)
    # The agent of a head must find the one that leads: it is started by itself, with all addresses.
    with_agent = options.with_agent and not plan.standby and not options.pretend
    work = partial(_supervise, place, plan, settings, options, with_agent)
    return _detach(place, work) if options.detach else work(None)


def prepare(state_dir: str) -> tuple[StateFolder, Config]:
    if state_dir:
        os.environ["ROTA_STATE_DIR"] = str(Path(state_dir).absolute())
    folder = paths.state_dir(os.environ)
    refuse_anothers(folder)
    settings = config.load(os.environ)
    try:
        folder.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
        os.close(os.open(folder / "supervisor.lock", os.O_RDWR | os.O_CREAT, 0o600))
        found = folder.stat()
    except FileExistsError:
        raise Rejected(f"{folder} is not a folder; move it away, or name another") from None
    except OSError as error:
        raise Rejected(f"cannot write in {folder}: {error.strerror}") from None
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        raise Rejected(f"every user may write in {folder}, where keys lie: chmod o-w {folder}")
    return StateFolder(folder), settings


def _already_up(place: StateFolder, holder: int, detach: bool) -> int:
    status = place.status()
    url = (status.get("controller") or {}).get("url") or place.socket
    print(f"rota is already up at {url} (supervisor pid {holder}, state in {place.folder})")
    return 0 if detach else 1


def _plan(place: StateFolder, settings: Config, options: UpOptions) -> ControllerPlan:
    from rota.api.plan import ControllerPlan

    listen = options.listen or settings.server.listen
    host, port = config.parse_listen(listen or config.DEFAULT_LISTEN)
    # What is made up has a socket of its own alone: the one for everybody is for real work.
    socket = "" if options.pretend else paths.system_socket(settings.server.socket)
    return ControllerPlan(
        state_dir=str(place.folder),
        host=host,
        port=port,
        port_chosen=bool(listen),
        database=options.database or settings.server.database,
        inbox_size=settings.server.inbox_size,
        retention_days=settings.server.retention_days,
        retention=settings.retention,
        lease_s=float(settings.server.lease_s),
        tls=settings.server.tls,
        tls_names=settings.server.tls_names,
        node_key_days=settings.server.node_key_days,
        sockets=(socket,) if socket else (),
        policy=settings.scheduling.policy,
        rules=settings.scheduling.rules,
        checkpoint_path=settings.server.checkpoint_path,
        checkpoints=settings.checkpoints,
        results=settings.results,
        bundles=settings.bundles,
        limits=settings.limits,
        audit=settings.audit,
        gpus=settings.gpus,
        quota_provider=settings.scheduling.quota_provider,
        quotas=settings.quotas,
        notify=settings.notify,
        log_level=settings.server.log_level,
        log_format=settings.server.log_format,
        traces=settings.server.traces,
        collectors=settings.server.collectors,
        inventory_url=settings.server.inventory_url,
        inventory_token=settings.server.inventory_token,
        grpc_port=config.parse_port(options.grpc_port or settings.server.grpc_port),
        pilots=settings.pilots,
        secrets_key_file=os.path.expanduser(settings.server.secrets_key_file),
        standby=options.standby or settings.server.standby,
        runs_jobs=options.with_agent and not options.pretend,
        pretended=bool(options.pretend),
    )


def _detach(place: StateFolder, work: Callable[[int], int]) -> int:
    """Fork a supervisor into the background and wait for its word."""
    hear, tell = os.pipe()
    # The lock goes with the child: a lock belongs to the open file, not to the process.
    pid = os.fork()
    if pid == 0:
        os.close(hear)
        os.setsid()
        _silence(place.folder / "controller.log")
        code = 1
        try:
            place.supervisor.rewrite()
            code = work(tell)
        finally:
            os._exit(code)
    os.close(tell)
    with os.fdopen(hear, "r", encoding="utf-8") as pipe:
        first, _, rest = pipe.read().partition("\n")
    if first != "ready":
        text = rest.strip() or f"rota did not start; see {place.folder / 'controller.log'}"
        raise Rejected(text)
    print(rest.strip())
    return 0


def _silence(log: Path) -> None:
    """Let go of the terminal; what is printed from here on goes to the log."""
    null = os.open(os.devnull, os.O_RDONLY)
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(null)
    os.close(out)


def _supervise(
    place: StateFolder,
    plan: ControllerPlan,
    settings: Config,
    options: UpOptions,
    with_agent: bool,
    tell: int | None,
) -> int:
    """Be the supervisor. ``tell`` is where the one who waits for us listens, if somebody does."""
    try:
        from rota.api import process as _ready  # noqa: F401 - children are forked with it loaded
    except ImportError as error:
        _say(tell, "failed", f"the installation is not whole: {error}; install rota again")
        return 2
    detached = tell is not None
    sd_notify.take_over(os.environ)
    trouble, whisper = os.pipe()
    os.set_blocking(trouble, False)
    os.set_blocking(whisper, False)
    start = partial(run_controller, plan, detached, whisper)
    wards = [Ward("controller", start, place.controller.holder, keep=whisper)]
    if with_agent:
        from rota.agent import host as _warm  # noqa: F401 - children are forked with it loaded

        start = partial(_run_agent, place.folder, settings, detached, whisper)
        wards.append(Ward("agent", start, place.agent_pid, keep=whisper))
    if options.pretend:
        wards.append(pretend.ward(place, settings, options))
    wards += [*engines.wards(place, settings, detached), pilots.ward(place, settings, detached)]
    supervisor = Supervisor(wards, _complain)
    code = supervisor.start(partial(_is_ready, place, with_agent, options.pretend), READY_S)
    if code:
        # Nothing of it is left when the caller hears of it: the next start finds the folder free.
        _end(place, supervisor)
        _say(tell, "failed", _trouble(trouble, place.folder))
        return 2
    words = _ready_line(place, options.pretend)
    _say(tell, "ready", words)
    if tell is None:
        sd_notify.ready(words.partition("\n")[0])
    supervisor.watch(place.supervisor.is_gone)
    if place.supervisor.is_gone():
        _complain(f"the state folder {place.folder} was removed; stopping, running jobs go on")
    sd_notify.stopping()
    _end(place, supervisor)
    return 0


def _end(place: StateFolder, supervisor: Supervisor) -> None:
    supervisor.stop()
    place.dismiss_keeper()
    place.supervisor.release()


def _say(tell: int | None, how: str, words: str) -> None:
    """How the start went, to the one who waits for us; without one, to the terminal."""
    if tell is not None:
        os.write(tell, f"{how}\n{words}".encode())
        os.close(tell)
    elif how == "failed":
        _complain(words)
    else:
        print(words, flush=True)


def _trouble(pipe: int, folder: Path) -> str:
    with contextlib.suppress(BlockingIOError):
        return os.read(pipe, 8192).decode(errors="replace").strip()
    disk = os.statvfs(folder)
    if disk.f_bavail * disk.f_frsize < ROOM_BYTES:
        # Then its log has no words either.
        return f"it ended while it was starting: the disk that holds {folder} is full"
    return "it ended while it was starting; its log in the state folder says why"


def _is_ready(place: StateFolder, with_agent: bool, pretended: int) -> bool:
    status = place.status()
    if pretended:
        return bool(status) and pretend.is_ready(place)
    if not status or not with_agent:
        return bool(status) or _stands_by(place)
    agent = status.get("agent") or {}
    return bool((agent.get("node") and place.at_work(agent.get("pid") or 0)) or place.refusal())


def _stands_by(place: StateFolder) -> bool:
    return bool(read_json(place.folder / "controller.json").get("standby"))


def _ready_line(place: StateFolder, pretended: int) -> str:
    if _stands_by(place):
        written = read_json(place.folder / "controller.json")
        line = f"rota stands by at {written['url']}, state in {place.folder}"
        return "\n".join(filter(None, (line, written.get("remark"))))
    with contextlib.suppress(ClientError):
        let_jobs_start(place.client())
    status = place.status()
    refusal = place.refusal()
    node = "" if refusal else (status.get("agent") or {}).get("node")
    url = (status.get("controller") or {}).get("url")
    record = read_json(place.folder / "controller.json")
    more = f", gRPC at {record['grpc']}" if record.get("grpc") else ""
    own = str(place.folder / "rota.db")
    database = "" if record.get("database") == own else f", database {record.get('database')}"
    here = f"node {node}" if node else "no node here"
    if pretended:
        here = f"pretended nodes: {pretended}{pretend.way(place)}"
    lines = [f"rota is up at {url}{more}, state in {place.folder}{database}, {here}"]
    if record.get("remark"):
        lines.append(str(record["remark"]))
    if refusal:
        lines.append(f"the agent of this machine does not work for it: {refusal}")
    return "\n".join(lines)


def _complain(line: str) -> None:
    print(f"rota: {line}", file=sys.stderr, flush=True)


def run_controller(plan: ControllerPlan, detached: bool = False, trouble: int = -1) -> int:
    """Be the controller process until told to stop; trouble at the start is one line and 2."""
    from rota.api.process import run

    file = Path(plan.state_dir) / "controller.log"
    open_logbook(file, plan.log_level, detached, plan.log_format)
    try:
        run(plan)
    except RotaError as error:
        _tell(trouble, detached, str(error))
        return 2
    return 0


def _tell(trouble: int, detached: bool, line: str) -> None:
    """To the supervisor, which passes it on if it is still starting us; else to stderr."""
    if trouble >= 0:
        with contextlib.suppress(OSError):
            os.write(trouble, line.encode())
    if detached or trouble < 0:
        _complain(line)


def _run_agent(folder: Path, settings: Config, detached: bool, trouble: int) -> int:
    """Be the agent of this machine, for the controller on it."""
    server = settings.server
    open_logbook(folder / "agent.log", server.log_level, detached, server.log_format)
    url = f"unix://{folder / paths.SOCKET_NAME}"
    return _agent_process(folder, url, "", settings, "", partial(_tell, trouble, detached))


def _agent_process(
    folder: Path,
    url: str,
    token: str,
    settings: Config,
    name: str,
    say: Callable[[str], object] | None = None,
    guest: AgentOptions | None = None,
) -> int:
    from rota.agent.host import AgentConfig, run_agent
    from rota.agent.machine.discover import Overrides, memory_total_mib
    from rota.agent.machine.gpus import Tolerance

    asked = settings.agent
    memory_mib = asked.memory_mib or None
    if memory_mib is None and asked.reserve_memory:
        memory_mib = max(0, memory_total_mib() - asked.reserve_memory_mib)
    overrides = Overrides(
        name=name or asked.name,
        address=asked.address,
        cpus=asked.cpu_milli / 1000 if asked.cpus else None,
        memory_mib=memory_mib,
        gpus_file=_fake_gpus(folder, asked.fake_gpus),
        labels=asked.all_labels,
        taints=tuple(parse_taint(text) for text in asked.taints),
    )
    plan = AgentConfig(
        folder,
        url,
        token,
        overrides,
        asked.cgroup_root,
        settings.server.retention_days,
        Tolerance.of(asked.foreign_ignore, asked.foreign_threshold_mib),
        asked.log_max_bytes,
        asked.enforce_devices,
        *((_end_of(guest), guest.idle_s, guest.unlimited) if guest is not None else ()),
    )
    return run_agent(plan, say)


def _end_of(guest: AgentOptions) -> float:
    return time.time() + guest.lifetime_s if guest.lifetime_s else 0.0


def _fake_gpus(folder: Path, asked: str) -> str:
    """A file of made-up GPUs: the one named, or one that is written for a number."""
    if not is_digits(asked):
        return asked
    file = folder / "fake_gpus.json"
    gpus = [{"model": "fake", "memory_mib": FAKE_GPU_MIB} for _ in range(int(asked))]
    file.write_text(json.dumps(gpus))
    return str(file)


def agent(options: AgentOptions) -> int:
    """Run an agent in the foreground, for a controller elsewhere or here."""
    place, settings = prepare(options.state_dir)
    sd_notify.take_over(os.environ)
    url = options.join or f"unix://{place.socket}"
    if options.accept_database:
        forget(place.agent_folder)
    said = logging.StreamHandler()
    said.setFormatter(formatter(settings.server.log_format))
    logging.basicConfig(level=settings.server.log_level.upper(), handlers=[said])
    return _agent_process(place.folder, url, options.token, settings, options.name, guest=options)
