"""``sbatch -D`` with a folder that a node does not have."""

from tests.slurm.real import Slurm

MISSING = "/no/such/folder"


def test_a_script_whose_folder_is_missing_begins_in_tmp_and_says_so(either: Slurm) -> None:
    printed = either.script("pwd; srun pwd", "-D", MISSING, "-o", str(either.work / "out-%j"))

    assert printed.splitlines() == [
        f"slurmstepd-box: error: couldn't chdir to `{MISSING}': No such file or directory: "
        "going to /tmp instead",
        "/tmp",
        "/tmp",
    ]


def test_a_folder_that_is_a_file_is_missing_too(slurm: Slurm) -> None:
    printed = slurm.script("pwd", "-D", "/etc/passwd", "-o", str(slurm.work / "out-%j"))

    assert "couldn't chdir to `/etc/passwd': Not a directory" in printed
    assert printed.endswith("/tmp\n")


def test_a_job_whose_output_would_be_in_the_missing_folder_does_not_begin(slurm: Slurm) -> None:
    done = slurm.run("sbatch", "--wait", "--parsable", "-D", MISSING, "--wrap", "pwd")

    job = done.stdout.strip()
    shown = slurm.text("scontrol", "show", "job", job)
    told = slurm.box.rota("show", job).stdout
    assert done.returncode == 1
    assert "JobState=FAILED Reason=JobLaunchFailure" in shown
    assert "ExitCode=0:53" in shown
    assert f"working folder {MISSING}: no such directory" in told
