"""Exports as sites really have them: other columns, other zones, free text, several versions."""

import json
from pathlib import Path
from typing import Any

import pytest

from rota.sim.readers import read_trace
from rota.sim.trace import BadTrace, Trace

BARE = "JobID|Submit|Start|End|AllocCPUS|Partition"
TIMES = "2026-01-01T00:00:00|2026-01-01T00:10:00|2026-01-01T01:10:00"


def read(folder: Path, *lines: str, name: str = "past.txt") -> Trace:
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return read_trace(path)


class TestTables:
    def test_the_last_cell_may_be_empty(self, tmp_path):
        (job,) = read(tmp_path, BARE, f"7|{TIMES}|4|").jobs

        assert (job.procs, job.queue) == (4, "")

    def test_every_line_may_end_with_a_bar(self, tmp_path):
        (job,) = read(tmp_path, BARE + "|", f"7|{TIMES}|4|gpu|").jobs

        assert job.queue == "gpu"

    @pytest.mark.parametrize("bar", [",", ";", "\t", "^"])
    def test_the_delimiter_is_told_by_the_header(self, tmp_path, bar):
        (job,) = read(tmp_path, BARE.replace("|", bar), f"7|{TIMES}|4|gpu".replace("|", bar)).jobs

        assert (job.procs, job.run_s, job.queue) == (4, 3600, "gpu")

    def test_a_bar_in_the_name_of_a_job_is_part_of_it(self, tmp_path):
        (job,) = read(tmp_path, "JobName|" + BARE, f"a|b|c|7|{TIMES}|4|gpu").jobs

        assert (job.name, job.procs) == ("a|b|c", 4)

    def test_a_line_that_does_not_fit_the_header_is_left_out_and_counted(self, tmp_path):
        trace = read(tmp_path, BARE, f"7|{TIMES}|4|gpu", "#SBATCH -n 4", "export A=1|2")

        assert len(trace.jobs) == 1
        assert trace.left_out == {"a line of other fields than the header": 2}

    def test_the_run_time_is_what_elapsed_says(self, tmp_path):
        autumn = "7|2026-10-25T02:50:00|2026-10-25T02:55:00|2026-10-25T02:10:00|4|p|00:15:00"

        (job,) = read(tmp_path, BARE + "|Elapsed", autumn).jobs

        assert job.run_s == 900

    def test_an_end_may_follow_from_start_and_elapsed(self, tmp_path):
        lines = ("JobIDRaw|Submit|Start|ElapsedRaw|NCPUS", "7|1700000000|1700000100|50|2")

        (job,) = read(tmp_path, *lines).jobs

        assert (job.run_s, job.procs) == (50, 2)

    def test_a_submit_that_was_not_exported_is_when_the_job_was_ready(self, tmp_path):
        rows = ("7|1700000000|1700000100|1700000150", "8|1700000090|1700000100|1700000150")

        jobs = read(tmp_path, "JobID|Eligible|Start|End", *rows).jobs

        assert [job.submit_s for job in jobs] == [0, 90]

    def test_moments_with_zones_are_one_clock(self, tmp_path):
        rows = (
            "7|2026-01-01T12:00:00+0100|2026-01-01T11:00:10Z|2026-01-01T11:01:00+00:00|1|p",
            "8|2026-01-01T11:00:30Z|2026-01-01T11:00:40Z|2026-01-01T11:01:00Z|1|p",
        )

        jobs = read(tmp_path, BARE, *rows).jobs

        assert [(job.submit_s, job.run_s) for job in jobs] == [(0, 50), (30, 20)]

    def test_the_parts_of_a_heterogeneous_job_are_one_job(self, tmp_path):
        rows = (f"7+0|{TIMES}|4|gpu", f"7+1|{TIMES}|16|cpu", f"7+0.batch|{TIMES}|4|", "")

        trace = read(tmp_path, BARE, *rows)

        assert [job.procs for job in trace.jobs] == [20]
        assert trace.left_out == {"a step of a job": 1}

    def test_gpus_may_be_told_by_model_alone_or_per_node(self, tmp_path):
        typed = f"7|{TIMES}|8|p|cpu=8,mem=62.50G,node=2,gres/gpu:a100=3,gres/gpu:h100=1||"
        older = f"8|{TIMES}|8|p||2|gpu:tesla:2(S:0-1)"

        trace = read(tmp_path, BARE + "|AllocTRES|NNodes|ReqGRES", typed, older)

        assert [job.procs for job in trace.jobs] == [4, 4]
        assert [job.tasks for job in trace.jobs] == [2, 2]
        assert trace.jobs[0].request.memory_mib == 32000

    @pytest.mark.parametrize("limit", ["UNLIMITED", "Partition_Limit", "", "4294967295"])
    def test_a_limit_that_is_none_is_none(self, tmp_path, limit):
        (job,) = read(tmp_path, BARE + "|TimelimitRaw", f"7|{TIMES}|4|p|{limit}").jobs

        assert job.estimate_s == 0

    @pytest.mark.parametrize(
        ("limit", "seconds"), [("1-12", 36 * 3600), ("90", 5400), ("2:30", 150), ("1-0:0:5", 86405)]
    )
    def test_spans_come_in_all_of_slurms_forms(self, tmp_path, limit, seconds):
        (job,) = read(tmp_path, BARE + "|Timelimit", f"7|{TIMES}|4|p|{limit}").jobs

        assert job.estimate_s == seconds

    def test_large_counts_come_with_units_of_1024(self, tmp_path):
        (job,) = read(tmp_path, BARE + "|NNodes", f"7|{TIMES}|2K|p|1.50K").jobs

        assert job.procs == 2048

    @pytest.mark.parametrize("asked", ["4000Mc", "0n", "16Gn", "2.50G", "1.5T", "?", "500?", "0"])
    def test_memory_comes_in_all_of_slurms_forms(self, tmp_path, asked):
        assert read(tmp_path, BARE + "|ReqMem", f"7|{TIMES}|4|p|{asked}").jobs

    def test_a_job_that_was_cancelled_while_it_waited_never_started(self, tmp_path):
        moment = "2026-01-01T00:10:00"
        gone = f"8|2026-01-01T00:00:00|{moment}|{moment}|0|p|CANCELLED by 1000"

        trace = read(tmp_path, BARE + "|State", f"7|{TIMES}|4|p|COMPLETED", gone)

        assert (len(trace.jobs), trace.left_out) == (1, {"never started": 1})


class TestJson:
    def job(self, **more: Any) -> dict[str, Any]:
        times = {"submission": 1000, "start": 1100, "end": 1400, "limit": 60}
        tres = {"allocated": [{"type": "cpu", "name": "", "id": 1, "count": 4}]}
        return {"job_id": 5, "user": "bob", "time": times, "tres": tres, **more}

    def read(self, folder: Path, answer: dict[str, Any], indent: int | None = None) -> Trace:
        path = folder / "past.json"
        path.write_text(json.dumps(answer, indent=indent))
        return read_trace(path)

    @pytest.mark.parametrize("indent", [None, 1])
    @pytest.mark.parametrize("first", ["jobs", "errors", "warnings", "meta", "last_update"])
    def test_keys_come_in_any_order_and_on_one_line(self, tmp_path, first, indent):
        answer = {first: [], "jobs": [self.job()]} if first != "jobs" else {"jobs": [self.job()]}

        (job,) = self.read(tmp_path, answer, indent).jobs

        assert (job.procs, job.run_s, job.estimate_s) == (4, 300, 3600)

    def test_one_line_may_be_long(self, tmp_path):
        many = [self.job(comment={"job": "x" * 3000}) for _ in range(600)]

        assert len(self.read(tmp_path, {"jobs": many}).jobs) == 600

    def test_numbers_may_be_objects_everywhere(self, tmp_path):
        def boxed(number: float, infinite: bool = False) -> dict[str, Any]:
            return {"set": not infinite, "infinite": infinite, "number": number}

        times = {"submission": boxed(1000), "start": boxed(1100), "end": boxed(1400)}
        times["limit"] = boxed(0, infinite=True)
        tres = {"requested": [{"type": "cpu", "name": "", "count": boxed(8)}]}
        told = self.job(time=times, tres=tres, allocation_nodes=boxed(2), required={"CPUs": 8})

        (job,) = self.read(tmp_path, {"jobs": [told]}).jobs

        assert (job.procs, job.run_s, job.estimate_s) == (8, 300, 0)

    def test_gpus_of_a_model_count(self, tmp_path):
        gres = [{"type": "gres", "name": "gpu:a100", "count": 2}]

        trace = self.read(tmp_path, {"jobs": [self.job(tres={"requested": gres})]})

        assert (trace.unit, trace.jobs[0].procs) == ("GPUs", 2)

    def test_parts_of_a_heterogeneous_job_and_waiting_jobs(self, tmp_path):
        het = [
            self.job(het={"job_id": 5, "job_offset": {"set": True, "number": n}}) for n in (0, 1)
        ]
        waits = self.job(time={"submission": 1000, "start": 0, "end": 0}, tres={})

        trace = self.read(tmp_path, {"jobs": [*het, waits]})

        assert [job.procs for job in trace.jobs] == [8]
        assert trace.left_out == {"never started": 1}


HELIOS = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration"


class TestHelios:
    def test_rows_become_jobs_with_gpus(self, tmp_path):
        row = "9,u1,vcA,4,16,1,COMPLETED,2020-04-01 00:00:05,2020-04-01 00:01:00,x,120"
        first = "8,u2,vcB,1,4,1,FAILED,2020-04-01 00:00:00,2020-04-01 00:00:00,x,7.5"

        trace = read(tmp_path, HELIOS, row, first, name="helios.csv")

        assert trace.unit == "GPUs"
        assert [(job.user, job.group, job.procs, job.submit_s) for job in trace.jobs] == [
            ("u2", "vcB", 1, 0),
            ("u1", "vcA", 4, 5),
        ]
        assert [job.run_s for job in trace.jobs] == [7.5, 120]

    def test_jobs_without_gpus_are_left_out_and_counted(self, tmp_path):
        rows = ("1,u,vc,0,4,1,COMPLETED,0,0,9,9", "2,u,vc,1,4,1,COMPLETED,5,5,9,4")

        trace = read(tmp_path, HELIOS, *rows, name="helios.csv")

        assert (len(trace.jobs), trace.left_out) == (1, {"no GPUs": 1})

    def test_a_blank_run_time_is_a_job_that_never_ran(self, tmp_path):
        rows = ("1,u,vc,1,4,1,CANCELLED,0,,,", "2,u,vc,1,4,1,COMPLETED,5,5,9,4")

        trace = read(tmp_path, HELIOS, *rows, name="helios.csv")

        assert (len(trace.jobs), trace.left_out) == (1, {"never started": 1})

    def test_a_broken_cell_is_told_by_its_place(self, tmp_path):
        with pytest.raises(BadTrace, match=r"field 8 \(submit_time\): 'noon' is no time"):
            read(tmp_path, HELIOS, "1,u,vc,1,4,1,COMPLETED,noon,0,9,9", name="helios.csv")
