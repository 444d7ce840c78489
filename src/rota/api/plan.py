"""What ``rota up`` asks of a controller process: the settings, checked and on one sheet."""

from __future__ import annotations

from typing import Any

import msgspec

from rota.core.facts.site.pilot import Pilot
from rota.settings.audit import AuditSettings
from rota.settings.gpus import GpuSettings
from rota.settings.limits import UserLimits
from rota.settings.notify import Notify
from rota.settings.quotas import QuotaSettings
from rota.settings.storage import Bundles, Checkpoints, Results, Retention


class ControllerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What ``rota up`` asks of a controller process."""

    state_dir: str
    host: str
    port: int
    #: Whether a person asked for this very port; else any free one does where it is taken.
    port_chosen: bool = True
    database: str = ""
    inbox_size: int = 10_000
    #: Further unix sockets to listen on.
    sockets: tuple[str, ...] = ()
    #: Days for which finished jobs are kept; 0: for ever.
    retention_days: int = 0
    #: Where they are kept before that; an empty folder: nowhere.
    retention: Retention = Retention()
    #: How long agents on other machines are trusted without a word; 0: for ever.
    lease_s: float = 300.0
    #: ``auto``, ``on`` or ``off``: whether what goes over the network is encrypted.
    tls: str = "auto"
    #: Further names and addresses of this machine, for its certificate.
    tls_names: tuple[str, ...] = ()
    #: Nodes get a new key when theirs is so old; 0: never.
    node_key_days: int = 30
    #: A named policy, and single rules on top; all others stay as they are stored.
    policy: str = ""
    rules: dict[str, Any] = {}
    #: Jobs find their own folder below it as ROTA_CHECKPOINT_DIR.
    checkpoint_path: str = ""
    checkpoints: Checkpoints = Checkpoints()
    results: Results = Results()
    bundles: Bundles = Bundles()
    limits: UserLimits = UserLimits()
    audit: AuditSettings = AuditSettings()
    gpus: GpuSettings = GpuSettings()
    quota_provider: str = "local"
    #: Where that provider is, if it is not Rota.
    quotas: QuotaSettings = QuotaSettings()
    #: Whom to tell of what happens to jobs.
    notify: Notify = Notify()
    #: What is less important is not written to the log.
    log_level: str = "info"
    #: ``text`` or ``json``.
    log_format: str = "text"
    #: Where spans go; empty: nowhere.
    traces: str = ""
    #: Sources of further metrics, by name.
    collectors: tuple[str, ...] = ()
    #: An inventory of GPUs outside of Rota, and what is shown to it; empty: none.
    inventory_url: str = ""
    inventory_token: str = ""
    #: Where the gRPC service listens, on the same host; 0: on any free port, None: nowhere.
    grpc_port: int | None = None
    #: Allocations of engines that are asked for when jobs wait.
    pilots: tuple[Pilot, ...] = ()
    #: With its keys environments and secrets are sealed; empty: they are not.
    secrets_key_file: str = ""
    #: Wait while another controller leads on the database, and take over when it ends.
    standby: bool = False
    #: Whether jobs run on this machine.
    runs_jobs: bool = True
    #: Its machines are made up, and each answer says so.
    pretended: bool = False
