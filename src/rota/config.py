"""The settings: one ``rota.toml``, overridden by ``ROTA_SECTION_KEY`` variables.

Every function here is pure: files and the environment come in as text and mappings, except for
``load``, which reads. An unknown key or a bad value is refused, naming where it stands and the
nearest known word.
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

import msgspec

from rota import older_names, paths
from rota.core.facts.errors import Rejected
from rota.core.facts.policy import DEFAULT
from rota.core.facts.site.pilot import Pilot
from rota.core.words import policy_text
from rota.core.words.placing_text import parse_taint
from rota.core.words.presets import preset
from rota.core.words.units import parse_cpu_milli, parse_memory_mib
from rota.log_json import FORMATS
from rota.settings import gpus, limits, notify, quotas, storage
from rota.settings.agent import POLICIES, AgentSettings
from rota.settings.audit import AuditSettings, check_syslog
from rota.settings.checks import at_least, check_host, check_url, nearest, one_of, read_text
from rota.settings.gpus import GpuSettings
from rota.settings.limits import UserLimits
from rota.settings.notify import Notify
from rota.settings.pilots import read_pilot
from rota.settings.quotas import QuotaSettings
from rota.settings.storage import Bundles, Checkpoints, Results, Retention

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8082
DEFAULT_LISTEN = f"{DEFAULT_HOST}:{DEFAULT_PORT}"

LOG_LEVELS = ("debug", "info", "warning", "error")


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """[server]: the controller process."""

    #: HOST:PORT of the API; empty: 127.0.0.1:8082, or any free port where that is taken. The unix
    #: socket in the state folder is always there.
    listen: str = ""
    #: A socket for every user of this machine: a path, ``none``, or ``auto``: where root runs it.
    socket: str = "auto"
    #: SQLAlchemy URL; empty: SQLite in the state folder.
    database: str = ""
    #: Commands that may wait for the next tick; beyond that callers get 429.
    inbox_size: int = 10_000
    #: Finished jobs and their logs older than this are removed; 0 keeps them for ever.
    retention_days: int = 90
    #: Folder of checkpoints; empty: ``checkpoints`` in the state folder.
    checkpoint_path: str = ""
    #: ``auto`` encrypts unless only this machine can connect; ``on``, ``off``.
    tls: str = "auto"
    #: Further names and addresses that its certificate speaks for: ``["rota.lab", "10.0.0.5"]``.
    tls_names: tuple[str, ...] = ()
    #: Nodes get a new key when theirs is so old; 0: never.
    node_key_days: int = 30
    #: An agent elsewhere that hears nothing for so long ends its jobs, and they may start on other
    #: nodes; 0: it never does, and they never do.
    lease_s: int = 300
    #: An inventory of GPUs outside of Rota: what others have by it is not used; empty: none.
    inventory_url: str = ""
    #: What is shown to it.
    inventory_token: str = ""
    #: From which level on controller and agent write to their logs.
    log_level: str = "info"
    #: How they write: ``text``, lines for people; ``json``, objects for programs.
    log_format: str = "text"
    #: Where spans go, an OpenTelemetry collector: ``http://collector:4318``; empty: nowhere.
    traces: str = ""
    #: Port of the gRPC service on the host of ``listen`` (0: any free one); empty: none.
    grpc_port: str = ""
    #: Sources of further metrics: ``["site_metrics:Power"]``.
    collectors: tuple[str, ...] = ()
    #: A file with keys, one per line, that seal environments and secrets; empty: they are not.
    secrets_key_file: str = ""
    #: Wait while another controller leads on the database, and take over when it ends.
    standby: bool = False

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port of ``listen``."""
        return parse_listen(self.listen or DEFAULT_LISTEN)


class Scheduling(msgspec.Struct, frozen=True, kw_only=True):
    """[scheduling]: the rules of a pass.

    Beside these keys it takes those of ``core.policy.Policy``, in the tables [scheduling.order],
    [scheduling.share], [scheduling.backfill], [scheduling.place], [scheduling.preempt] and
    [scheduling.gang]. What is named here holds at every start; the rest stays as it was set.
    """

    #: A named policy (``fifo``, ``easy``, ...); empty: as it was.
    policy: str = ""
    #: Single rules by their key, such as ``order.primary``.
    rules: dict[str, Any] = {}
    #: Understood from older setups; passes run when something happened, not at intervals.
    interval_ms: int = 100
    quota_provider: str = "local"


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """All settings. Frozen: a change is a new start."""

    server: Server = Server()
    agent: AgentSettings = AgentSettings()
    scheduling: Scheduling = Scheduling()
    notify: Notify = Notify()
    checkpoints: Checkpoints = Checkpoints()
    results: Results = Results()
    bundles: Bundles = Bundles()
    retention: Retention = Retention()
    limits: UserLimits = UserLimits()
    quotas: QuotaSettings = QuotaSettings()
    audit: AuditSettings = AuditSettings()
    gpus: GpuSettings = GpuSettings()
    #: Of each engine by its name the keys of its table; its driver knows them.
    engines: dict[str, dict[str, Any]] = {}
    #: Allocations of engines that are asked for when jobs wait.
    pilots: tuple[Pilot, ...] = ()


SECTIONS: dict[str, type[msgspec.Struct]] = {
    "server": Server,
    "agent": AgentSettings,
    "scheduling": Scheduling,
    "notify": Notify,
    "checkpoints": Checkpoints,
    "results": Results,
    "bundles": Bundles,
    "retention": Retention,
    "limits": UserLimits,
    "quotas": QuotaSettings,
    "audit": AuditSettings,
    "gpus": GpuSettings,
}

#: The end of a variable's name -> the rule: ``order_primary`` -> ``order.primary``.
_RULES = {key.replace(".", "_"): key for key in policy_text.all_keys()}
#: What may stand in [scheduling] for rules: tables and single keys.
_RULE_NAMES = tuple(dict.fromkeys(key.partition(".")[0] for key in policy_text.all_keys()))

_Settings = dict[str, dict[str, Any]]


def load(environment: Mapping[str, str]) -> Config:
    """What holds now: the first ``rota.toml`` that exists, then ``.env``, then the environment."""
    for path in paths.config_files(environment):
        if path.is_file():
            return parse(read_text(path), str(path), environment)
    if given := environment.get("ROTA_CONFIG"):
        raise Rejected(f"ROTA_CONFIG: there is no file {given}")
    return parse("", "", environment)


def parse(text: str, source: str, environment: Mapping[str, str]) -> Config:
    """Settings from the text of a file (``source`` names it in errors) and the environment."""
    settings = from_toml(text, source)
    engines = _take_tables(settings, "engines", source)
    pilots = tuple(
        read_pilot(name, table, f"{source}: pilots.{name}")
        for name, table in _take_tables(settings, "pilots", source).items()
    )
    origins = {
        f"{section}.{key}": f"{source}: {section}.{key}"
        for section, keys in settings.items()
        for key in keys
    }
    rules = _take_rules(settings, origins)
    for variable, section, key, value in from_environment(environment, settings):
        rule = _RULES.get(key) if section == "scheduling" else None
        if rule is not None:
            rules[rule] = value
        else:
            settings.setdefault(section, {})[key] = value
        origins[f"{section}.{rule or key}"] = variable
    settings.setdefault("scheduling", {})["rules"] = _check_rules(rules, origins)
    config = _build(settings, origins)
    engines = quotas.at_home(config.scheduling.quota_provider, config.quotas, engines)
    return msgspec.structs.replace(config, engines=engines, pilots=pilots)


def _take_tables(settings: _Settings, section: str, source: str) -> dict[str, dict[str, Any]]:
    """The tables [engines.NAME] or [pilots.NAME]. What is for a driver, that one checks."""
    tables = settings.pop(section, {})
    for name, table in tables.items():
        if not isinstance(table, dict) or not name.replace("-", "").replace("_", "").isalnum():
            raise Rejected(
                f"{source}: {section}.{name}: expected a table [{section}.NAME], its name "
                "of letters, digits, - and _"
            )
    return tables


def _take_rules(settings: _Settings, origins: dict[str, str]) -> dict[str, Any]:
    """The rules of a pass, taken out of [scheduling], by their keys."""
    section = settings.get("scheduling", {})
    tables = {name: section.pop(name) for name in list(section) if name in _RULE_NAMES}
    source = next(iter(origins.values()), "").partition(": ")[0]
    try:
        rules = policy_text.unnest(tables)
    except Rejected as error:
        raise Rejected(f"{source}: scheduling.{error}") from None
    origins |= {f"scheduling.{key}": f"{source}: scheduling.{key}" for key in rules}
    return rules


def _check_rules(rules: dict[str, Any], origins: Mapping[str, str]) -> dict[str, Any]:
    for key, value in rules.items():
        try:
            policy_text.changed(DEFAULT, {key: value})
        except Rejected as error:
            where = origins[f"scheduling.{key}"]
            detail = str(error).removeprefix(f"{key}: ")
            raise Rejected(f"{where}: {detail}", field=f"scheduling.{key}") from None
    return rules


def from_toml(text: str, source: str) -> _Settings:
    """The sections of a file, every name in them known."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Rejected(f"{source}: {error}") from None
    for section, keys in document.items():
        if section not in (*SECTIONS, "engines", "pilots"):
            raise Rejected(f"{source}: unknown section [{section}]; {nearest(section, SECTIONS)}")
        if not isinstance(keys, dict):
            raise Rejected(
                f"{source}: {section} is a section: write [{section}] and its keys below"
            )
        for key in keys if section in SECTIONS else ():
            known = [*_keys(section), *(_RULE_NAMES if section == "scheduling" else ())]
            if key not in known:
                raise Rejected(f"{source}: unknown key {section}.{key}; {nearest(key, known)}")
    return document


def from_environment(
    environment: Mapping[str, str], settings: _Settings
) -> list[tuple[str, str, str, Any]]:
    """What variables set, as (variable, section, key, value); the newer names come last and win."""
    listen = str(settings.get("server", {}).get("listen") or DEFAULT_LISTEN)
    found: list[tuple[str, str, str, Any]] = [*older_names.settings_of(environment, listen)]
    for variable in sorted(environment):
        section, _, key = variable.removeprefix("ROTA_").lower().partition("_")
        if not variable.startswith("ROTA_") or section not in SECTIONS or not key:
            continue
        known = [*_keys(section), *(_RULES if section == "scheduling" else ())]
        if key not in known:
            names = [f"ROTA_{section}_{name}".upper() for name in known]
            raise Rejected(f"unknown variable {variable}; {nearest(variable, names)}")
        found.append((variable, section, key, _from_text(section, key, environment[variable])))
    return found


def parse_listen(text: str) -> tuple[str, int]:
    """``HOST:PORT``, ``:PORT``, ``PORT``, ``[::1]:PORT``; port 0 takes any free one."""
    host, _, port_text = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (port_text.isascii() and port_text.isdecimal() and int(port_text[:6]) <= 65_535):
        raise ValueError(f"{text!r} is not valid; expected HOST:PORT, such as 127.0.0.1:8082")
    return host or DEFAULT_HOST, int(port_text)


def parse_port(text: str) -> int | None:
    """A port; None for none."""
    if text and not (text.isascii() and text.isdecimal() and int(text[:6]) <= 65_535):
        raise ValueError(f"{text!r} is not valid; expected a port from 0 to 65535")
    return int(text) if text else None


def _from_text(section: str, key: str, text: str) -> object:
    """A variable's value; ``labels`` are written ``rack=a,disk=ssd``, ``taints`` with commas."""
    if (section, key) in (("agent", "taints"), ("notify", "hosts"), ("server", "tls_names")):
        return [part.strip() for part in text.split(",") if part.strip()]
    if (section, key) != ("agent", "labels"):
        return text
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if not all(name.strip() and equals for name, equals, _ in pairs):
        raise Rejected(f"ROTA_AGENT_LABELS: {text!r} is not valid; expected rack=a,disk=ssd")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _build(settings: _Settings, origins: Mapping[str, str]) -> Config:
    sections: dict[str, Any] = {}
    for section, kind in SECTIONS.items():
        values = {
            key: _entries(origins[f"notify.{key}"], key, value)
            if section == "notify" and key in _TABLES
            else _typed(origins.get(f"{section}.{key}", ""), kind, key, value)
            for key, value in settings.get(section, {}).items()
        }
        sections[section] = kind(**values)
    config = Config(**sections)
    for name, check in _CHECKS.items():
        section, _, key = name.partition(".")
        value = getattr(getattr(config, section), key)
        try:
            check(value)
        except ValueError as error:
            raise Rejected(f"{origins.get(name, name)}: {error}", field=name) from None
    try:
        notify.check_whole(config.notify)
    except ValueError as error:
        raise Rejected(f"[notify]: {error}", field="notify") from None
    return config


#: Keys of [notify] that hold tables of their own.
_TABLES = ("webhooks", "mails", "plugins")


def _entries(origin: str, key: str, value: object) -> object:
    """Never quotes the value: there may be a secret in it."""
    try:
        return notify.read_entries(key, value)
    except ValueError as error:
        raise Rejected(f"{origin}: {error}", field=f"notify.{key}") from None


def _typed(origin: str, kind: type[msgspec.Struct], key: str, value: object) -> object:
    """Numbers may come as text and text as numbers; anything else must have the right type."""
    field = next(field for field in msgspec.structs.fields(kind) if field.name == key)
    if field.type is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    try:
        return msgspec.convert(value, field.type, strict=False)
    except msgspec.ValidationError as error:
        wanted = {int: "a whole number", str: "text"}.get(field.type, str(error))
        raise Rejected(f"{origin}: {value!r} is not valid; expected {wanted}") from None


def _preset(name: str) -> None:
    if not name:
        return
    try:
        preset(name)
    except Rejected as error:
        raise ValueError(str(error).removeprefix("policy: ")) from None


_CHECKS: dict[str, Callable[[Any], object]] = {
    "server.listen": lambda text: parse_listen(text) if text else None,
    "server.grpc_port": parse_port,
    "server.socket": paths.system_socket,
    "server.inbox_size": at_least(1),
    "server.retention_days": at_least(0),
    "server.lease_s": at_least(0),
    "server.tls_names": lambda names: [check_host(name) for name in names],
    "server.node_key_days": at_least(0),
    "server.inventory_url": lambda url: check_url(url) if url else "",
    "server.tls": one_of(("auto", "on", "off")),
    "server.log_level": one_of(LOG_LEVELS),
    "server.log_format": one_of(FORMATS),
    "server.traces": lambda url: check_url(url) if url else "",
    "checkpoints.store": storage.check_store,
    "checkpoints.max_size": parse_memory_mib,
    "checkpoints.keep": at_least(0),
    "checkpoints.days": at_least(0),
    "results.days": at_least(0),
    "bundles.max_size": storage.check_bundle_size,
    "bundles.days": at_least(1),
    **limits.CHECKS,
    **quotas.CHECKS,
    **gpus.CHECKS,
    "audit.syslog": check_syslog,
    "audit.days": at_least(0),
    "agent.cpus": lambda text: parse_cpu_milli(text) if text else 0,
    "agent.memory": parse_memory_mib,
    "agent.reserve_memory": parse_memory_mib,
    "agent.enforce_devices": one_of(POLICIES),
    "agent.foreign_threshold": parse_memory_mib,
    "agent.log_max": parse_memory_mib,
    "agent.taints": lambda taints: [parse_taint(text) for text in taints],
    "scheduling.policy": _preset,
    "scheduling.interval_ms": at_least(1),
    "scheduling.quota_provider": one_of(quotas.PROVIDERS),
}


def _keys(section: str) -> list[str]:
    fields = msgspec.structs.fields(SECTIONS[section])
    return [field.name for field in fields if field.name != "rules"]
