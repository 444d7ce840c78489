"""Every option of srun and salloc that says how tasks run and how long the command waits."""

from __future__ import annotations

from functools import partial

from rota.slurm.orders import readers
from rota.slurm.orders.row import NUMBER, Complaint, OptionRow, Status
from rota.slurm.orders.rows import ALLOCATION, STEPS
from rota.slurm.words import values

_step = partial(OptionRow, of=STEPS)
_ignored = partial(OptionRow, status=Status.IGNORED, of=STEPS)
_CPUS = (
    "none no rank map_cpu mask_cpu mapcpu maskcpu rank_ldom map_ldom mask_ldom socket sockets core"
    " cores thread threads ldom ldoms board boards one_thread help"
)
_BINDING = Complaint(
    'unrecognized --cpu-bind argument "{value}"\n'
    "{program}: fatal: Failed to parse --cpu-bind= values.",
    1,
)

RUNNING = (
    _ignored("accel-bind=FLAGS", "how tasks are bound to devices"),
    _ignored("bcast=?FOLDER", "copy the program to the nodes", env="BCAST"),
    _ignored("bcast-exclude=PATHS", "libraries that are not copied", env="BCAST_EXCLUDE"),
    _ignored("compress=?LIBRARY", "compress what is copied", env="COMPRESS"),
    _ignored("cpu-bind|cpu_bind=TYPE", "how tasks are bound to CPUs", env="CPU_BIND",
        read=readers.binding(_CPUS), complaint=_BINDING),
    _step("X disable-status", "the first interrupt goes to the tasks, and asks nothing",
        env="DISABLE_STATUS"),
    _step("epilog=PROGRAM", "runs where srun was called, when the step is over",
          env="srun:SLURM_EPILOG"),
    _step("exact", "a step takes only what it asks for, which is how it always is",
        env="EXACT"),
    _step("het-group|pack-group=NUMBERS", "the groups of a heterogeneous job"),
    OptionRow("I immediate=?SECONDS", "give up if it does not start at once",
        of=(*STEPS, *ALLOCATION), env="IMMEDIATE"),
    _ignored("interactive", "a shell of an allocation"),
    _step("jobid=ID", "a step in this job"),
    OptionRow("K kill-command=?SIGNAL", "end the command with the allocation", Status.IGNORED,
        of=ALLOCATION, env="KILL_CMD"),
    _step("K kill-on-bad-exit=?0|1", "a task that fails ends the others",
          env="srun:SLURM_KILL_BAD_EXIT"),
    _step("l label", "the number of the task before each line", env="srun:SLURM_LABELIO"),
    _ignored("T threads=COUNT", "threads of srun", env="THREADS"),
    _ignored("max-threads=COUNT", "threads of srun"),
    _ignored("mpi=TYPE", "the kind of MPI: ranks are in SLURM_ variables only",
        env="MPI_TYPE"),
    _ignored("msg-timeout=SECONDS", "how long nodes may take to answer"),
    _step("multi-prog", "the command is a file that says which task runs what",
          env="srun:SLURM_SRUN_MULTI"),
    _step("Z no-allocate", "tasks run in jobs only", Status.REFUSED),
    OptionRow("no-shell", "hold nodes and end", of=ALLOCATION),
    _step("overlap", "take no CPU and wait for none", env="srun:SLURM_OVERLAP"),
    _ignored("E preserve-env", "counts of nodes and tasks from the environment"),
    _step("prolog=PROGRAM", "runs where srun was called, before the tasks start",
          env="srun:SLURM_PROLOG"),
    _step("pty=?MODE", "the tasks have a terminal"),
    _step("quit-on-interrupt", "the first interrupt is meant, and the second ends it"),
    _step("r relative=NUMBER", "begin at this node of the job", complaint=NUMBER,
          read=partial(values.whole, least=0), order="relative"),
    _ignored("resv-ports=?COUNT", "ports that are set aside for a step", env="RESV_PORTS"),
    _ignored("send-libs=?YES|NO", "copy libraries to the nodes", env="SEND_LIBS"),
    _ignored("slurmd-debug=LEVEL", "what daemons of Slurm would log", env="srun:SLURMD_DEBUG"),
    _step("task-epilog=PROGRAM", "runs after each task, with its environment",
          env="srun:SLURM_TASK_EPILOG"),
    _step("task-prolog=PROGRAM", "runs before each task; 'export NAME=VALUE' sets variables",
          env="srun:SLURM_TASK_PROLOG"),
    _step("u unbuffered", "output comes as it is written, which is how it always is",
        env="UNBUFFEREDIO"),
    _step("W wait=SECONDS", "how long others may run after the first task has ended",
          read=partial(values.whole, least=0), complaint=NUMBER, order="wait_s",
          env="srun:SLURM_WAIT"),
    _ignored("whole", "all CPUs of the nodes: a step takes what it asks for"),
    OptionRow("x11=?WHAT", "windows of X11", Status.IGNORED, of=(*STEPS, *ALLOCATION)),
)  # fmt: skip
