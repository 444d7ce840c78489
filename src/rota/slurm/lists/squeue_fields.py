"""The fields that squeue knows, by letter (``-o``) and by name (``-O``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota import hostlist
from rota.slurm.formats.layout import ShownField
from rota.slurm.orders.options import kept_in
from rota.slurm.words.amounts import Moments, count_text, short_duration, size_text
from rota.slurm.words.states import COMPACT

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.slurm.records.records import JobRecord

    Show = Callable[[JobRecord], str]

NULL, ABSENT = "(null)", "N/A"
_PRIORITY_MAX = 2**32 - 1


def _or_null(text: str) -> str:
    return text or NULL


def _or_absent(text: str) -> str:
    return text or ABSENT


def _fixed(text: str) -> Show:
    return lambda _: text


def _array_task(job: JobRecord) -> str:
    if job.array_rest:
        return job.array_rest
    return str(job.array_index) if job.array_id else ABSENT


def _job_id(job: JobRecord) -> str:
    """An element that never ran is known by its array's id only."""
    waits = job.array_id and job.state == "PENDING" and not job.restarts
    return str(job.array_id if waits else job.raw_id)


#: States of which the reason is shown instead of the nodes.
_TOLD = frozenset({"PENDING", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE", "FAILED"})


def _reason_list(job: JobRecord) -> str:
    if job.state in _TOLD or not job.nodes:
        return f"({job.reason})"
    return hostlist.compress(job.nodes)


def _time_left(job: JobRecord) -> str:
    if job.limit_s is None:
        return "UNLIMITED"
    return short_duration(max(0, job.limit_s - job.run_s))


def _min_memory(convert: bool) -> Show:
    return lambda job: size_text(job.memory_mib, convert=convert) if job.memory_mib else "0"


def _exec_host(job: JobRecord) -> str:
    return job.nodes[0] if job.nodes else "n/a"


def _exit_status(job: JobRecord) -> str:
    return str(job.exit_code << 8 | job.signal)


def letters(moments: Moments, cluster: str, *, convert: bool = True) -> dict[str, ShownField]:
    """The fields of ``-o``."""
    named = names(moments, cluster, convert=convert)
    return {letter: named[name] for letter, name in _LETTERS.items()}


_LETTERS = {
    "a": "account",
    "A": "jobid",
    "b": "tres-per-node",
    "B": "batchhost",
    "c": "mincpus",
    "C": "numcpus",
    "d": "mintmpdisk",
    "D": "numnodes",
    "e": "endtime",
    "E": "dependency",
    "f": "feature",
    "F": "arrayjobid",
    "g": "groupname",
    "G": "groupid",
    "h": "oversubscribe",
    "H": "sockets",
    "i": "jobarrayid",
    "I": "cores",
    "j": "name",
    "J": "threads",
    "k": "comment",
    "K": "arraytaskid",
    "l": "timelimit",
    "L": "timeleft",
    "m": "minmemory",
    "M": "timeused",
    "n": "reqnodes",
    "N": "nodelist",
    "o": "command",
    "O": "contiguous",
    "p": "priority",
    "P": "partition",
    "q": "qos",
    "Q": "prioritylong",
    "r": "reason",
    "R": "reasonlist",
    "s": "selectjobinfo",
    "S": "starttime",
    "t": "statecompact",
    "T": "state",
    "u": "username",
    "U": "userid",
    "v": "reservation",
    "V": "submittime",
    "w": "wckey",
    "W": "licenses",
    "x": "exc_nodes",
    "X": "corespec",
    "y": "nice",
    "Y": "schednodes",
    "z": "sct",
    "Z": "workdir",
}


def names(moments: Moments, cluster: str, *, convert: bool = True) -> dict[str, ShownField]:
    """The fields of ``-O``."""
    named = {
        **_who(cluster),
        **_what(convert),
        **_when(moments),
        **_where(),
        **_constants(),
    }
    return named | {other: named[name] for other, name in _ALSO.items()}


#: Older and other names of the same fields.
_ALSO = {
    "cpuspertask": "cpus-per-task",
    "excnodes": "exc_nodes",
    "packjobid": "hetjobid",
    "packjobidset": "hetjobidset",
    "packjoboffset": "hetjoboffset",
    "shared": "oversubscribe",
    "tres": "tres-alloc",
}


def _who(cluster: str) -> dict[str, ShownField]:
    return {
        "account": ShownField("ACCOUNT", lambda job: _or_null(job.account)),
        "allocnodes": ShownField("ALLOC_NODES", _fixed("localhost")),
        "arrayjobid": ShownField("ARRAY_JOB_ID", lambda job: str(job.array_id or job.job_id)),
        "arraytaskid": ShownField("ARRAY_TASK_ID", _array_task),
        "cluster": ShownField("CLUSTER", _fixed(cluster)),
        "groupid": ShownField("GROUP", lambda job: str(job.gid)),
        "groupname": ShownField("GROUP", lambda job: job.group),
        "hetjobid": ShownField("HET_JOB_ID", lambda job: str(job.het_id or ABSENT)),
        "hetjobidset": ShownField("HET_JOB_ID_SET", lambda job: _or_absent(job.het_ids)),
        "hetjoboffset": ShownField(
            "HET_JOB_OFFSET", lambda job: str(job.het_offset) if job.het_id else ABSENT
        ),
        "jobarrayid": ShownField("JOBID", lambda job: job.shown_id),
        "jobid": ShownField("JOBID", _job_id),
        "name": ShownField("NAME", lambda job: job.name),
        "userid": ShownField("UID", lambda job: str(job.uid)),
        "username": ShownField("USER", lambda job: job.user),
        "wckey": ShownField("WCKEY", lambda job: _or_null(job.wckey)),
    }


def _what(convert: bool) -> dict[str, ShownField]:
    gres = ShownField("TRES_PER_NODE", lambda job: _or_absent(job.gres))
    return {
        "batchflag": ShownField("BATCH_FLAG", lambda job: str(int(job.batch))),
        "command": ShownField("COMMAND", lambda job: _or_null(job.command)),
        "comment": ShownField("COMMENT", lambda job: _or_null(job.comment)),
        "container": ShownField("CONTAINER", lambda job: _or_null(job.container)),
        "cpus-per-task": ShownField("CPUS_PER_TASK", lambda job: str(job.cpus_per_task)),
        "dependency": ShownField("DEPENDENCY", lambda job: _or_null(job.dependency)),
        "exit_code": ShownField("EXIT_CODE", _exit_status),
        "feature": ShownField("FEATURES", lambda job: _or_null(job.features)),
        "gres": gres,
        "licenses": ShownField("LICENSES", lambda job: _or_null(job.licenses)),
        "maxcpus": ShownField("MAX_CPUS", lambda job: str(job.cpus)),
        "maxnodes": ShownField("MAX_NODES", lambda job: str(job.node_count)),
        "mincpus": ShownField("MIN_CPUS", lambda job: str(job.min_cpus_node)),
        "minmemory": ShownField("MIN_MEMORY", _min_memory(convert)),
        "mintmpdisk": ShownField("MIN_TMP_DISK", lambda job: str(job.disk_mib)),
        "nice": ShownField("NICE", lambda job: str(job.nice)),
        "ntpernode": ShownField("NTASKS_PER_NODE", lambda job: str(job.tasks_per_node)),
        "numcpus": ShownField("CPUS", lambda job: count_text(job.cpus, convert=convert)),
        "numnodes": ShownField("NODES", lambda job: count_text(job.node_count, convert=convert)),
        "numtasks": ShownField("TASKS", lambda job: str(job.tasks)),
        "oversubscribe": ShownField("OVER_SUBSCRIBE", lambda job: "NO" if job.exclusive else "OK"),
        "partition": ShownField("PARTITION", lambda job: job.partition),
        "priority": ShownField("PRIORITY", lambda job: f"{job.priority / _PRIORITY_MAX:.14f}"),
        "prioritylong": ShownField("PRIORITY", lambda job: str(job.priority)),
        "qos": ShownField("QOS", lambda job: _or_null(job.qos)),
        "requeue": ShownField("REQUEUE", lambda job: str(int(job.requeue))),
        "reservation": ShownField("RESERVATION", lambda job: _or_null(job.reservation)),
        "restartcnt": ShownField("RESTART_COUNT", lambda job: str(job.restarts)),
        "state": ShownField("STATE", lambda job: job.state),
        "statecompact": ShownField("ST", lambda job: COMPACT.get(job.state, job.state)),
        "tres-alloc": ShownField("TRES_ALLOC", lambda job: job.tres_alloc or job.tres_req),
        "tres-per-node": gres,
    }


def _when(moments: Moments) -> dict[str, ShownField]:
    def moment(header: str, read: Callable[[JobRecord], float]) -> ShownField:
        return ShownField(header, lambda job: moments.text(read(job), ABSENT))

    return {
        "accruetime": moment("ACCRUE_TIME", lambda job: job.eligible_s),
        "deadline": moment("DEADLINE", lambda job: job.deadline_s),
        "eligibletime": moment("ELIGIBLE_TIME", lambda job: job.eligible_s),
        "endtime": moment("END_TIME", lambda job: job.end_s),
        "lastschedeval": moment("LAST_SCHED_EVAL", lambda job: job.eligible_s or job.submit_s),
        "mintime": ShownField("TIME_MIN", lambda job: short_duration(60 * job.time_min)),
        "pendingtime": ShownField("PENDING_TIME", lambda job: str(_waited_s(job, moments.now_s))),
        "starttime": moment("START_TIME", lambda job: job.start_s),
        "submittime": moment("SUBMIT_TIME", lambda job: job.submit_s),
        "timeleft": ShownField("TIME_LEFT", _time_left),
        "timelimit": ShownField("TIME_LIMIT", lambda job: short_duration(job.limit_s)),
        "timeused": ShownField("TIME", lambda job: short_duration(job.run_s)),
    }


def _waited_s(job: JobRecord, now_s: float) -> int:
    until_s = job.start_s if job.start_s and job.state != "PENDING" else now_s
    return max(0, int(until_s - job.submit_s))


def _where() -> dict[str, ShownField]:
    return {
        "batchhost": ShownField("EXEC_HOST", _exec_host),
        "exc_nodes": ShownField("EXC_NODES", lambda job: hostlist.compress(job.exc_nodes)),
        "nodelist": ShownField("NODELIST", lambda job: hostlist.compress(job.nodes)),
        "reason": ShownField("REASON", lambda job: job.reason),
        "reasonlist": ShownField("NODELIST(REASON)", _reason_list),
        "reqnodes": ShownField("REQ_NODES", lambda job: hostlist.compress(job.req_nodes)),
        "schednodes": ShownField(
            "SCHEDNODES", lambda job: _or_null(hostlist.compress(job.sched_nodes))
        ),
        "stderr": ShownField("STDERR", lambda job: job.stderr),
        "stdin": ShownField("STDIN", lambda job: job.stdin),
        "stdout": ShownField("STDOUT", lambda job: job.stdout),
        "workdir": ShownField("WORK_DIR", lambda job: job.workdir),
    }


def _constants() -> dict[str, ShownField]:
    """What Slurm has and Rota does not, with the value that says so."""
    return {name: ShownField(header, _kept(name, value)) for name, header, value in _CONSTANTS}


def _kept(name: str, value: str) -> Show:
    """What was asked for, where the text of an option is kept; else always the same."""
    key = _KEPT.get(name)
    return _fixed(value) if key is None else lambda job: job.kept.get(key, value)


_KEPT = kept_in("squeue")


_CONSTANTS = (
    ("admin_comment", "ADMIN_COMMENT", NULL),
    ("allocsid", "ALLOC_SID", "0"),
    ("associd", "ASSOC_ID", "0"),
    ("boardspernode", "BOARDS_PER_NODE", "0"),
    ("burstbuffer", "BURST_BUFFER", NULL),
    ("burstbufferstate", "BURST_BUFFER_STATE", NULL),
    ("clusterfeature", "CLUSTER_FEATURES", NULL),
    ("contiguous", "CONTIGUOUS", "0"),
    ("cores", "CORES_PER_SOCKET", "*"),
    ("corespec", "CORE_SPEC", ABSENT),
    ("cpus-per-tres", "CPUS_PER_TRES", ABSENT),
    ("delayboot", "DELAY_BOOT", "0:00"),
    ("derivedec", "DERIVED_EC", "0"),
    ("mcslabel", "MCSLABEL", NULL),
    ("mem-per-tres", "MEM_PER_TRES", ABSENT),
    ("network", "NETWORK", NULL),
    ("ntperboard", "NTASKS_PER_BOARD", "0"),
    ("ntpercore", "NTASKS_PER_CORE", ABSENT),
    ("ntpersocket", "NTASKS_PER_SOCKET", ABSENT),
    ("origin", "ORIGIN", "NA"),
    ("originraw", "ORIGIN_RAW", "NA"),
    ("preempttime", "PREEMPT_TIME", ABSENT),
    ("prefer", "PREFER", NULL),
    ("profile", "PROFILE", "NotSet"),
    ("reboot", "REBOOT", "0"),
    ("reqswitch", "REQ_SWITCH", "0"),
    ("resizetime", "RESIZE_TIME", ABSENT),
    ("sct", "S:C:T", "*:*:*"),
    ("selectjobinfo", "", ""),
    ("siblingsactive", "ACTIVE_SIBLINGS", "NA"),
    ("siblingsactiveraw", "ACTIVE_SIBLINGS_RAW", "NA"),
    ("siblingsviable", "VIABLE_SIBLINGS", "NA"),
    ("siblingsviableraw", "VIALBLE_SIBLINGS_RAW", "NA"),
    ("sockets", "SOCKETS_PER_NODE", "*"),
    ("sperboard", "SOCKETS_PER_BOARD", "0"),
    ("system_comment", "SYSTEM_COMMENT", NULL),
    ("threads", "THREADS_PER_CORE", "*"),
    ("tres-bind", "TRES_BIND", ABSENT),
    ("tres-freq", "TRES_FREQ", ABSENT),
    ("tres-per-job", "TRES_PER_JOB", ABSENT),
    ("tres-per-socket", "TRES_PER_SOCKET", ABSENT),
    ("tres-per-task", "TRES_PER_TASK", ABSENT),
)
