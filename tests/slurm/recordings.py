"""A fixed story on a pretended cluster, and what our commands print of it, word for word.

Renew the recordings with ``python -m tests.slurm.recordings``, and read what has changed.
"""

import re
import shlex
import tempfile
from pathlib import Path

from rota.core.facts.states import Cause
from rota.slurm.call.command import Answer
from tests.slurm.cluster import Cluster, recorded_cluster

FOLDER = Path(__file__).parent / "recordings"
#: A name that no machine has: its number is that of nobody.
USER = "ada.story"
#: Name of the recording -> the call. ``{name}`` is the id of a job of the story.
CALLS = {
    "squeue": "squeue",
    "squeue_long": "squeue -l",
    "squeue_elements": "squeue -r -h -o '%i|%A|%F|%K'",
    "squeue_letters": "squeue -o '%i|%P|%j|%u|%T|%t|%M|%l|%D|%C|%r|%R|%b|%k|%w|%y|%Q|%E'",
    "squeue_names": "squeue -O jobarrayid:12,name:10,state:10,numcpus:6,tres-per-node:14,comment:8",
    "squeue_steps": "squeue -s",
    "squeue_start": "squeue --start -h -o '%i %T' -t PD",
    "squeue_one": "squeue -h -j {gpus}",
    "squeue_states": "squeue -h -t PD -o '%i %r'",
    "squeue_json": "squeue --json -j {gpus}",
    "squeue_yaml": "squeue --yaml -j {held}",
    "squeue_unknown_job": "squeue -j 99999",
    "squeue_bad_option": "squeue --nosuch",
    "sinfo": "sinfo",
    "sinfo_long": "sinfo -l -N -h -o '%N %P %T %c %m %G %E'",
    "sinfo_nodes": "sinfo -N",
    "sinfo_summary": "sinfo -s",
    "sinfo_reasons": "sinfo -R -h -o '%E|%u|%N'",
    "sinfo_letters": "sinfo -o '%P|%a|%l|%D|%t|%N|%C|%G|%f'",
    "sacct": "sacct",
    "sacct_parsable": "sacct -P -X -o jobid,jobname,user,state,exitcode,ncpus,nnodes,reqmem",
    "sacct_steps": "sacct -P -j {done} -o jobid,jobname,state,exitcode,maxrss,totalcpu,alloctres",
    "sacct_array": "sacct -P -X -j {array} -o jobid,jobidraw,state",
    "sacct_brief": "sacct -b -X",
    "sacct_json": "sacct --json -X -j {failed}",
    "sacct_fields": "sacct --helpformat",
    "sacct_bad_field": "sacct -o nosuch",
    "scontrol_running": "scontrol show job {gpus}",
    "scontrol_running_details": "scontrol -d show job {gpus}",
    "scontrol_held": "scontrol show job {held}",
    "scontrol_dependent": "scontrol show job {after}",
    "scontrol_array": "scontrol show job {array}",
    "scontrol_ended": "scontrol show job {failed}",
    "scontrol_one_line": "scontrol -o show job {held}",
    "scontrol_node": "scontrol show node n4",
    "scontrol_node_details": "scontrol -d show node n1",
    "scontrol_partition": "scontrol show partition main",
    "scontrol_hostnames": "scontrol show hostnames n[1-3],m2",
    "scontrol_hostlist": "scontrol show hostlist n1,n2,n4",
    "scontrol_unknown_job": "scontrol show job 99999",
    "scontrol_bad_word": "scontrol nosuch",
    "sacctmgr_accounts": "sacctmgr -P show account format=account,org",
    "sacctmgr_qos": "sacctmgr -P show qos format=name,priority",
    "scancel_bad_id": "scancel x",
    "sbatch_bad_option": "sbatch --nosuch",
    "sbatch_bad_partition": "sbatch -p nosuch --wrap true",
    "sbatch_bad_count": "sbatch -n x --wrap true",
    "sbatch_refused": "sbatch --container=x --wrap true",
    "sbatch_help": "sbatch --help",
    "squeue_help": "squeue --help",
}
_MASKS = (
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\b"), "2026-01-01T00:00:00"),
    (re.compile(r"\b[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\b"), "Thu Jan  1"),
    # How long something has run so far: less than a minute.
    (re.compile(r"(?<![\d:])(00:00|0):[0-5]\d(?![\d:])"), r"\1:00"),
    (re.compile(r"(?<=[\": ])1[789]\d{8}\b"), "0"),
    (re.compile(r'(?<="elapsed": )\d+'), "0"),
)


def masked(text: str) -> str:
    """Without what is another one each time: moments, and how long things have run."""
    for pattern, constant in _MASKS:
        text = pattern.sub(constant, text)
    return text


def play(cluster: Cluster) -> dict[str, int]:
    """Submit, start and end the jobs of the story; their ids by name."""
    drained = cluster.server.local().post("/nodes/n4:drain", {"note": "disk"})
    assert drained.status == 200

    def submit(name: str, *words: str) -> int:
        usual = ("-p", "main", "-A", "main", "-J", name, "-t", "10")
        return cluster.submit(*usual, *words, user=USER)

    ids = {"done": submit("done"), "failed": submit("failed"), "late": submit("late")}
    cluster.finish(ids["done"])
    cluster.finish(ids["failed"], code=3)
    cluster.finish(ids["late"], signal=9, cause=Cause.TIME_LIMIT)
    ids["gone"] = submit("gone", "-H")
    cluster.text("scancel", str(ids["gone"]), user=USER)
    ids["gpus"] = submit("gpus", "-n2", "--gres=gpu:2", "--mem=100", "-w", "n1")
    cluster.start(ids["gpus"])
    ids["wide"] = submit("wide", "-N2", "-n4", "-w", "n[2-3]")
    cluster.start(ids["wide"])
    ids["array"] = submit("array", "-H", "-a", "1-9:2%2")
    words = ("--comment=why", "--wckey=key", "--nice=5", "--mem-per-cpu=50")
    ids["held"] = submit("held", "-H", *words)
    ids["after"] = submit("after", "-d", f"afterok:{ids['gpus']}")
    ids["later"] = submit("later", "--begin=now+1hour")
    return ids


def recorded(call: str, answer: Answer) -> str:
    """A call and its answer, as a recording holds it."""
    stderr = f"[stderr]\n{masked(answer.stderr)}" if answer.stderr else ""
    return f"$ {call}\n{masked(str(answer.stdout))}{stderr}[exit {answer.code}]\n"


def answer_to(cluster: Cluster, ids: dict[str, int], name: str) -> str:
    call = CALLS[name].format_map(ids)
    program, *words = shlex.split(call)
    user = USER if program == "sbatch" else "root"
    return recorded(call, cluster.run(program, *words, user=user))


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.txt"):
        path.unlink()
    with tempfile.TemporaryDirectory() as folder, recorded_cluster(Path(folder)) as cluster:
        ids = play(cluster)
        for name in CALLS:
            (FOLDER / f"{name}.txt").write_text(answer_to(cluster, ids, name))


if __name__ == "__main__":
    main()
