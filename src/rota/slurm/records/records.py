"""What the showing commands know of jobs, steps, nodes and partitions, as plain Slurm values.

Each record is made once from the controller's state; every command prints from it. Times are
seconds since the epoch (0: never came), memory is MiB, limits are None where there is none.
"""

from __future__ import annotations

import msgspec


class HeldOnNode(msgspec.Struct, frozen=True):
    """What a job holds on one node."""

    node: str
    cpus: int
    memory_mib: int
    cpu_ids: tuple[int, ...] = ()
    #: Devices by index, and their model as GRES names it.
    gpus: tuple[int, ...] = ()
    gpu_type: str = ""


class StepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a job: ``batch``, ``extern`` or a number."""

    #: The part behind the dot.
    id: str
    name: str
    state: str
    nodes: tuple[str, ...]
    tasks: int
    cpus: int
    exit_code: int | None = 0
    signal: int = 0
    start_s: float = 0.0
    end_s: float = 0.0
    tres: str = ""
    memory_mib: int = 0
    cpu_s: float = 0.0
    pids: tuple[int, ...] = ()


class JobRecord(msgspec.Struct, kw_only=True):
    """One job, one element of an array, or the waiting rest of an array."""

    job_id: int
    #: The array that it belongs to (0: none), its index, or the indices of a waiting rest.
    array_id: int = 0
    array_index: int | None = None
    array_rest: str = ""
    array_cap: int = 0
    #: The last element, of an array of which nothing waits: it has the array's id.
    closes_array: bool = False
    #: How many elements a waiting rest stands for.
    count: int = 1
    name: str
    user: str
    uid: int
    gid: int
    group: str
    account: str
    partition: str
    qos: str
    state: str
    reason: str
    priority: int
    nice: int = 0
    dependency: str = ""
    requeue: bool = True
    restarts: int = 0
    batch: bool = True
    exit_code: int = 0
    signal: int = 0
    submit_s: float = 0.0
    eligible_s: float = 0.0
    start_s: float = 0.0
    end_s: float = 0.0
    deadline_s: float = 0.0
    suspend_s: float = 0.0
    paused_s: int = 0
    run_s: int = 0
    #: In seconds; None: without a limit.
    limit_s: int | None = None
    nodes: tuple[str, ...] = ()
    held: tuple[HeldOnNode, ...] = ()
    sched_nodes: tuple[str, ...] = ()
    node_count: int = 1
    node_range: str = ""
    cpus: int = 1
    tasks: int = 1
    cpus_per_task: int = 1
    tasks_per_node: int = 0
    min_cpus_node: int = 1
    memory_mib: int = 0
    memory_per_cpu: bool = False
    disk_mib: int = 0
    gres: str = ""
    tres_req: str = ""
    tres_alloc: str = ""
    features: str = ""
    req_nodes: tuple[str, ...] = ()
    exc_nodes: tuple[str, ...] = ()
    exclusive: bool = False
    reservation: str = ""
    licenses: str = ""
    comment: str = ""
    admin_comment: str = ""
    wckey: str = ""
    #: In minutes; 0: not said.
    time_min: int = 0
    #: Options that are only shown again: as they were written.
    kept: dict[str, str] = {}
    container: str = ""
    command: str = ""
    submit_line: str = ""
    workdir: str = ""
    stdin: str = ""
    stdout: str = ""
    stderr: str = ""
    #: Of a job of several parts: the first one's id, which part it is, and all their ids.
    het_id: int = 0
    het_offset: int = 0
    het_ids: str = ""
    #: Who cancelled it; -1: nobody did.
    cancelled_by: int = -1
    cpu_s: float = 0.0
    steps: tuple[StepRecord, ...] = ()

    @property
    def raw_id(self) -> int:
        """Its number for programs, in every list the same."""
        return self.array_id if self.closes_array else self.job_id

    @property
    def shown_id(self) -> str:
        """``12``, ``8_3``, ``8_[2-9%2]`` or ``61+1``."""
        if self.array_rest:
            return f"{self.array_id}_[{self.array_rest}]"
        if self.array_id:
            return f"{self.array_id}_{self.array_index}"
        if self.het_id:
            return f"{self.het_id}+{self.het_offset}"
        return str(self.job_id)


class NodeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A machine. ``state`` is the base word; ``flags`` come behind it with a plus."""

    name: str
    host: str
    address: str
    state: str
    flags: tuple[str, ...] = ()
    #: No word from it: Slurm puts a star behind its state.
    silent: bool = False
    cpus: int
    cpus_used: int
    memory_mib: int
    memory_used_mib: int
    memory_free_mib: int
    disk_mib: int
    sockets: int
    gres: str
    gres_used: str
    features: str
    reason: str = ""
    reason_by: str = ""
    reason_s: float = 0.0
    boot_s: float = 0.0
    since_s: float = 0.0
    busy_s: float = 0.0
    system: str = ""
    arch: str = "x86_64"
    partitions: tuple[str, ...] = ()
    tres: str = ""
    tres_used: str = ""

    @property
    def drained(self) -> bool:
        return "DRAIN" in self.flags


class PartitionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as a partition."""

    name: str
    default: bool
    state: str
    nodes: tuple[str, ...]
    cpus: int
    tres: str
    priority: int
    max_time_s: int | None = None
    default_time_s: int | None = None
    preempts: str = "OFF"
    memory_per_cpu_mib: int = 0
