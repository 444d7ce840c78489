"""The controller process: lock, store, host, server, and a clean end.

Started by ``rota up`` as ``python -m rota.api``. Whatever keeps it from starting is one line and
exit code 2.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import resource
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rota import __version__
from rota.api.app import make_app
from rota.api.collectors import load_collectors
from rota.api.context import Settings
from rota.api.door.certificate import (
    CERTIFICATE,
    KEY,
    names_of,
    server_context,
    wants_tls,
)
from rota.api.door.server import DoorServer
from rota.api.door.sockets import (
    CannotStart,
    is_served,
    neighbour,
    tcp_socket,
    unix_socket,
    url_of,
)
from rota.api.heads import turn
from rota.api.jobs.saved_notes import SavedNotes
from rota.api.site.quota_alerts import QuotaWatch
from rota.controller.agents.bundles import BundleShelf
from rota.controller.agents.job_tokens import read_key
from rota.controller.chores.audit_shipping import open_shipping
from rota.controller.chores.elsewhere import Elsewhere
from rota.controller.chores.garbage import quiet_collector
from rota.controller.chores.node_keys import renew_old_keys
from rota.controller.chores.outbox import open_outbox
from rota.controller.chores.quota_sync import QuotaSync
from rota.controller.chores.retention import (
    drop_unused_bundles,
    forget_old_audit,
    forget_old_jobs,
    pack_old_rows,
    seal_outcomes,
)
from rota.controller.chores.rounds import begin
from rota.controller.chores.saved_work import SavedWork, drop_old_checkpoints
from rota.controller.clock import LOOK_S, Clock
from rota.controller.commands.commands import SetElsewhere, SetPilot, SetPolicy, SetQuotaProvider
from rota.controller.launches.launch import (
    CHECKPOINT_DIR,
    CHECKPOINT_MAX_BYTES,
    CHECKPOINT_STORE,
    RESULT_DAYS,
)
from rota.controller.launches.vault import open_vault
from rota.controller.loop import Host
from rota.controller.traces import open_traces
from rota.core.changes import events as ev
from rota.core.facts.tenant import Access, Actor
from rota.inventory.client import InventoryClient
from rota.paths import SOCKET_NAME
from rota.quotas.sources import open_source
from rota.store.writer import Writer

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Sequence

    from rota.api.context import Context
    from rota.api.grpc.server import GrpcServer
    from rota.api.heads.turn import LeadingStart
    from rota.api.plan import ControllerPlan
    from rota.core.changes.events import Recorded
    from rota.quotas.api import QuotaSource

log = logging.getLogger("rota.controller")

LOCK_TRIES, SWITCH_S = 5, 0.0005


class Lock:
    """At most one controller per state folder; the kernel lets go when the process dies."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "controller.lock"
        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise CannotStart(f"cannot write in {folder}: {error.strerror}") from None
        if not self._taken():
            pid = os.pread(self._fd, 32, 0).decode(errors="replace").strip() or "unknown"
            raise CannotStart(
                f"another controller (pid {pid}) already uses {folder}; stop it with 'rota down'"
            )
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, str(os.getpid()).encode(), 0)

    def _taken(self) -> bool:
        """Tried a few times: a command that looks whether it is held holds it for a moment."""
        for _ in range(LOCK_TRIES):
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                time.sleep(0.02)
            else:
                return True
        return False


def run(plan: ControllerPlan) -> None:
    """Serve until told to stop. Raises ``RotaError`` when it cannot start."""
    import uvloop

    # Environments of users are in what we write: it is nobody else's to read.
    os.umask(0o077)
    # A commit in its thread asks for the interpreter many times, and would wait 5 ms each time
    # while the loop makes a long list for somebody.
    sys.setswitchinterval(SWITCH_S)
    _allow_many_connections()
    folder = Path(plan.state_dir)
    lock = Lock(folder)
    paths = (str(folder / SOCKET_NAME), *(path for path in plan.sockets if not is_served(path)))
    try:
        tcp = tcp_socket(plan.host, plan.port, folder, chosen=plan.port_chosen)
        unix = [unix_socket(path) for path in paths]
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(plan, folder, [*unix, tcp]))
    finally:
        for path in (*paths, str(folder / "controller.json")):
            with contextlib.suppress(OSError):
                os.unlink(path)
    del lock


def _allow_many_connections() -> None:
    """Each agent is an open file, and the usual limit of 1,024 is meant for programs of old."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _serve(plan: ControllerPlan, folder: Path, sockets: list[socket.socket]) -> None:
    source = open_source(plan.quota_provider, plan.quotas)
    stop = _told_to_stop()
    begun = await turn.first_turn(plan, folder, sockets, stop, partial(_write_record, folder))
    if begun is None:
        return
    store = begun.store
    writer = Writer(store)
    variables = {"ROTA_URL": f"unix://{folder / SOCKET_NAME}", **_saved_work_variables(plan)}
    host = _host(plan, folder, begun, writer, variables)
    shipping = host.audit.ship = open_shipping(plan.audit)
    quiet_collector(warm=begun.app is not None)
    traces = host.meters.traces = open_traces(plan.traces)
    secure, fingerprint = _tls(plan, folder)
    url = url_of(sockets[-1], turn.scheme(plan))
    app = make_app(host, _settings(plan, url, fingerprint, store.name), begun.app)
    outbox = app.context.outbox = open_outbox(host, plan.notify)
    saved_work = app.context.saved_work = SavedWork(host, variables)
    SavedNotes(host, saved_work)
    host.links.bundles = BundleShelf(_bundles(plan, folder), plan.bundles.max_bytes)
    server = DoorServer(app, app.context.closing, secure, plan.limits.connections)
    typed = _grpc_servers(plan, app.context, folder)
    ticking = asyncio.create_task(host.run())
    ticking.add_done_callback(lambda _: stop.set())
    await _set_policy(host, plan)
    await _set_pilots(host, plan, folder)
    forgetting = _forgetting(host, plan, saved_work)
    forgetting += turn.begin_reign(app.context, plan, url, stop)
    forgetting += await _inventory(app.context, plan)
    forgetting.append(asyncio.create_task(app.context.foretelling.run()))
    forgetting.append(asyncio.create_task(app.context.guard.run()))
    forgetting += await _quotas(app.context, source, plan.quotas.poll_s)
    forgetting.append(begin("watching the use of quotas", QuotaWatch(host).run))
    for door in typed:
        await door.start()
    remark = turn.remark(plan)
    if not plan.standby:  # A head has a port of its own, and is waited for.
        own = sockets[-1].getsockname()[1]
        remark = await asyncio.to_thread(neighbour, plan.port, own, plan.runs_jobs)
    # Before the first answer: what is told of a Rota that answers stands in the record.
    grpc = typed[0].address if typed else ""
    _write_record(folder, url, store.name, grpc=grpc, remark=remark)
    await server.start(sockets)
    log.info("rota %s at %s, state in %s", __version__, url, folder)
    await stop.wait()
    log.info("stopping")
    for chore in forgetting:
        chore.cancel()
    await asyncio.gather(server.stop(), *(door.stop() for door in typed))
    host.stop()
    await ticking
    await outbox.close()
    await host.audit.flush()
    await writer.close()
    for outlet in (shipping, traces):
        if outlet is not None:
            outlet.close()
    store.close()
    log.info("stopped")


def _settings(plan: ControllerPlan, url: str, fingerprint: str, database: str) -> Settings:
    return Settings(
        version=__version__,
        url=url,
        fingerprint=fingerprint,
        database=database,
        quota_provider=plan.quota_provider,
        notify=plan.notify,
        checkpoints=plan.checkpoints,
        limits=plan.limits,
        gpus=plan.gpus,
        collectors=load_collectors(plan.collectors),
        pretended=plan.pretended,
    )


def _tls(plan: ControllerPlan, folder: Path) -> tuple[ssl.SSLContext | None, str]:
    """What encrypts the port, and the fingerprint of the certificate; nothing where none is."""
    if not wants_tls(plan.tls, plan.host):
        return None, ""
    return server_context(folder, names_of(plan.host, plan.tls_names))


def _host(
    plan: ControllerPlan,
    folder: Path,
    begun: LeadingStart,
    writer: Writer,
    variables: dict[str, str],
) -> Host:
    return Host(
        begun.store,
        writer,
        inbox_size=plan.inbox_size,
        lease_s=plan.lease_s,
        measure_s=plan.gpus.measure_s,
        variables=variables,
        checked=os.environ.get("ROTA_CHECK") == "1",
        job_key=read_key(folder),
        vault=open_vault(plan.secrets_key_file, begun.store),
        ended=begun.ended,
        clock=Clock(begun.store.now_s),
    )


def _bundles(plan: ControllerPlan, folder: Path) -> Path:
    """Where bundles are; heads on several machines share a folder."""
    return folder.joinpath(os.path.expanduser(plan.bundles.path) or "bundles")


def _forgetting(
    host: Host, plan: ControllerPlan, saved_work: SavedWork
) -> list[asyncio.Task[None]]:
    """Chores that look now and then whether there is something to drop or to renew."""
    chores: list[partial[Any]] = [partial(seal_outcomes, host), partial(pack_old_rows, host)]
    if host.links.bundles is not None:
        chores.append(partial(drop_unused_bundles, host, host.links.bundles, plan.bundles.days))
    if plan.audit.days:
        chores.append(partial(forget_old_audit, host, plan.audit.days))
    if plan.retention_days:
        chores.append(partial(forget_old_jobs, host, plan.retention_days, plan.retention.archive))
    if plan.node_key_days:
        chores.append(partial(renew_old_keys, host, plan.node_key_days))
    if plan.checkpoints.days:
        chores.append(partial(drop_old_checkpoints, saved_work, plan.checkpoints.days))
    named = {chore.func.__name__.replace("_", " "): chore for chore in chores}
    looks = begin("looking at the clock", partial(asyncio.to_thread, host.clock.look), LOOK_S)
    return [looks, *(begin(what, chore) for what, chore in named.items())]


async def _inventory(context: Context, plan: ControllerPlan) -> list[asyncio.Task[None]]:
    """Who asks the inventory outside; without one nothing that it ever said counts."""
    if not plan.inventory_url:
        if any(node.elsewhere for node in context.host.cluster.nodes.values()):
            await context.host.ask(SetElsewhere(actor=Actor("rota", Access.ADMIN, "settings")))
        return []
    client = InventoryClient(plan.inventory_url, plan.inventory_token)
    context.elsewhere = Elsewhere(context.host, client, plan.inventory_url)
    return [begin("asking the inventory", context.elsewhere.run)]


async def _quotas(
    context: Context, source: QuotaSource | None, poll_s: float
) -> list[asyncio.Task[None]]:
    """Who asks another program for its quotas; without one nothing that it ever said counts."""
    if source is None:
        await context.host.ask(SetQuotaProvider(actor=Actor("rota", Access.ADMIN, "settings")))
        return []
    context.quotas = QuotaSync(context.host, source, poll_s)
    await context.quotas.begin()
    return [begin("asking for quotas", context.quotas.run)]


def _told_to_stop() -> asyncio.Event:
    """Set by the signals that ask for a clean end."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def _grpc_servers(plan: ControllerPlan, context: Context, folder: Path) -> list[GrpcServer]:
    """The gRPC service where one is wanted; its libraries come with an extra."""
    if plan.grpc_port is None:
        return []
    try:
        from rota.api.grpc.server import GrpcServer
    except ImportError as error:
        raise CannotStart(
            f"server.grpc_port: {error}; install it with: pip install 'rota[grpc]'"
        ) from None
    secret = None
    if wants_tls(plan.tls, plan.host):
        secret = ((folder / KEY).read_bytes(), (folder / CERTIFICATE).read_bytes())
    return [GrpcServer(context, plan.host, plan.grpc_port, secret)]


def _saved_work_variables(plan: ControllerPlan) -> dict[str, str]:
    """Where jobs save their work: not where anybody could have made the folder first."""
    usual = os.path.abspath(os.path.join(plan.state_dir, "checkpoints"))
    settings = plan.checkpoints
    return {
        CHECKPOINT_DIR: (plan.checkpoint_path or usual).rstrip("/"),
        RESULT_DAYS: str(plan.results.days),
        **({CHECKPOINT_STORE: settings.store.rstrip("/")} if settings.store else {}),
        **({CHECKPOINT_MAX_BYTES: str(settings.max_bytes)} if settings.max_bytes else {}),
    }


async def _set_policy(host: Host, plan: ControllerPlan) -> None:
    """What the settings say about the rules holds from the first pass on."""
    if plan.policy or plan.rules:
        actor = Actor("rota", Access.ADMIN, "settings")
        await host.ask(SetPolicy(actor=actor, preset=plan.policy, rules=plan.rules))


async def _set_pilots(host: Host, plan: ControllerPlan, folder: Path) -> None:
    """What the settings say of pilots holds from the start; a file tells whether there are any."""

    def mark(records: Sequence[Recorded]) -> None:
        if any(isinstance(record.event, ev.PilotSet | ev.PilotRemoved) for record in records):
            write()

    def write() -> None:
        wanted = folder / "pilots.wanted"
        if host.cluster.pilots:
            wanted.touch()
        else:
            wanted.unlink(missing_ok=True)

    actor = Actor("rota", Access.ADMIN, "settings")
    for pilot in plan.pilots:
        await host.ask(SetPilot(actor=actor, pilot=pilot))
    host.watch.listeners.append(mark)
    write()


def _write_record(
    folder: Path,
    url: str,
    database: str,
    *,
    grpc: str = "",
    remark: str = "",
    standby: bool = False,
) -> None:
    """What other programs want to know; complete or not there at all."""
    record = {
        "pid": os.getpid(),
        "url": url,
        "grpc": grpc,
        "socket": str(folder / SOCKET_NAME),
        "version": __version__,
        "started_s": time.time(),
        "database": database,
        "standby": standby,
        "remark": remark,
    }
    draft = folder / "controller.json.new"
    draft.write_text(json.dumps(record))
    draft.replace(folder / "controller.json")
