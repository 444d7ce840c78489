"""What not every engine can do, and which of it a job needs.

Machines with an agent of ours can do all of it. An engine says what it can; a job that needs more
is kept from its nodes, and refused where there are no others.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import compress
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.core.facts.job import JobSpec
    from rota.core.facts.node import NodeSpec


class Feature(StrEnum):
    """What an engine can do."""

    #: Rota names the node that a job runs on.
    PLACES = "places"
    #: A job runs as the user who submitted it.
    USERS = "users"
    #: Standard output and error are two streams.
    STREAMS = "streams"
    STDIN = "stdin"
    #: Signals reach its processes one by one; without it a stop is all there is.
    SIGNALS = "signals"
    SUSPEND = "suspend"
    ULIMITS = "ulimits"
    #: Jobs of several tasks that start together, and such whose tasks differ.
    GANGS = "gangs"
    #: A gang is one job of the engine, and ends as a whole.
    WHOLE_GANGS = "whole-gangs"
    ROLES = "roles"
    #: Container images, and nothing else: a job must name one.
    IMAGES = "images"
    IMAGES_ONLY = "images-only"
    TERMINALS = "terminals"
    #: Programs beside a running job, and connections to its ports.
    VISITS = "visits"
    PORTS = "ports"
    HEALTH = "health"
    BUNDLES = "bundles"
    #: Jobs that grow and shrink while they run.
    ELASTIC = "elastic"
    #: Parts of a device, and devices by their numbers.
    SHARES = "shares"
    #: The engine ends a job that uses more memory than it asked for.
    MEMORY = "memory"
    #: What a job printed can be read after it was forgotten.
    KEEPS_LOGS = "keeps-logs"
    #: Each job has a file for what it says of how far it is, the stream ``progress``.
    REPORTS = "reports"


#: What is so where one is missing, as ``engine NAME ...``; of the last one where it is there.
WITHOUT = MappingProxyType(
    {
        Feature.STDIN: "gives jobs no standard input",
        Feature.SIGNALS: "sends jobs no signals but TERM and KILL",
        Feature.SUSPEND: "cannot suspend jobs",
        Feature.ULIMITS: "sets no limits of jobs (ulimit)",
        Feature.GANGS: "runs no jobs of several tasks",
        Feature.ROLES: "runs no jobs whose tasks differ",
        Feature.IMAGES: "runs no container images",
        Feature.TERMINALS: "has no terminals for jobs",
        Feature.VISITS: "lets nobody into running jobs",
        Feature.PORTS: "has no named ports for jobs",
        Feature.HEALTH: "makes no health checks",
        Feature.BUNDLES: "takes no bundles as working folders",
        Feature.ELASTIC: "runs no jobs that grow and shrink",
        Feature.SHARES: "hands out whole devices only, by their count",
        Feature.IMAGES_ONLY: "runs no jobs without a container image",
    }
)


def can(node: NodeSpec, feature: Feature) -> bool:
    """Whether a node has a feature; machines with an agent have all of them."""
    return not node.engine or feature in node.features


#: In the order in which ``needs_of`` looks at what a job asks for.
_NEEDED = (
    Feature.IMAGES,
    Feature.TERMINALS,
    Feature.PORTS,
    Feature.HEALTH,
    Feature.BUNDLES,
    Feature.ULIMITS,
    Feature.STDIN,
    Feature.SIGNALS,
)


def needs_of(spec: JobSpec) -> tuple[Feature, ...]:
    """What a job needs of an engine beyond what its roles say."""
    asked = (
        spec.image,
        spec.pty,
        spec.ports,
        spec.health,
        spec.bundle,
        spec.ulimits,
        spec.stdin,
        spec.checkpoint_signal or spec.save_signal or spec.warn_signal,
    )
    return tuple(compress(_NEEDED, asked)) if any(asked) else ()
