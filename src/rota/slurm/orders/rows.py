"""Every option of sbatch, salloc and srun that says what a job is and what it needs."""

from __future__ import annotations

from functools import partial

from rota.slurm.orders import readers
from rota.slurm.orders.row import BAD_VALUE, NUMBER, Complaint, OptionRow, Status
from rota.slurm.words import values

BATCH, STEPS, ALLOCATION = ("sbatch",), ("srun",), ("salloc",)
FILES = ("sbatch", "srun")
_KEPT, _REFUSED = Status.KEPT, Status.REFUSED
_GRES = Complaint("Invalid generic resource (gres) specification", 1)
_LICENSES = Complaint("Invalid license specification", 1)
_whole = partial(OptionRow, read=values.whole, complaint=NUMBER)
_memory = partial(OptionRow, read=values.megabytes)
_gpus = partial(OptionRow, read=readers.gpus, complaint=_GRES)
_ignored = partial(OptionRow, status=Status.IGNORED)
_no_count = partial(_ignored, read=partial(values.whole, least=0), complaint=NUMBER)
_PACES = "low medium high highm1"
_GOVERNORS = "conservative ondemand performance powersave schedutil userspace"
_LIMITS = "all none as core cpu data fsize memlock nofile nproc rss stack"
_MEMORIES = "none local rank map_mem mask_mem q quiet v verbose sort nosort prefer p"


def _no(text: str, code: int = BAD_VALUE) -> Complaint:
    return Complaint(text, code)


JOB = (
    OptionRow("a array=INDEXES", "jobs of one script, one for each index",
        of=BATCH, job="array", detail="array", env="sbatch:SBATCH_ARRAY_INX"),
    OptionRow("A account=NAME", "the project that the job counts for",
        job="project", detail="account", env="ACCOUNT"),
    OptionRow("b begin=TIME", "not before this moment", rest="begin_time"),
    _ignored("bell", "ring when the allocation is there", of=ALLOCATION, env="BELL"),
    OptionRow("no-bell", "no bell, which is how it always is", of=ALLOCATION, env="NO_BELL"),
    OptionRow("bb=SPEC", "there are no burst buffers", _REFUSED, rest="burst_buffer",
        env="srun:SLURM_BURST_BUFFER salloc:SALLOC_BURST_BUFFER"),
    OptionRow("bbf=FILE", "there are no burst buffers", _REFUSED),
    _whole("c cpus-per-task=COUNT", "CPUs for each task",
           order="cpus_per_task", detail="cpus_per_task", env="srun:SRUN_CPUS_PER_TASK"),
    OptionRow("comment=TEXT", "a note on the job", _KEPT, detail="comment"),
    OptionRow("container=PATH", "images run with rota submit --image", _REFUSED,
        env="sbatch:SBATCH_CONTAINER srun:SRUN_CONTAINER salloc:SALLOC_CONTAINER"),
    _ignored("cpu-freq=RANGE", "the clock of the CPUs", rest="cpu_frequency",
        env="srun:SLURM_CPU_FREQ_REQ",
        read=readers.words(f"{_PACES} {_GOVERNORS}", "-:", numbers=True),
        complaint=_no('unrecognized --cpu-freq argument "{value}"\n'
                      "{program}: error: Invalid --cpu-freq argument")),
    OptionRow("d dependency=TYPE:ID", "wait for other jobs",
        detail="dependency", env="srun:SLURM_DEPENDENCY"),
    OptionRow("D chdir=PATH", "the working folder", rest="current_working_directory",
        env="srun:SLURM_REMOTE_CWD srun:SLURM_WORKING_DIR"),
    OptionRow("deadline=TIME", "it should be done by then"),
    _ignored("delay-boot=MINUTES", "wait before nodes are booted anew", read=values.minutes,
        env="DELAY_BOOT"),
    OptionRow("e error=FILE", "standard error; without it that of the output",
        rest="standard_error", of=FILES,
        env="sbatch:SBATCH_ERROR srun:SLURM_STDERRMODE srun:SRUN_ERROR"),
    OptionRow("export=NAMES", "which variables the job gets: ALL, NONE, names, NAME=VALUE",
        of=FILES, sets="SLURM_EXPORT_ENV",
        env="sbatch:SBATCH_EXPORT srun:SLURM_EXPORT_ENV srun:SRUN_EXPORT_ENV"),
    OptionRow("export-file=FILE", "the environment from a file, or from an open one by its number",
        of=BATCH),
    OptionRow("get-user-env=?WHAT", "the variables of a login, where the caller has none",
        rest="get_user_environment", read=readers.login, env="sbatch:SBATCH_GET_USER_ENV"),
    _ignored("gid=GROUP", "another group; jobs run with the groups of their user"),
    OptionRow("uid=USER", "oneself; nobody submits for others here"),
    OptionRow("H hold", "wait until it is released", job="hold"),
    OptionRow("i input=FILE", "standard input, opened when the job starts", rest="standard_input",
        of=FILES, detail="stdin",
        env="sbatch:SBATCH_INPUT srun:SLURM_STDINMODE srun:SRUN_INPUT"),
    OptionRow("ignore-pbs", "#PBS lines are comments, which is how it always is", of=BATCH,
        env="IGNORE_PBS"),
    OptionRow("J job-name=NAME", "what people call it", rest="name", env="JOB_NAME"),
    _ignored("k no-kill=?WHAT", "go on when a node fails", read=readers.words("off 1", "|"),
        env="NO_KILL"),
    OptionRow("kill-on-invalid-dep=YES|NO", "end it when what it waits for can no longer come",
        rest="kill_on_invalid_dependency",
        of=BATCH, read=readers.waits_on, job="keep_waiting"),
    OptionRow("L licenses=NAME:COUNT", "licences, counted on the whole site", read=readers.licenses,
        complaint=_LICENSES, job="licenses", detail="licenses"),
    OptionRow("m distribution=TYPE", "tasks over nodes: block or cyclic", read=readers.distribution,
        order="distribution", sets="SLURM_DISTRIBUTION", env="DISTRIBUTION"),
    OptionRow("M clusters=NAMES", "this cluster; there is no other",
        env="CLUSTERS sbatch:SLURM_CLUSTERS"),
    OptionRow("mail-type=EVENTS", "when to send mail", read=readers.mail_type, detail="mail_type"),
    OptionRow("mail-user=ADDRESS", "where mail goes", detail="mail_user"),
    OptionRow("mcs-label=LABEL", "a label for shared nodes", _KEPT,
        shows="scontrol:MCS_label squeue:mcslabel rest:mcs_label"),
    _whole("n ntasks=COUNT", "how many tasks", rest="tasks", order="ntasks",
        env="srun:SLURM_NPROCS srun:SLURM_NTASKS"),
    OptionRow("nice=?VALUE", "a lower place in the queue; fair share decides here", _KEPT,
        read=readers.nice, detail="nice"),
    _whole("ntasks-per-node|tasks-per-node=COUNT", "tasks on each node", rest="tasks_per_node",
           order="ntasks_per_node", detail="ntasks_per_node", sets="SLURM_NTASKS_PER_NODE",
           env="srun:SLURM_NTASKS_PER_NODE"),
    OptionRow("N nodes=COUNT", "how many nodes: COUNT, or MIN-MAX", read=values.node_counts,
        complaint=Complaint('"{value}" is not a valid node count', BAD_VALUE),
        order="nodes_min nodes_max", env="srun:SLURM_JOB_NUM_NODES srun:SLURM_NNODES"),
    OptionRow("o output=FILE", "standard output; %j is the id, %A and %a of an array",
        rest="standard_output", of=FILES,
        env="sbatch:SBATCH_OUTPUT srun:SLURM_STDOUTMODE srun:SRUN_OUTPUT"),
    OptionRow("O overcommit", "tasks share CPUs", env="OVERCOMMIT"),
    OptionRow("open-mode=APPEND|TRUNCATE", "whether files are begun anew", of=FILES,
        read=readers.open_mode, detail="open_mode", env="OPEN_MODE"),
    OptionRow("p partition=NAMES", "the queue; of several the one in which it would start first",
        env="PARTITION"),
    OptionRow("parsable", "print the id only", of=BATCH),
    _ignored("power=FLAGS", "what may be done to save power", env="POWER"),
    OptionRow("priority=VALUE", "0 to 100, or a band"),
    _ignored("profile=WHAT", "collect figures of a job", env="PROFILE",
        read=readers.words("none all energy task lustre network", ","),
        complaint=_no("invalid --profile={value} option")),
    _ignored("propagate=?LIMITS", "limits of the caller", of=FILES,
        read=readers.words(_LIMITS, ","),
        complaint=_no("Bad rlimit name: {value}\n"
                      "{program}: error: --propagate={value} is not valid.", 1)),
    OptionRow("q qos=NAME", "a band of priorities, a service class or a queue",
        detail="qos", env="QOS"),
    OptionRow("Q quiet", "no messages but errors"),
    _ignored("reboot", "boot nodes anew first"),
    OptionRow("no-requeue", "not tried again when its node is lost", of=BATCH, read=readers.off,
        detail="requeue", env="sbatch:SBATCH_NO_REQUEUE", instead_of="requeue"),
    OptionRow("requeue", "tried again when its node is lost, which is how it always is", of=BATCH,
        detail="requeue", env="sbatch:SBATCH_REQUEUE", instead_of="no-requeue"),
    OptionRow("s oversubscribe|share", "CPUs may be shared; steps wait for none", _KEPT,
        detail="oversubscribe"),
    _no_count("S core-spec=COUNT", "cores left to the system", rest="core_specification",
        env="CORE_SPEC"),
    _no_count("thread-spec=COUNT", "threads left to the system", rest="thread_specification",
        env="THREAD_SPEC"),
    OptionRow("signal=[R][B:]SIGNAL[@SECONDS]", "a signal before the limit is over",
        read=readers.warning, detail="signal", env="SIGNAL"),
    _ignored("spread-job", "over as many nodes as possible", env="SPREAD_JOB"),
    _ignored("switches=COUNT[@TIME]", "at most COUNT switches between its nodes",
        read=readers.switches, complaint=NUMBER, env="REQ_SWITCH"),
    OptionRow("t time=LIMIT", "the longest time: minutes, H:M:S or D-H:M:S", rest="time_limit",
        read=readers.seconds,
        order="time_limit_s", job="time_limit_s", env="TIMELIMIT"),
    OptionRow("time-min=LIMIT", "a shorter limit would do, too", _KEPT, read=values.minutes,
        detail="time_min", rest="time_minimum"),
    OptionRow("use-min-nodes", "the fewest of a range of nodes, which is how it always is",
        env="USE_MIN_NODES"),
    OptionRow("v verbose", "tell the options; srun tells its step and its tasks, too",
        env="DEBUG"),
    OptionRow("W wait", "end when the job ends, with its exit code", of=BATCH,
        env="sbatch:SBATCH_WAIT"),
    OptionRow("wait-all-nodes=0|1", "all nodes are ready first, which is how it always is",
        env="WAIT_ALL_NODES", read=partial(values.whole, least=0), complaint=NUMBER),
    OptionRow("wckey=KEY", "a word for accounting", _KEPT, detail="wckey", env="WCKEY"),
    OptionRow("wrap=COMMAND", "a script of this one line", of=BATCH),
)  # fmt: skip

CONSTRAINTS = (
    _ignored("batch=FEATURES", "features of the node of the script", rest="batch_features",
        of=BATCH, env="BATCH"),
    _ignored("cluster-constraint=FEATURES", "features of a cluster"),
    _ignored("contiguous", "nodes side by side"),
    OptionRow("C constraint=FEATURES", "labels that its nodes must have", rest="constraints",
        detail="features", env="CONSTRAINT"),
    OptionRow("F nodefile=FILE", "only nodes that the file names"),
    _memory("mem=SIZE", "memory on each node", rest="memory_per_node", order="mem_mb",
        detail="mem_per_node_mb",
            sets="SLURM_MEM_PER_NODE", env="MEM_PER_NODE", instead_of="mem-per-cpu"),
    _whole("mincpus=COUNT", "at least COUNT CPUs on each node", rest="minimum_cpus_per_node",
        order="mincpus"),
    _ignored("prefer=FEATURES", "nodes with these labels first"),
    OptionRow("reservation=NAMES", "in a reservation", detail="reservation", env="RESERVATION"),
    _memory("tmp=SIZE", "room for temporary files on each node", order="tmp_mb"),
    OptionRow("w nodelist=HOSTS", "on these nodes", rest="required_nodes"),
    OptionRow("x exclude=HOSTS", "not on these nodes", rest="excluded_nodes"),
)  # fmt: skip

CONSUMABLES = (
    OptionRow("exclusive=?WHO", "no other job on its nodes", read=readers.exclusive,
        job="exclusive", detail="exclusive", env="EXCLUSIVE"),
    _memory("mem-per-cpu=SIZE", "memory for each CPU", rest="memory_per_cpu",
        order="mem_per_cpu_mb",
            detail="mem_per_cpu_mb", sets="SLURM_MEM_PER_CPU", env="MEM_PER_CPU",
            instead_of="mem"),
)  # fmt: skip

CORES = (
    _ignored("B extra-node-info=S[:C[:T]]", "sockets, cores and threads of nodes",
        read=readers.words("*", ":", numbers=True),
        complaint=_no('Invalid numeric value "{value}" for first arg of -B.', 1)),
    _no_count("sockets-per-node=COUNT", "sockets of nodes"),
    _no_count("cores-per-socket=COUNT", "cores of nodes"),
    OptionRow("threads-per-core=COUNT", "threads of nodes; told to the job", _KEPT,
        read=values.whole, complaint=NUMBER,
        sets="SLURM_THREADS_PER_CORE", env="THREADS_PER_CORE",
        shows="squeue:threads rest:threads_per_core"),
    _ignored("hint=TYPE", "how a program uses cores", rest="cpu_binding_hint", env="HINT",
        read=readers.words("compute_bound memory_bound multithread nomultithread", ","),
        complaint=_no('unrecognized --hint argument "{value}", see --hint=help', 1)),
    _ignored("mem-bind=TYPE", "how memory is bound", rest="memory_binding", env="MEM_BIND",
        read=readers.binding(_MEMORIES),
        complaint=_no('unrecognized --mem-bind argument "{value}"')),
    _no_count("ntasks-per-core=COUNT", "tasks on each core", rest="tasks_per_core",
        env="srun:SLURM_NTASKS_PER_CORE"),
    _no_count("ntasks-per-socket=COUNT", "tasks on each socket", rest="tasks_per_socket",
        env="srun:SLURM_NTASKS_PER_SOCKET"),
)  # fmt: skip

GPUS = (
    _whole("cpus-per-gpu=COUNT", "CPUs for each GPU", order="cpus_per_gpu",
           sets="SLURM_CPUS_PER_GPU", env="CPUS_PER_GPU"),
    _gpus("G gpus=[TYPE:]COUNT", "GPUs of the job", order="gpus_model gpus", detail="gpus",
          sets="SLURM_GPUS", env="GPUS"),
    _ignored("gpu-bind=TYPE", "which task sees which GPU", rest="gpu_binding", env="GPU_BIND",
        read=readers.binding("closest none single map_gpu mask_gpu per_task"),
        complaint=_no("Invalid --gpu-bind argument: gpu:{value}")),
    _ignored("gpu-freq=VALUES", "the clock of the GPUs", rest="gpu_frequency", env="GPU_FREQ",
        read=readers.words(f"{_PACES} memory verbose", ",=", numbers=True),
        complaint=_no("Invalid --gpu-freq argument: gpu:{value}")),
    _gpus("gpus-per-node=[TYPE:]COUNT", "GPUs on each node", order="node_model node_gpus",
          detail="gpus_per_node", sets="SLURM_GPUS_PER_NODE", env="GPUS_PER_NODE"),
    _ignored("gpus-per-socket=[TYPE:]COUNT", "GPUs on each socket", read=readers.gpus),
    _gpus("gpus-per-task=[TYPE:]COUNT", "GPUs for each task", order="task_model gpus_per_task",
          detail="gpus_per_task", sets="SLURM_GPUS_PER_TASK", env="GPUS_PER_TASK"),
    OptionRow("gres=gpu[:TYPE]:COUNT", "GPUs on each node", read=readers.gres, complaint=_GRES,
        order="gres_model gres_gpus", detail="gres", env="GRES srun:SLURM_STEP_GRES"),
    _ignored("gres-flags=OPTIONS", "how GPUs and cores belong together", env="GRES_FLAGS",
        read=readers.words("enforce-binding disable-binding")),
    _memory("mem-per-gpu=SIZE", "memory for each GPU", rest="memory_per_gpu",
        order="mem_per_gpu_mb",
            detail="mem_per_gpu_mb", sets="SLURM_MEM_PER_GPU", env="MEM_PER_GPU"),
    _whole("ntasks-per-gpu=COUNT", "tasks for each GPU", order="ntasks_per_gpu",
           sets="SLURM_NTASKS_PER_GPU", env="srun:SLURM_NTASKS_PER_GPU"),
    _no_count("ntasks-per-tres=COUNT", "tasks for each resource"),
)  # fmt: skip

HELP = (
    OptionRow("h help", "this text"),
    OptionRow("usage", "the names of all options"),
)
OTHER = (
    _ignored(
        "acctg-freq=SECONDS",
        "how often use is measured",
        rest="account_gather_frequency",
        env="ACCTG_FREQ",
        read=readers.words("task energy network filesystem", ",=", numbers=True),
        complaint=_no("Invalid --acctg-freq specification: {value}"),
    ),
    OptionRow(
        "network=TYPE",
        "how the network is used",
        _KEPT,
        shows="scontrol:Network squeue:network",
        env="NETWORK",
    ),
    OptionRow("V version", "the version of Slurm whose behaviour this is"),
    OptionRow("test-only", "when it would start, and nothing else", of=FILES),
)
