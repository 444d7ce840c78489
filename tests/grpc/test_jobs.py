"""Jobs of a typed client: launch, status, list, terminate, against a real controller."""

import time

import pytest

from rota.rpc import cluster_pb2 as pb


def now_ms() -> int:
    return round(time.time() * 1000)


def test_a_launched_job_is_followed_from_pending_to_its_end_in_milliseconds(ann, make_agent):
    before_ms = now_ms() - 1
    job_id = ann.launch("train", "--fast", name="first", labels={"team": "vision"})
    waiting = ann.status(job_id)

    agent = make_agent()
    uid = agent.launched(int(job_id))
    building = ann.status(job_id)
    agent.report_start(uid)
    running = ann.until(job_id, pb.JOB_STATE_RUNNING)
    agent.report_end(uid, 0)
    ended = ann.until(job_id, pb.JOB_STATE_SUCCEEDED)

    assert waiting.state == pb.JOB_STATE_PENDING
    assert waiting.reason
    assert building.state == pb.JOB_STATE_BUILDING
    assert running.worker_ids == ["box"]
    assert ended.exit_code == 0
    assert ended.error == ""
    assert (ended.name, ended.user, dict(ended.labels)) == ("first", "ann", {"team": "vision"})
    assert list(ended.command) == ["train", "--fast"]
    times = [ended.submitted_at_ms, ended.started_at_ms, ended.finished_at_ms]
    assert before_ms <= times[0] <= times[1] <= times[2] <= now_ms() + 1


def test_a_failure_names_its_exit_code_and_its_cause(ann, agent):
    job_id = ann.launch("false")

    uid = agent.launched(int(job_id))
    agent.report_end(uid, 3)

    ended = ann.until(job_id, pb.JOB_STATE_FAILED)
    assert ended.exit_code == 3
    assert ended.cause_code == "exit"
    assert "exit" in ended.error


@pytest.mark.slow
def test_a_job_without_room_ends_unschedulable_after_its_timeout_and_says_so(ann, agent):
    job_id = ann.launch(resources=pb.Resources(cpus=100), scheduling_timeout_seconds=1)
    patient = ann.launch(resources=pb.Resources(cpus=4))

    ended = ann.until(job_id, pb.JOB_STATE_UNSCHEDULABLE)

    assert ended.state == 8
    assert ended.finished_at_ms - ended.submitted_at_ms >= 1000
    assert ended.error.startswith("scheduling_timeout")
    assert not ended.HasField("exit_code")
    assert ann.status(patient).scheduling_timeout_seconds == 0
    assert ann.status(patient).state == pb.JOB_STATE_BUILDING


def test_a_terminated_job_is_killed_whether_it_waits_or_runs(ann, agent):
    running = ann.launch(resources=pb.Resources(cpus=4))
    waiting = ann.launch(resources=pb.Resources(cpus=4))
    uid = agent.launched(int(running))
    agent.report_start(uid)

    gone = ann("TerminateJob", job_id=waiting)
    ann("TerminateJob", job_id=running)
    agent.stopping(uid)
    agent.report_end(uid, 143)

    assert gone.state == pb.JOB_STATE_KILLED
    assert ann.until(running, pb.JOB_STATE_KILLED).detailed_state == "cancelled"


def test_a_terminated_job_has_the_grace_that_it_was_launched_with(ann, agent):
    job_id = ann.launch("train", grace_s=7)
    uid = agent.launched(int(job_id))
    launched = agent.wanted[uid].launch
    agent.report_start(uid)

    ann("TerminateJob", job_id=job_id)

    asked = agent.stopping(uid)
    assert (asked.stop, asked.signal) == ("cancelled", "")
    assert (launched.grace_s if asked.grace_s < 0 else asked.grace_s) == 7


def test_a_list_is_filtered_by_the_states_of_the_wire_and_read_page_by_page(ann, caller):
    ids = [ann.launch("work", str(number), hold=number == 0) for number in range(5)]
    ann("TerminateJob", job_id=ids[4])

    first = ann("ListJobs", states=[pb.JOB_STATE_PENDING], limit=3)
    rest = ann("ListJobs", states=[pb.JOB_STATE_PENDING], limit=3, cursor=first.cursor)
    killed = ann("ListJobs", states=[pb.JOB_STATE_KILLED])
    named = ann("ListJobs", job_ids=[ids[2], ids[1]], newest_first=True)

    assert [job.job_id for job in (*first.jobs, *rest.jobs)] == ids[:4]
    assert first.cursor
    assert not rest.cursor
    assert [job.job_id for job in killed.jobs] == ids[4:]
    assert [job.job_id for job in named.jobs] == [ids[2], ids[1]]


def test_what_is_launched_over_grpc_is_the_same_job_over_rest(ann, caller):
    job_id = ann.launch(
        "serve",
        resources=pb.Resources(
            cpus=1.5, memory_mb=512, gpus=2, gpu_type="A100", device=pb.DEVICE_TYPE_GPU
        ),
        priority=0,
        retries=2,
        env={"A": "b"},
        time_limit_s=60,
        scheduling_timeout_seconds=600,
        depends_on=[pb.Dependency(kind=pb.DEPENDENCY_KIND_AFTER_ANY, job=ann.launch("first"))],
    )

    job = caller.job(job_id)

    assert job["resources"]["cpus"] == 1.5
    assert (job["resources"]["gpus"], job["resources"]["gpu_type"]) == (2, "A100")
    assert (job["priority"], job["retries"], job["time_limit_s"]) == (0, 2, 60)
    assert job["scheduling_timeout_s"] == 600
    assert job["depends_on"][0]["kind"] == "after-any"


def test_a_device_without_a_count_means_one_of_them(ann):
    wish = pb.Resources(device=pb.DEVICE_TYPE_TPU, gpu_type="v5litepod-16")
    job_id = ann.launch("train", resources=wish, scheduling_timeout_seconds=600)

    asked = ann.status(job_id).resources

    assert (asked.device, asked.gpus) == (pb.DEVICE_TYPE_TPU, 1)


def test_a_launch_with_a_key_can_be_repeated_without_a_second_job(ann):
    first = ann("LaunchJob", line="echo $HOME", idempotency_key="monday")

    again = ann("LaunchJob", line="echo $HOME", idempotency_key="monday")

    assert (again.job_id, again.uid) == (first.job_id, first.uid)
    assert len(ann("ListJobs").jobs) == 1


def test_an_array_is_one_launch_and_counts_its_elements_by_state(ann):
    made = ann("LaunchJob", command=["work"], array="0-9%2")

    whole = ann.status(made.job_id)
    element = ann.status(f"{made.job_id}_3")

    assert made.count == 10
    assert dict(whole.element_states) == {"queued": 10}
    assert (element.array_id, element.array_index) == (made.job_id, 3)


def test_workers_tell_what_they_have_and_what_is_free(ann, make_agent):
    agent = make_agent(name="gpu1", cpus=8, gpus=2)
    job_id = ann.launch("train", resources=pb.Resources(cpus=3, gpus=1))
    agent.launched(int(job_id))

    (worker,) = ann("ListWorkers").workers

    assert worker.worker_id == "gpu1"
    assert worker.healthy
    assert (worker.total.cpus, worker.free.cpus) == (8, 5)
    assert (worker.total.gpus, worker.free.gpus) == (2, 1)
    assert [device.available for device in worker.devices] == [False, True]
    assert list(worker.running_job_ids) == [job_id]


def test_a_submit_a_new_worker_and_an_end_each_wake_the_scheduler(ann, make_agent):
    early = ann.launch(resources=pb.Resources(cpus=4))

    agent = make_agent(cpus=4)
    first = agent.launched(int(early))
    late = ann.launch(resources=pb.Resources(cpus=4))
    agent.report_end(first, 0)
    second = agent.launched(int(late))
    agent.report_end(second, 0)
    ann.until(late, pb.JOB_STATE_SUCCEEDED)
    third = ann.launch(resources=pb.Resources(cpus=4))

    assert agent.launched(int(third))


def test_anybody_may_ask_whether_the_controller_is_well(nobody):
    before_ms = now_ms() - 1

    health = nobody("HealthCheck")

    assert health.ready
    assert health.version == "test"
    assert before_ms <= health.now_ms <= now_ms() + 1
