"""Traces of every kind become jobs; files with the published ones are read to the last record."""

import gzip
from pathlib import Path

import pytest

from rota.core.facts.resources import Request
from rota.sim.readers import read_cluster, read_nodes, read_pods, read_trace
from rota.sim.trace import Trace

SWF_HEADER = "; Computer: Gänsebrunnen\n; MaxNodes: 32\n; MaxProcs: 128  (was 136)\n"


def swf_line(
    job=1, submit=0, run=10, allocated=4, requested=4, time=60, user=3, group=4, program=5, queue=6
) -> str:
    owners = f"{user} {group} {program} {queue} -1 -1 -1"
    return f"{job} {submit} -1 {run} {allocated} -1 -1 {requested} {time} -1 1 {owners}\n"


@pytest.fixture
def read(tmp_path):
    """Read this text as a file of that name."""

    def read_text(text: str | bytes, name: str = "trace", **options) -> Trace:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_trace(path, **options)

    return read_text


class TestSwf:
    def test_a_record_gives_the_job_and_the_header_the_machine(self, read):
        trace = read(SWF_HEADER + swf_line(7, 5, 10, 2, 4, 60), "kth.swf")

        (job,) = trace.jobs
        assert (trace.name, trace.procs, trace.unit) == ("kth", 128, "processors")
        assert (job.id, job.submit_s, job.run_s, job.procs, job.estimate_s) == (7, 5, 10, 4, 60)
        assert (job.user, job.group, job.name, job.queue) == ("3", "4", "5", "6")

    def test_the_machine_is_counted_in_nodes_where_the_header_has_no_processors(self, read):
        assert read("; MaxNodes: 32\n" + swf_line()).procs == 32
        assert read(swf_line()).procs == 0

    def test_one_more_number_in_every_line_is_not_read(self, read):
        lines = [swf_line(number).rstrip() + " 99\n" for number in (1, 2)]

        trace = read(SWF_HEADER + "".join(lines))

        assert [(job.id, job.procs, job.estimate_s) for job in trace.jobs] == [
            (1, 4, 60),
            (2, 4, 60),
        ]

    def test_what_is_unknown_falls_back_or_stays_empty(self, read):
        unknown = swf_line(requested=-1, allocated=9, time=-1, user=-1, group=-1, queue=-1)

        (job,) = read(unknown).jobs

        assert (job.procs, job.estimate_s) == (9, 0)
        assert (job.user, job.group, job.queue) == ("", "", "")

    def test_records_without_run_time_or_processors_are_left_out_and_counted(self, read):
        records = [
            swf_line(1, run=-1),
            swf_line(2, allocated=-1, requested=-1),
            swf_line(3, allocated=0, requested=0),
            swf_line(4, run=0),
        ]

        trace = read("".join(records))

        assert [job.id for job in trace.jobs] == [4]
        assert trace.left_out == {"no run time": 1, "no processors": 2}

    def test_whole_numbers_stay_whole_and_fractions_are_kept(self, read):
        whole, broken = read(swf_line(1, 5, 10) + swf_line(2, 5.25, 0.125)).jobs

        assert [type(value) for value in (whole.submit_s, whole.run_s)] == [int, int]
        assert (broken.submit_s, broken.run_s) == (5.25, 0.125)

    def test_unusual_spellings_of_numbers_mean_the_same(self, read):
        usual = read(swf_line(7, 5, 10, 4, 4, 60))

        unusual = read(swf_line("007", "+5", "1e1", "4.0", "4.0", "60."))

        assert unusual.jobs == usual.jobs
        assert isinstance(unusual.jobs[0].procs, int)

    @pytest.mark.parametrize(
        "dress",
        [
            lambda text: text.replace(" ", "\t"),
            lambda text: text.replace(" ", "    "),
            lambda text: text.replace("\n", "\r\n"),
            lambda text: text.replace("\n", "\n\n; a remark, in between\n"),
            lambda text: text.rstrip("\n"),
            lambda text: "\ufeff" + text,
            lambda text: text.replace("ä", "\udce4").encode("utf-8", "surrogateescape"),
            lambda text: gzip.compress(text.encode()),
            lambda text: gzip.compress(text.encode()) + gzip.compress(swf_line(3, 9).encode()),
        ],
        ids=["tabs", "padded", "crlf", "remarks", "no-end", "mark", "latin", "gzip", "two-gzips"],
    )
    def test_the_dress_of_a_log_does_not_matter(self, read, dress):
        log = SWF_HEADER + swf_line(1, 5) + swf_line(2, 6)
        usual = read(log)

        dressed = read(dress(log))

        assert dressed.jobs[:2] == usual.jobs
        assert dressed.procs == usual.procs

    def test_a_log_out_of_order_is_sorted_when_that_is_asked_for(self, read):
        log = swf_line(1, 50) + swf_line(2, 20) + swf_line(3, 50) + swf_line(4, 20)

        trace = read(log, sort=True)

        assert [job.id for job in trace.jobs] == [2, 4, 1, 3]

    def test_parts_of_a_job_that_was_told_as_a_whole_are_left_out_and_counted(self, read):
        # Later parts have no submit time of their own.
        whole = swf_line(1, 5, 30)
        first = swf_line(1, 5, 10).replace(" -1 1 3 4", " -1 2 3 4")
        last = swf_line(1, -1, 20).replace(" -1 1 3 4", " -1 3 3 4")

        trace = read(whole + first + last + swf_line(2, 6))

        assert [(job.id, job.run_s) for job in trace.jobs] == [(1, 30), (2, 10)]
        assert trace.left_out == {"part of a job": 2}

    @pytest.mark.parametrize(
        ("header", "procs"),
        [
            ("; MaxProcs: 1,024 (8 racks)\n", 1024),
            (";maxprocs:128\n", 128),
            ("; MaxNodes: 4\n;\tMaxProcs :\t64\n; MaxProcs: 65\n", 64),
            ("; MaxProcs: -1\n; MaxNodes: 4\n", 4),
            ("; submit, run, procs: see below\n; MaxProcs: 8\n", 8),
        ],
    )
    def test_the_machine_is_found_however_the_header_is_written(self, read, header, procs):
        assert read(header + swf_line()).procs == procs
        assert read(swf_line() + header).procs == procs

    def test_a_user_is_the_same_whether_his_number_has_a_fraction_or_not(self, read):
        first, second = read(swf_line(1, user="3.0") + swf_line(2, user="3")).jobs

        assert first.user == second.user == "3"

    def test_a_log_of_many_blocks_loses_no_line(self, read):
        log = "".join(swf_line(number, number // 3, number % 90) for number in range(20_000))

        trace = read(SWF_HEADER + log)

        assert [job.id for job in trace.jobs] == list(range(20_000))
        assert sum(job.run_s for job in trace.jobs) == sum(number % 90 for number in range(20_000))


class TestGpuTraces:
    PODS = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
        "creation_time,deletion_time,scheduled_time\n"
        "p-share,6000,12288,1,460,,LS,Running,10,110,30\n"
        "p-whole,8000,1024,1,1000,V100M16|V100M32,BE,Running,20,120,20\n"
        "p-several,9000,2048,4,1000,,LS,Failed,20,120,20\n"
        "p-cpu,500,100,0,0,,LS,Succeeded,5,120,20\n"
        "p-never,500,100,1,1000,,BE,Pending,30,40,\n"
    )

    def test_a_pod_asks_for_a_share_of_one_gpu_or_for_whole_ones(self, tmp_path):
        path = tmp_path / "pods.csv"
        path.write_text(self.PODS)

        pods = {job.name: job for job in read_pods(path).jobs}

        share = Request(6000, 12288, device="gpu", device_count=1, shared=True, device_milli=460)
        assert pods["p-share"].request == share
        assert pods["p-whole"].request == Request(
            8000, 1024, device="gpu", device_count=1, device_type="V100M16|V100M32"
        )
        assert pods["p-several"].request == Request(9000, 2048, device="gpu", device_count=4)
        assert pods["p-cpu"].request == Request(500, 100)
        assert {name: job.run_s for name, job in pods.items()}["p-share"] == 80
        assert pods["p-never"].run_s == 0

    def test_pods_keep_their_order_for_placement_and_are_sorted_as_a_trace(self, tmp_path):
        path = tmp_path / "pods.csv"
        path.write_text(self.PODS)

        assert [job.id for job in read_pods(path).jobs] == [1, 2, 3, 4, 5]
        assert [job.id for job in read_trace(path).jobs] == [4, 1, 2, 3, 5]

    def test_a_list_of_nodes_gives_nodes_with_devices_that_can_be_shared(self, tmp_path):
        path = tmp_path / "nodes.csv"
        path.write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,P100\nn0,8,9,0,\n")

        first, second = read_nodes(path)

        assert (first.name, first.cpu_milli, first.memory_mib) == ("n1", 64000, 262144)
        assert [(device.index, device.model) for device in first.devices] == [
            (0, "P100"),
            (1, "P100"),
        ]
        assert all(device.memory_mib % 1000 == 0 < device.memory_mib for device in first.devices)
        assert (second.name, second.devices) == ("n0", ())

    def test_columns_in_another_order_quotes_and_blanks_say_the_same(self, tmp_path):
        usual, other = tmp_path / "pods.csv", tmp_path / "other.csv"
        usual.write_text(self.PODS.split("\n", 2)[0] + "\nx,0,0,0,0,,LS,Running,10,20,\n")
        other.write_text(
            '"creation_time", "name","num_gpu","cpu_milli","memory_mib","gpu_milli","qos",'
            '"deletion_time","scheduled_time","note"\r\n10,"x",,,"",,"LS",20,,"a, b"\r\n'
        )

        assert read_trace(other).jobs == read_pods(usual).jobs

    def test_a_pod_that_still_ran_when_the_list_was_made_has_no_run_time(self, tmp_path):
        path = tmp_path / "pods.csv"
        path.write_text(self.PODS.split("\n", 1)[0] + "\nx,1,1,1,500,,LS,Running,10,,12\n")

        (pod,) = read_pods(path).jobs

        assert (pod.submit_s, pod.run_s) == (10, 0)

    def test_philly_times_may_be_seconds(self, read):
        trace = read("num_gpus,duration,timestamp\n1,5,1507534915.5\n2,6,1507534900\n")

        assert [(job.id, job.submit_s) for job in trace.jobs] == [(2, 0), (1, 15.5)]

    def test_philly_times_count_from_the_earliest_job(self, read):
        trace = read(
            "timestamp,duration,num_gpus,gpu_time,cluster\n"
            "2017-10-09 07:01:55,66.0,1,66.0,11cb48\n"
            "2017-10-09 06:13:03,2951.0,8,23608.0,6214e9\n"
            "2017-10-09 06:13:03,5.0,0,0.0,6214e9\n"
        )

        first, second = trace.jobs
        assert (trace.unit, trace.left_out) == ("GPUs", {"no GPUs": 1})
        assert (first.id, first.submit_s, first.run_s, first.procs) == (2, 0, 2951, 8)
        assert (second.id, second.submit_s, second.group) == (1, 2932, "11cb48")

    def test_muri_times_are_milliseconds(self, read):
        trace = read("job_id,num_gpu,submit_time,duration\n4,8,1456000,926133500\n")

        (job,) = trace.jobs
        assert (job.id, job.submit_s, job.run_s, job.procs) == (4, 1456, 926133.5, 8)

    def test_muri_iterations_take_what_the_published_runs_took_them_for(self, read):
        trace = read(
            "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,"
            "iteration_time,resource_time_0,resource_time_1,resource_time_2,priority\n"
            "4,8,0,1000,resnet18,128,921000,0,921,723,113,73,1\n"
        )

        (job,) = trace.jobs
        assert job.run_s == pytest.approx(921 * 1.015)
        assert (job.name, job.priority, trace.unit) == ("resnet18", 50, "GPUs")


class TestTable:
    def test_three_columns_are_enough(self, read):
        first, second = read("run,submit,procs\n10,0,4\n0.5,3,1\n").jobs

        assert (first.id, first.submit_s, first.run_s, first.procs) == (1, 0, 10, 4)
        assert (second.id, second.run_s, second.estimate_s, second.priority) == (2, 0.5, 0, 50)

    def test_csv_and_json_lines_say_the_same(self, read):
        table = read(
            "job,submit,run,procs,estimate,user,group,name,queue,priority\n"
            '7,0,10,4,60,ann,nlp,"train, large",night,80\n'
            "8,1,2.5,1,,bob,,,,\n"
        )

        lines = read(
            '{"job":7,"submit":0,"run":10,"procs":4,"estimate":60,"user":"ann","group":"nlp",'
            '"name":"train, large","queue":"night","priority":80}\n'
            '{"job":8,"submit":1,"run":2.5,"procs":1,"user":"bob","queue":null}\n'
        )

        assert lines.jobs == table.jobs
        assert lines.jobs[0].name == "train, large"

    def test_a_kind_that_is_named_is_not_guessed(self, read):
        pods_as_table = "submit,run,procs,name\n0,1,1,x\n"

        assert read(pods_as_table, kind="table").jobs == read(pods_as_table).jobs


class TestCluster:
    def test_groups_of_nodes_are_counted_out(self, tmp_path):
        path = tmp_path / "cluster.toml"
        path.write_text(
            "# two kinds of machine\n\n"
            '[[nodes]]\nname = "big"\ncount = 12\ncpus = 64\nmemory = "512g"\ngpus = 8\n'
            'gpu_type = "H100"\ngpu_memory = "80g"\nlabels = { zone = "a" }\n\n'
            '[[nodes]]\nname = "login"\ncpus = 1.5\n'
        )

        nodes = read_cluster(path)

        assert [node.name for node in nodes][::6] == ["big-01", "big-07", "login"]
        big, login = nodes[0], nodes[-1]
        assert (big.cpu_milli, big.memory_mib, big.labels) == (64_000, 512 * 1024, {"zone": "a"})
        assert len(big.devices) == 8
        assert (big.devices[7].model, big.devices[7].memory_mib) == ("H100", 80 * 1024)
        assert len({device.uuid for node in nodes for device in node.devices}) == 96
        assert (login.cpu_milli, login.memory_mib, login.devices) == (1500, 0, ())

    def test_a_list_of_nodes_is_a_cluster_too(self, tmp_path):
        path = tmp_path / "nodes.csv"
        path.write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,P100\n")

        assert read_cluster(path) == read_nodes(path)

        quoted = tmp_path / "quoted.csv"
        quoted.write_text('"sn","model","cpu_milli","gpu","memory_mib"\nn1,P100,64000,2,262144\n')

        assert read_cluster(quoted) == read_nodes(path)


SWF_FILES = {
    "sc15-KTH-SP2.swf.gz": (28_481, 100),
    "sc15-CTC-SP2.swf.gz": (77_199, 338),
    "sc15-SDSC-SP2.swf.gz": (54_006, 128),
    "KTH-SP2-1996-2.1-cln.swf.gz": (28_476, 100),
    "lublin-1.swf.gz": (10_000, 256),
    "lublin-2.swf.gz": (10_000, 256),
    "batsim-medium-late.swf.gz": (801, 32),
}
GPU_FILES = {
    "openb_pod_list_default.csv.gz": 8_152,
    "philly-sia.csv.gz": 82_247,
    "muri_trace1.csv.gz": 1_494,
    "muri_trace1_pr.csv.gz": 1_494,
    "muri_trace3.csv.gz": 992,
    "muri_trace3_pr.csv.gz": 992,
}
NODE_FILES = {
    "openb_node_list_gpu_node.csv.gz": (1_213, 6_212),
    "openb_node_list_all_node.csv.gz": (1_523, 6_212),
}


@pytest.mark.slow
class TestPublishedFiles:
    @pytest.mark.parametrize("name", SWF_FILES)
    def test_a_log_has_the_records_and_the_machine_that_its_list_says(
        self, shared_folder: Path, name: str
    ):
        trace = read_trace(shared_folder / "traces" / "swf" / name)

        records = len(trace.jobs) + sum(trace.left_out.values())
        assert (records, trace.procs) == SWF_FILES[name]
        assert all(job.procs <= trace.procs for job in trace.jobs)

    @pytest.mark.parametrize("name", GPU_FILES)
    def test_a_gpu_trace_has_the_jobs_that_its_list_says(self, shared_folder: Path, name: str):
        trace = read_trace(shared_folder / "traces" / "gpu" / name)

        assert (len(trace.jobs), trace.unit) == (GPU_FILES[name], "GPUs")
        submitted = [job.submit_s for job in trace.jobs]
        assert submitted == sorted(submitted)
        assert submitted[0] == 0

    @pytest.mark.parametrize("name", NODE_FILES)
    def test_a_list_of_nodes_has_the_gpus_that_its_list_says(self, shared_folder: Path, name: str):
        nodes = read_nodes(shared_folder / "traces" / "gpu" / name)

        assert (len(nodes), sum(len(node.devices) for node in nodes)) == NODE_FILES[name]

    def test_one_pod_in_eight_needs_no_gpu_and_three_in_eight_share_one(self, shared_folder: Path):
        pods = read_pods(shared_folder / "traces" / "gpu" / "openb_pod_list_default.csv.gz").jobs

        without = sum(job.procs == 0 for job in pods) / len(pods)
        sharing = sum(job.request is not None and job.request.shared for job in pods) / len(pods)

        assert (round(without, 2), round(sharing, 2)) == (0.13, 0.38)
