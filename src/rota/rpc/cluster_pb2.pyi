from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_STATE_UNSPECIFIED: _ClassVar[JobState]
    JOB_STATE_PENDING: _ClassVar[JobState]
    JOB_STATE_BUILDING: _ClassVar[JobState]
    JOB_STATE_RUNNING: _ClassVar[JobState]
    JOB_STATE_SUCCEEDED: _ClassVar[JobState]
    JOB_STATE_FAILED: _ClassVar[JobState]
    JOB_STATE_KILLED: _ClassVar[JobState]
    JOB_STATE_WORKER_FAILED: _ClassVar[JobState]
    JOB_STATE_UNSCHEDULABLE: _ClassVar[JobState]

class DeviceType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEVICE_TYPE_UNSPECIFIED: _ClassVar[DeviceType]
    DEVICE_TYPE_CPU: _ClassVar[DeviceType]
    DEVICE_TYPE_GPU: _ClassVar[DeviceType]
    DEVICE_TYPE_TPU: _ClassVar[DeviceType]

class LogStream(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOG_STREAM_UNSPECIFIED: _ClassVar[LogStream]
    LOG_STREAM_STDOUT: _ClassVar[LogStream]
    LOG_STREAM_STDERR: _ClassVar[LogStream]

class DependencyKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEPENDENCY_KIND_UNSPECIFIED: _ClassVar[DependencyKind]
    DEPENDENCY_KIND_AFTER: _ClassVar[DependencyKind]
    DEPENDENCY_KIND_AFTER_OK: _ClassVar[DependencyKind]
    DEPENDENCY_KIND_AFTER_NOT_OK: _ClassVar[DependencyKind]
    DEPENDENCY_KIND_AFTER_ANY: _ClassVar[DependencyKind]
JOB_STATE_UNSPECIFIED: JobState
JOB_STATE_PENDING: JobState
JOB_STATE_BUILDING: JobState
JOB_STATE_RUNNING: JobState
JOB_STATE_SUCCEEDED: JobState
JOB_STATE_FAILED: JobState
JOB_STATE_KILLED: JobState
JOB_STATE_WORKER_FAILED: JobState
JOB_STATE_UNSCHEDULABLE: JobState
DEVICE_TYPE_UNSPECIFIED: DeviceType
DEVICE_TYPE_CPU: DeviceType
DEVICE_TYPE_GPU: DeviceType
DEVICE_TYPE_TPU: DeviceType
LOG_STREAM_UNSPECIFIED: LogStream
LOG_STREAM_STDOUT: LogStream
LOG_STREAM_STDERR: LogStream
DEPENDENCY_KIND_UNSPECIFIED: DependencyKind
DEPENDENCY_KIND_AFTER: DependencyKind
DEPENDENCY_KIND_AFTER_OK: DependencyKind
DEPENDENCY_KIND_AFTER_NOT_OK: DependencyKind
DEPENDENCY_KIND_AFTER_ANY: DependencyKind

class Resources(_message.Message):
    __slots__ = ("cpus", "memory_mb", "disk_mb", "device", "gpu_type", "gpus", "gpu_memory_mb", "shared")
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    DISK_MB_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    GPU_TYPE_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPU_MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    cpus: float
    memory_mb: int
    disk_mb: int
    device: DeviceType
    gpu_type: str
    gpus: float
    gpu_memory_mb: int
    shared: bool
    def __init__(self, cpus: _Optional[float] = ..., memory_mb: _Optional[int] = ..., disk_mb: _Optional[int] = ..., device: _Optional[_Union[DeviceType, str]] = ..., gpu_type: _Optional[str] = ..., gpus: _Optional[float] = ..., gpu_memory_mb: _Optional[int] = ..., shared: _Optional[bool] = ...) -> None: ...

class Dependency(_message.Message):
    __slots__ = ("kind", "job")
    KIND_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    kind: DependencyKind
    job: str
    def __init__(self, kind: _Optional[_Union[DependencyKind, str]] = ..., job: _Optional[str] = ...) -> None: ...

class LaunchJobRequest(_message.Message):
    __slots__ = ("name", "command", "resources", "env", "workdir", "script", "script_args", "scheduling_timeout_seconds", "line", "project", "queue", "priority", "tasks", "min_tasks", "nodes", "time_limit_s", "grace_s", "retries", "labels", "idempotency_key", "depends_on", "array", "constraints", "output", "error", "hold", "preemptible", "stdin")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    WORKDIR_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_ARGS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULING_TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    MIN_TASKS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    DEPENDS_ON_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIBLE_FIELD_NUMBER: _ClassVar[int]
    STDIN_FIELD_NUMBER: _ClassVar[int]
    name: str
    command: _containers.RepeatedScalarFieldContainer[str]
    resources: Resources
    env: _containers.ScalarMap[str, str]
    workdir: str
    script: str
    script_args: _containers.RepeatedScalarFieldContainer[str]
    scheduling_timeout_seconds: int
    line: str
    project: str
    queue: str
    priority: int
    tasks: int
    min_tasks: int
    nodes: int
    time_limit_s: int
    grace_s: int
    retries: int
    labels: _containers.ScalarMap[str, str]
    idempotency_key: str
    depends_on: _containers.RepeatedCompositeFieldContainer[Dependency]
    array: str
    constraints: _containers.RepeatedScalarFieldContainer[str]
    output: str
    error: str
    hold: bool
    preemptible: bool
    stdin: str
    def __init__(self, name: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., resources: _Optional[_Union[Resources, _Mapping]] = ..., env: _Optional[_Mapping[str, str]] = ..., workdir: _Optional[str] = ..., script: _Optional[str] = ..., script_args: _Optional[_Iterable[str]] = ..., scheduling_timeout_seconds: _Optional[int] = ..., line: _Optional[str] = ..., project: _Optional[str] = ..., queue: _Optional[str] = ..., priority: _Optional[int] = ..., tasks: _Optional[int] = ..., min_tasks: _Optional[int] = ..., nodes: _Optional[int] = ..., time_limit_s: _Optional[int] = ..., grace_s: _Optional[int] = ..., retries: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., idempotency_key: _Optional[str] = ..., depends_on: _Optional[_Iterable[_Union[Dependency, _Mapping]]] = ..., array: _Optional[str] = ..., constraints: _Optional[_Iterable[str]] = ..., output: _Optional[str] = ..., error: _Optional[str] = ..., hold: _Optional[bool] = ..., preemptible: _Optional[bool] = ..., stdin: _Optional[str] = ...) -> None: ...

class LaunchJobResponse(_message.Message):
    __slots__ = ("job_id", "uid", "count")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    uid: str
    count: int
    def __init__(self, job_id: _Optional[str] = ..., uid: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class GetJobStatusRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class TerminateJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("number", "task", "worker_id", "started_at_ms", "finished_at_ms", "exit_code", "error")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    number: int
    task: int
    worker_id: str
    started_at_ms: int
    finished_at_ms: int
    exit_code: int
    error: str
    def __init__(self, number: _Optional[int] = ..., task: _Optional[int] = ..., worker_id: _Optional[str] = ..., started_at_ms: _Optional[int] = ..., finished_at_ms: _Optional[int] = ..., exit_code: _Optional[int] = ..., error: _Optional[str] = ...) -> None: ...

class JobStatus(_message.Message):
    __slots__ = ("job_id", "state", "exit_code", "error", "started_at_ms", "finished_at_ms", "submitted_at_ms", "worker_ids", "uid", "name", "user", "project", "queue", "priority", "reason", "detailed_state", "cause_code", "signal", "resources", "tasks", "time_limit_s", "scheduling_timeout_seconds", "command", "labels", "attempts", "array_id", "array_index", "element_states")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class ElementStatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    WORKER_IDS_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DETAILED_STATE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    SCHEDULING_TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    ARRAY_ID_FIELD_NUMBER: _ClassVar[int]
    ARRAY_INDEX_FIELD_NUMBER: _ClassVar[int]
    ELEMENT_STATES_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    state: JobState
    exit_code: int
    error: str
    started_at_ms: int
    finished_at_ms: int
    submitted_at_ms: int
    worker_ids: _containers.RepeatedScalarFieldContainer[str]
    uid: str
    name: str
    user: str
    project: str
    queue: str
    priority: int
    reason: str
    detailed_state: str
    cause_code: str
    signal: int
    resources: Resources
    tasks: int
    time_limit_s: int
    scheduling_timeout_seconds: int
    command: _containers.RepeatedScalarFieldContainer[str]
    labels: _containers.ScalarMap[str, str]
    attempts: _containers.RepeatedCompositeFieldContainer[Attempt]
    array_id: str
    array_index: int
    element_states: _containers.ScalarMap[str, int]
    def __init__(self, job_id: _Optional[str] = ..., state: _Optional[_Union[JobState, str]] = ..., exit_code: _Optional[int] = ..., error: _Optional[str] = ..., started_at_ms: _Optional[int] = ..., finished_at_ms: _Optional[int] = ..., submitted_at_ms: _Optional[int] = ..., worker_ids: _Optional[_Iterable[str]] = ..., uid: _Optional[str] = ..., name: _Optional[str] = ..., user: _Optional[str] = ..., project: _Optional[str] = ..., queue: _Optional[str] = ..., priority: _Optional[int] = ..., reason: _Optional[str] = ..., detailed_state: _Optional[str] = ..., cause_code: _Optional[str] = ..., signal: _Optional[int] = ..., resources: _Optional[_Union[Resources, _Mapping]] = ..., tasks: _Optional[int] = ..., time_limit_s: _Optional[int] = ..., scheduling_timeout_seconds: _Optional[int] = ..., command: _Optional[_Iterable[str]] = ..., labels: _Optional[_Mapping[str, str]] = ..., attempts: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ..., array_id: _Optional[str] = ..., array_index: _Optional[int] = ..., element_states: _Optional[_Mapping[str, int]] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("states", "user", "project", "queue", "name", "label", "job_ids", "limit", "cursor", "newest_first")
    STATES_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIRST_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedScalarFieldContainer[JobState]
    user: str
    project: str
    queue: str
    name: str
    label: str
    job_ids: _containers.RepeatedScalarFieldContainer[str]
    limit: int
    cursor: str
    newest_first: bool
    def __init__(self, states: _Optional[_Iterable[_Union[JobState, str]]] = ..., user: _Optional[str] = ..., project: _Optional[str] = ..., queue: _Optional[str] = ..., name: _Optional[str] = ..., label: _Optional[str] = ..., job_ids: _Optional[_Iterable[str]] = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ..., newest_first: _Optional[bool] = ...) -> None: ...

class ListJobsResponse(_message.Message):
    __slots__ = ("jobs", "cursor")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[JobStatus]
    cursor: str
    def __init__(self, jobs: _Optional[_Iterable[_Union[JobStatus, _Mapping]]] = ..., cursor: _Optional[str] = ...) -> None: ...

class FetchLogsRequest(_message.Message):
    __slots__ = ("job_id", "stream", "tail", "follow", "offset", "task", "attempt", "search", "regex", "ignore_case", "context_lines", "limit")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SEARCH_FIELD_NUMBER: _ClassVar[int]
    REGEX_FIELD_NUMBER: _ClassVar[int]
    IGNORE_CASE_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_LINES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    stream: LogStream
    tail: int
    follow: bool
    offset: int
    task: int
    attempt: int
    search: str
    regex: bool
    ignore_case: bool
    context_lines: int
    limit: int
    def __init__(self, job_id: _Optional[str] = ..., stream: _Optional[_Union[LogStream, str]] = ..., tail: _Optional[int] = ..., follow: _Optional[bool] = ..., offset: _Optional[int] = ..., task: _Optional[int] = ..., attempt: _Optional[int] = ..., search: _Optional[str] = ..., regex: _Optional[bool] = ..., ignore_case: _Optional[bool] = ..., context_lines: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class LogChunk(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class WatchEventsRequest(_message.Message):
    __slots__ = ("after_seq", "job_id", "kinds")
    AFTER_SEQ_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    after_seq: int
    job_id: str
    kinds: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, after_seq: _Optional[int] = ..., job_id: _Optional[str] = ..., kinds: _Optional[_Iterable[str]] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("seq", "at_ms", "actor", "kind", "job_id", "detail_json")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    DETAIL_JSON_FIELD_NUMBER: _ClassVar[int]
    seq: int
    at_ms: int
    actor: str
    kind: str
    job_id: str
    detail_json: str
    def __init__(self, seq: _Optional[int] = ..., at_ms: _Optional[int] = ..., actor: _Optional[str] = ..., kind: _Optional[str] = ..., job_id: _Optional[str] = ..., detail_json: _Optional[str] = ...) -> None: ...

class ListWorkersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListWorkersResponse(_message.Message):
    __slots__ = ("workers",)
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    workers: _containers.RepeatedCompositeFieldContainer[Worker]
    def __init__(self, workers: _Optional[_Iterable[_Union[Worker, _Mapping]]] = ...) -> None: ...

class Amount(_message.Message):
    __slots__ = ("cpus", "memory_mb", "disk_mb", "gpus")
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    DISK_MB_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    cpus: float
    memory_mb: int
    disk_mb: int
    gpus: int
    def __init__(self, cpus: _Optional[float] = ..., memory_mb: _Optional[int] = ..., disk_mb: _Optional[int] = ..., gpus: _Optional[int] = ...) -> None: ...

class Device(_message.Message):
    __slots__ = ("index", "type", "model", "memory_mb", "memory_free_mb", "available")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FREE_MB_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    index: int
    type: DeviceType
    model: str
    memory_mb: int
    memory_free_mb: int
    available: bool
    def __init__(self, index: _Optional[int] = ..., type: _Optional[_Union[DeviceType, str]] = ..., model: _Optional[str] = ..., memory_mb: _Optional[int] = ..., memory_free_mb: _Optional[int] = ..., available: _Optional[bool] = ...) -> None: ...

class Worker(_message.Message):
    __slots__ = ("worker_id", "healthy", "state", "note", "address", "total", "free", "devices", "running_job_ids", "labels", "last_seen_ms")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    RUNNING_JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    LAST_SEEN_MS_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    healthy: bool
    state: str
    note: str
    address: str
    total: Amount
    free: Amount
    devices: _containers.RepeatedCompositeFieldContainer[Device]
    running_job_ids: _containers.RepeatedScalarFieldContainer[str]
    labels: _containers.ScalarMap[str, str]
    last_seen_ms: int
    def __init__(self, worker_id: _Optional[str] = ..., healthy: _Optional[bool] = ..., state: _Optional[str] = ..., note: _Optional[str] = ..., address: _Optional[str] = ..., total: _Optional[_Union[Amount, _Mapping]] = ..., free: _Optional[_Union[Amount, _Mapping]] = ..., devices: _Optional[_Iterable[_Union[Device, _Mapping]]] = ..., running_job_ids: _Optional[_Iterable[str]] = ..., labels: _Optional[_Mapping[str, str]] = ..., last_seen_ms: _Optional[int] = ...) -> None: ...

class RegisterEndpointRequest(_message.Message):
    __slots__ = ("name", "address", "job_id", "task", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    job_id: str
    task: int
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., job_id: _Optional[str] = ..., task: _Optional[int] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Endpoint(_message.Message):
    __slots__ = ("endpoint_id", "name", "address", "job_id", "task", "metadata", "user", "worker_id", "registered_at_ms")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ENDPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    endpoint_id: str
    name: str
    address: str
    job_id: str
    task: int
    metadata: _containers.ScalarMap[str, str]
    user: str
    worker_id: str
    registered_at_ms: int
    def __init__(self, endpoint_id: _Optional[str] = ..., name: _Optional[str] = ..., address: _Optional[str] = ..., job_id: _Optional[str] = ..., task: _Optional[int] = ..., metadata: _Optional[_Mapping[str, str]] = ..., user: _Optional[str] = ..., worker_id: _Optional[str] = ..., registered_at_ms: _Optional[int] = ...) -> None: ...

class UnregisterEndpointRequest(_message.Message):
    __slots__ = ("endpoint_id",)
    ENDPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    endpoint_id: str
    def __init__(self, endpoint_id: _Optional[str] = ...) -> None: ...

class UnregisterEndpointResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LookupEndpointRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListEndpointsRequest(_message.Message):
    __slots__ = ("prefix",)
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    def __init__(self, prefix: _Optional[str] = ...) -> None: ...

class ListEndpointsResponse(_message.Message):
    __slots__ = ("endpoints",)
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    endpoints: _containers.RepeatedCompositeFieldContainer[Endpoint]
    def __init__(self, endpoints: _Optional[_Iterable[_Union[Endpoint, _Mapping]]] = ...) -> None: ...

class HealthCheckRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class HealthCheckResponse(_message.Message):
    __slots__ = ("ready", "version", "now_ms")
    READY_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NOW_MS_FIELD_NUMBER: _ClassVar[int]
    ready: bool
    version: str
    now_ms: int
    def __init__(self, ready: _Optional[bool] = ..., version: _Optional[str] = ..., now_ms: _Optional[int] = ...) -> None: ...
