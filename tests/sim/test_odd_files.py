"""Files as newcomers bring them: packed, quoted, half known, with names in any bytes."""

import bz2
import gzip
import json
import lzma
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from rota.sim.readers import read_trace
from rota.sim.trace import BadTrace, Trace

SWF = (
    "; MaxProcs: 10\n"
    "1 0 0 5 1 -1 -1 1 10 -1 1 1 1 1 1 1 -1 -1\n"
    "2 5 0 5 1 -1 -1 1 10 -1 1 1 1 1 1 1 -1 -1\n"
)
BARE = "JobID|Submit|Start|End"
TIMES = "2026-01-01T00:00:00|2026-01-01T00:10:00|2026-01-01T01:10:00"
#: What Slurm writes for "not known" in 64 bits.
UNKNOWN = 2**64 - 2


def read(folder: Path, content: str | bytes, name: str = "past.txt") -> Trace:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_trace(path)


def zstd(content: bytes) -> bytes:
    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


PACKED = [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress), ("zst", zstd)]


class TestPacked:
    @pytest.mark.parametrize(("suffix", "pack"), PACKED)
    def test_a_log_is_read_however_it_is_packed(self, tmp_path, suffix, pack):
        trace = read(tmp_path, pack(SWF.encode()), f"log.swf.{suffix}")

        assert (trace.name, trace.procs, len(trace.jobs)) == ("log", 10, 2)

    @pytest.mark.parametrize(("suffix", "pack"), PACKED)
    def test_a_cut_log_is_refused_in_one_line(self, tmp_path, suffix, pack):
        with pytest.raises(BadTrace, match=r"log\.swf\.\w+:1: [^\n]+$"):
            read(tmp_path, pack(SWF.encode() * 50)[:-12], f"log.swf.{suffix}")

    def test_without_a_reader_of_zstd_the_way_out_is_told(self, tmp_path):
        path = tmp_path / "log.swf.zst"
        path.write_bytes(zstd(SWF.encode()))
        script = (
            "import sys; sys.modules['pyarrow'] = None\n"
            "from pathlib import Path; from rota.sim.readers import read_trace\n"
            "try: read_trace(Path(sys.argv[1]))\n"
            "except Exception as error: print(error)\n"
        )

        told = subprocess.run(
            [sys.executable, "-c", script, str(path)],
            check=True,
            capture_output=True,
            text=True,
        )

        assert "packed by zstd; unpack it (zstd -d FILE)" in told.stdout

    def test_text_of_two_bytes_a_letter_is_named(self, tmp_path):
        with pytest.raises(BadTrace, match="UTF-16"):
            read(tmp_path, f"{BARE}\n7|{TIMES}\n".encode("utf-16"))


class TestSwf:
    def test_a_job_that_was_cancelled_while_it_waited_never_started(self, tmp_path):
        gone = "3 9 100 0 -1 -1 -1 4 10 -1 5 1 1 1 1 1 -1 -1\n"
        at_once = "4 9 0 0 4 -1 -1 4 10 -1 5 1 1 1 1 1 -1 -1\n"

        trace = read(tmp_path, SWF + gone + at_once, "log.swf")

        assert [job.id for job in trace.jobs] == [1, 2, 4]
        assert trace.left_out == {"never started": 1}


class TestTablesOfSacct:
    def test_a_running_job_has_not_ended_although_it_has_run_for_a_while(self, tmp_path):
        rows = (
            "JobID|Submit|Start|Elapsed|State\n"
            "1|2026-01-01T00:00:00|2026-01-01T00:10:00|00:10:00|RUNNING\n"
            "2|2026-01-01T00:00:00|2026-01-01T00:10:00|00:10:00|COMPLETED\n"
        )

        trace = read(tmp_path, rows)

        assert (len(trace.jobs), trace.left_out) == (1, {"not ended": 1})

    def test_a_submit_that_is_not_known_is_not_in_1970(self, tmp_path):
        unknown = "Unknown|2026-01-01T00:10:00|2026-01-01T01:10:00"

        trace = read(tmp_path, f"{BARE}\n1|{unknown}\n2|{TIMES}\n")

        assert [job.submit_s for job in trace.jobs] == [0, 600]

    def test_a_name_in_another_encoding_costs_its_letters_only(self, tmp_path):
        rows = f"{BARE}|JobName\n7|{TIMES}|Größe\n".encode("latin-1")

        (job,) = read(tmp_path, rows).jobs

        assert (job.run_s, job.name[:2], job.name[-1]) == (3600, "Gr", "e")

    def test_cells_between_commas_may_stand_in_quotes(self, tmp_path):
        times = ",".join(f'"{one}"' for one in TIMES.split("|"))
        quoted = f'"JobID","JobName","Submit","Start","End"\n"7","a, ""b""",{times}\n'

        (job,) = read(tmp_path, quoted).jobs

        assert (job.name, job.run_s) == ('a, "b"', 3600)

    def test_between_bars_a_quote_is_a_letter(self, tmp_path):
        (job,) = read(tmp_path, f'{BARE}|JobName\n7|{TIMES}|"a"\n').jobs

        assert job.name == '"a"'

    @pytest.mark.parametrize(
        ("head", "hint"),
        [
            (f"7|{TIMES}", "--noheader"),
            ("jobid|submit|start|end", "-P or --json"),
            ("       JobID    Submit      Start        End", "-P or --json"),
            ("submit;run;procs", "between commas"),
            ("submit\trun\tprocs", "between commas"),
            ("Submit,Run,Procs", "did you mean 'submit'"),
        ],
    )
    def test_a_header_that_is_nearly_right_is_told_what_it_lacks(self, tmp_path, head, hint):
        with pytest.raises(BadTrace, match=hint):
            read(tmp_path, f"{head}\n0;5;1\n")


class TestJsonOfSacct:
    def job(self, **more: Any) -> dict[str, Any]:
        times = {"submission": 1000, "start": 1100, "end": 1400, "elapsed": 300}
        tres = {"allocated": [{"type": "cpu", "name": "", "id": 1, "count": 4}]}
        return {"job_id": 5, "user": "bob", "time": times, "tres": tres, **more}

    def jobs(self, folder: Path, *jobs: object) -> Trace:
        return read(folder, json.dumps({"jobs": jobs}), "past.json")

    @pytest.mark.parametrize("boxed", [False, True])
    def test_numbers_of_64_bits_that_are_not_known_are_none(self, tmp_path, boxed):
        unknown = {"set": True, "infinite": False, "number": UNKNOWN} if boxed else UNKNOWN
        runs = self.job()
        runs["time"] = {**runs["time"], "end": unknown, "elapsed": unknown}
        counts = [{"type": "cpu", "name": "", "id": 1, "count": unknown}]
        wide = self.job(tres={"allocated": counts}, required={"CPUs": 2})

        trace = self.jobs(tmp_path, runs, wide)

        assert [job.procs for job in trace.jobs] == [2]
        assert trace.left_out == {"not ended": 1}

    def test_a_submit_that_is_not_known_is_not_in_1970(self, tmp_path):
        unknown = self.job(time={"submission": 0, "start": 1_700_000_100, "end": 1_700_000_200})
        other = self.job(time={"submission": 1_700_000_000, "start": 1_700_000_001, "end": 17e8})

        trace = self.jobs(tmp_path, unknown, other)

        assert [job.submit_s for job in trace.jobs] == [0, 100]

    def test_users_and_memory_are_found_where_newer_versions_keep_them(self, tmp_path):
        asked = [
            {"type": "cpu", "name": "", "id": 1, "count": 4},
            {"type": "gres", "name": "gpu", "id": 1001, "count": 1},
        ]
        per_cpu = {"CPUs": 4, "memory_per_cpu": {"set": True, "infinite": False, "number": 1000}}
        owner = {"user": "ann", "account": "nlp"}
        told = self.job(user=None, association=owner, tres={"requested": asked}, required=per_cpu)

        (job,) = self.jobs(tmp_path, told).jobs

        assert (job.user, job.group, job.request.memory_mib) == ("ann", "nlp", 4000)

    @pytest.mark.parametrize(
        "entry", [{"job_id": 1, "job_state": "RUNNING"}, 5, {"time": [1]}, {"time": None}]
    )
    def test_an_entry_of_another_tool_is_refused_in_plain_words(self, tmp_path, entry):
        with pytest.raises(BadTrace, match="job 1 of 'jobs': the key 'time' is missing"):
            self.jobs(tmp_path, entry)

    def test_a_time_that_is_missing_is_named(self, tmp_path):
        with pytest.raises(BadTrace, match="job 1 of 'jobs': the key 'start' is missing"):
            self.jobs(tmp_path, self.job(time={"submission": 5}))
