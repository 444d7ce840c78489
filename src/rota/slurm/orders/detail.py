"""What Slurm knows of a job and Rota's model has no place for: kept as one label of the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from rota.core.facts.job import JobSpec

#: The label; its value is JSON.
LABEL = "slurm"


class Detail(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """As it was asked for. Numbers that nobody named are 0, texts are empty."""

    #: Tasks of the whole job, with or without ``-n``.
    ntasks: int = 1
    #: Nodes of the job: this number, whatever was asked for.
    nodes: int = 1
    #: What was really named, because only that is in the environment of the job.
    ntasks_given: bool = False
    nodes_given: bool = False
    ntasks_per_node: int = 0
    cpus_per_task: int = 0
    mem_per_node_mb: int = 0
    mem_per_cpu_mb: int = 0
    mem_per_gpu_mb: int = 0
    #: ``gpu:2``, ``gpu:h200:2``, as the options said it, for the environment and for showing.
    gres: str = ""
    gpus: str = ""
    gpus_per_node: str = ""
    gpus_per_task: str = ""
    #: The text of ``--gres`` or its like per node, for ``TresPerNode``.
    tres_per_node: str = ""
    features: str = ""
    qos: str = ""
    account: str = ""
    #: All that were named; the job waits in one of them.
    partitions: str = ""
    comment: str = ""
    wckey: str = ""
    licenses: str = ""
    reservation: str = ""
    dependency: str = ""
    #: Options that Rota has no use for, as they were written.
    kept: dict[str, str] = {}
    nice: int = 0
    exclusive: bool = False
    oversubscribe: bool = False
    requeue: bool = True
    time_min: int = 0
    #: ``USR1@90`` or ``B:USR1@90``.
    signal: str = ""
    mail_type: str = ""
    mail_user: str = ""
    #: The path of the script, or how else the work was given.
    command: str = ""
    submit_line: str = ""
    submit_host: str = ""
    stdin: str = ""
    open_mode: str = ""
    #: ``0-9%2`` as it was written.
    array: str = ""
    #: ``srun`` or ``salloc`` where no script runs.
    interactive: str = ""
    #: The attempt that a signal has stopped where it is; empty: none.
    stopped: str = ""
    #: Of a heterogeneous job: the id of its leader (0: itself), and which part of how many.
    het_leader: int = 0
    het_offset: int = 0
    het_size: int = 0
    #: Of a job that is heterogeneous in itself: the tasks and the names of its groups.
    het_tasks: tuple[int, ...] = ()
    het_names: tuple[str, ...] = ()


_decode = msgspec.json.Decoder(Detail).decode
_encode = msgspec.json.Encoder().encode
_PLAIN = Detail()


def detail_of(spec: JobSpec) -> Detail:
    """What the label says; a job of Rota's own has a plain one."""
    text = spec.labels.get(LABEL)
    if text is None:
        return msgspec.structs.replace(_PLAIN, ntasks=spec.task_count)
    try:
        return _decode(text)
    except msgspec.MsgspecError:
        return _PLAIN


def script_of(spec: JobSpec) -> str:
    """The blob with the script of the user: where ours runs it, it came as standard input."""
    ours = spec.script_args[:1] == ("batch",) and spec.stdin and LABEL in spec.labels
    return spec.stdin if ours else spec.script


def label_of(detail: Detail) -> str:
    return _encode(detail).decode()
