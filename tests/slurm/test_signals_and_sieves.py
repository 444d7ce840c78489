"""Jobs that a signal has stopped, jobs with several partitions, and what sacct sifts by."""

import pytest

from tests.slurm.cluster import Cluster


def test_a_job_that_stop_has_reached_is_shown_as_stopped_until_cont_comes(cluster: Cluster) -> None:
    job = cluster.submit("-J", "stopped")
    cluster.start(job)

    cluster.text("scancel", "-s", "STOP", str(job))
    stopped = cluster.text("squeue", "-h", "-o", "%T %t", "-j", str(job))
    shown = cluster.text("scontrol", "show", "job", str(job))
    accounted = cluster.text("sacct", "-X", "-n", "-P", "-o", "state", "-j", str(job))
    cluster.text("scancel", "-s", "CONT", str(job))
    going_on = cluster.text("squeue", "-h", "-o", "%T", "-j", str(job))

    assert stopped == "STOPPED ST\n"
    assert "JobState=STOPPED" in shown
    assert accounted == "RUNNING\n"
    assert going_on == "RUNNING\n"
    cluster.finish(job)


def test_of_several_partitions_a_job_takes_the_one_that_starts_it_first(cluster: Cluster) -> None:
    cluster.queue("closed-now", state="paused")

    job = cluster.submit("-p", "closed-now,main")

    cluster.start(job)
    assert cluster.text("squeue", "-h", "-o", "%P", "-j", str(job)) == "main\n"
    assert cluster.text("squeue", "-h", "-o", "%i", "-p", "closed-now") == ""
    cluster.finish(job)


def test_a_waiting_job_shows_all_partitions_that_it_named_and_is_found_by_each(
    cluster: Cluster,
) -> None:
    job = cluster.submit("-H", "-p", "main,short")

    shown = [cluster.text("squeue", "-h", "-o", "%i %P", "-p", name) for name in ("main", "short")]
    other = cluster.text("squeue", "-h", "-o", "%i %P", "-p", "default")

    assert shown == [f"{job} main,short\n"] * 2
    assert other == ""
    cluster.text("scancel", str(job))


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("-i", "2"), "wide"),
        (("-i", "1"), "narrow"),
        (("-i", "1-2"), "narrow wide"),
        (("-I", "4"), "wide"),
        (("-k", "10"), "narrow"),
        (("-k", "15", "-K", "30"), "wide"),
        (("-g", "nosuchgroup"), ""),
    ],
)
def test_sacct_sifts_by_sizes_limits_and_groups(
    options: tuple[str, ...], found: str, cluster: Cluster
) -> None:
    jobs = [
        cluster.submit("-J", "narrow", "-t", "10"),
        cluster.submit("-J", "wide", "-N2", "-n4", "-t", "20"),
    ]
    named = ",".join(map(str, jobs))

    text = cluster.text("sacct", "-X", "-n", "-P", "-o", "jobname", "-j", named, *options)

    assert text.split() == found.split()
    cluster.text("scancel", named)


@pytest.mark.parametrize("option", ["--env-vars", "--file=x", "--associations=1"])
def test_sacct_refuses_what_it_would_have_to_ignore(option: str, cluster: Cluster) -> None:
    answer = cluster.run("sacct", option)

    name = option.partition("=")[0]
    assert answer.code == 1
    assert answer.stderr.startswith(f"sacct: error: {name} is not possible here: ")


def test_sacct_cuts_times_to_the_window(cluster: Cluster) -> None:
    job = cluster.submit("-J", "cut")
    cluster.start(job)
    asked = ("-X", "-n", "-P", "-o", "start", "-j", str(job), "-S", "now+1days", "-E", "now+2days")

    whole = cluster.text("sacct", *asked)
    cut = cluster.text("sacct", "-T", *asked)

    assert whole[:10] < cut[:10]
    cluster.finish(job)
