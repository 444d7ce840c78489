"""A file that is no trace is refused in one line that names the file, the line and the field."""

import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rota.sim.readers import KINDS, read_cluster, read_trace
from rota.sim.trace import BadTrace, Trace

GOOD = "1 0 -1 10 4 -1 -1 4 60 -1 1 3 4 5 6 -1 -1 -1\n"
HEAD = "; MaxProcs: 128\n" + GOOD
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\n"
PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n"
MURI = "job_id,num_gpu,submit_time,duration,priority\n"


def swf(job="2", submit="0", run="10", procs="4", time="60", user="3") -> str:
    return f"{job} {submit} -1 {run} {procs} -1 -1 {procs} {time} -1 1 {user} 4 5 6 -1 -1 -1\n"


def refusal(path: Path, **options: object) -> str:
    """The one line that is said about a file, without its folder."""
    with pytest.raises(BadTrace) as refused:
        read_trace(path, **options)
    return one_line(refused.value, path)


def one_line(error: BadTrace, path: Path) -> str:
    text = str(error)
    assert text.isprintable()
    return text.replace(f"{path.parent}{os.sep}", "")


@pytest.fixture
def said(tmp_path):
    """What is said about a file with this content."""

    def said_of(content: str | bytes, **options: object) -> str:
        path = tmp_path / "log"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return refusal(path, **options)

    return said_of


BROKEN_SWF = {
    "a word": (swf(run="-x"), "field 4 (run time): '-x' is not a number"),
    "not a number": (swf(run="nan"), "field 4 (run time): 'nan' is not a number"),
    "infinite": (swf(submit="inf"), "field 2 (submit time): 'inf' is not a number"),
    "grouped digits": (swf(run="1_000"), "field 4 (run time): '1_000' is not a number"),
    "a hole": (swf(user="null"), "field 12 (user): 'null' is not a number"),
    "a negative submit": (swf(submit="-5"), "field 2 (submit time): '-5' is negative"),
    "no submit": (swf(submit="-1"), "field 2 (submit time): '-1' is negative"),
    "a negative run": (swf(run="-7"), "field 4 (run time): '-7' is negative"),
    "a negative fraction": (swf(run="-0.5"), "field 4 (run time): '-0.5' is negative"),
    "a negative estimate": (swf(time="-60"), "field 9 (time requested): '-60' is negative"),
    "an absurd run": (
        swf(run="1e16"),
        "field 4 (run time): '1e16' is too large; at most 1e15 is allowed",
    ),
    "an absurd user": (
        swf(user="9" * 5000),
        f"field 12 (user): '{'9' * 56}... is too large; at most 1e15 is allowed",
    ),
    "a broken size": (
        swf(procs="2.5"),
        "field 8 (processors requested): '2.5' is not a whole number",
    ),
    "a job twice": (swf(job="1"), "field 1 (job number): '1' is there twice"),
    "missing fields": ("2 0 -1 10 4\n", "5 fields instead of 18"),
    "too many fields": (swf().rstrip() + " 7 8\n", "20 fields instead of 18"),
    "commas": (swf().replace(" ", ","), "1 fields instead of 18"),
    "two in one": (swf().replace("\n", " ") + swf("3"), "36 fields instead of 18"),
    "a list": (swf(user="[3]"), "field 12 (user): '[3]' is not a number"),
}


@pytest.mark.parametrize("case", BROKEN_SWF)
def test_a_broken_record_is_named_by_line_and_field(said, case):
    record, problem = BROKEN_SWF[case]

    assert said(HEAD + record) == f"log:3: {problem}"


@pytest.mark.slow
def test_the_line_is_right_deep_inside_a_long_log(said):
    records = [swf(str(number), str(number)) for number in range(30_000)]
    records[20_000] = swf("20000", "20000", run="?")

    assert said(gzip.compress("".join(records).encode())) == (
        "log:20001: field 4 (run time): '?' is not a number"
    )


def test_an_unsorted_log_is_refused_with_the_way_out(said):
    assert said(swf("1", "50") + swf("2", "40")) == (
        "log:2: field 2 (submit time): '40' is before the job above it (50); "
        "--sort puts them in order"
    )


BROKEN_FILES = {
    "empty": (b"", "log:1: the file is empty"),
    "blank": (b"\n \n", "log:1: the file is empty"),
    "empty inside": (gzip.compress(b""), "log:1: the file is empty"),
    "only remarks": (b"; MaxProcs: 4\n; no more\n", "log:2: no jobs"),
    "nothing usable": (swf(run="-1").encode(), "log:1: no jobs; left out: 1 with no run time"),
    "prose": (
        b"Dear all,\n",
        "log:1: 'Dear all,' begins no trace that is known; "
        "known kinds: swf, openb, philly, muri, helios, sacct, table",
    ),
    "zeros": (
        HEAD.encode() + b"\x00\x01",
        "log:3: a zero byte: this is no text, but a binary file",
    ),
    "a picture": (
        b"\x89PNG\r\n\x1a\n\x00\x00",
        "log:3: a zero byte: this is no text, but a binary file",
    ),
    "a huge line": (
        HEAD.encode() + b"9" * (1 << 21),
        "log:3: the line is longer than 1048576 bytes",
    ),
    "a huge line with an end": (
        HEAD.encode() + b"9 " * (5 << 17) + b"\n",
        "log:3: the line is longer than 1048576 bytes",
    ),
    "a cut archive": (
        gzip.compress(HEAD.encode() * 99)[:-12],
        "log:1: the compressed data ends in the middle",
    ),
    "a nodes list": (
        b"sn,cpu_milli,memory_mib,gpu,model\n",
        "log:1: a list of nodes, not of jobs; --cluster reads it",
    ),
}


@pytest.mark.parametrize("case", BROKEN_FILES)
def test_a_file_that_is_no_trace_is_refused(said, case):
    content, problem = BROKEN_FILES[case]

    assert said(content) == problem


def test_a_cut_archive_is_refused_at_the_line_that_was_reached(said):
    log = "".join(swf(str(number), str(number), str(number * 7919)) for number in range(20_000))
    cut = gzip.compress(log.encode(), 1)[:-1000]

    problem = said(cut)

    assert problem.endswith(": the compressed data ends in the middle")
    assert int(problem.split(":")[1]) > 10_000


def test_a_damaged_archive_is_refused(said):
    packed = bytearray(gzip.compress(HEAD.encode() * 1000))
    packed[len(packed) // 2] ^= 0xFF

    assert said(bytes(packed)).startswith("log:1: the compressed data ")


BROKEN_TABLES = {
    "an unknown column": (
        "submit,run,proc\n",
        "1: field 3: the column 'proc' is not known; did you mean 'procs'? known: "
        "job, submit, run, procs, estimate, user, group, name, queue, priority",
    ),
    "a missing column": (
        "submit,procs\n0,1\n",
        "1: the column 'run' is missing; needed: submit, run, procs",
    ),
    "a column twice": ("submit,run,procs,run\n", "1: field 4: the column 'run' is there twice"),
    "a short row": ("submit,run,procs\n0,1\n", "2: 2 fields instead of 3 as in the header"),
    "an open quote": (
        'submit,run,procs\n0,1,"2\n3,4,5\n',
        "2: '0,1,\"2' is no row of a CSV file (unexpected end of data)",
    ),
    "no rows": ("submit,run,procs\n", "1: no jobs"),
    "no size": (
        "submit,run,procs\n0,1,0\n",
        "2: field 3 (procs): '0' is too small; 1 or more is allowed",
    ),
    "a blank": ("submit,run,procs\n0,,1\n", "2: field 2 (run): '' is not a number"),
    "a negative time": ("submit,run,procs\n0,-1,1\n", "2: field 2 (run): '-1' is negative"),
    "a priority": (
        "submit,run,procs,priority\n0,1,1,101\n",
        "2: field 4 (priority): '101' is too large; 0 to 100 is allowed",
    ),
    "out of order": (
        "submit,run,procs\n5,1,1\n4,1,1\n",
        "3: field 1 (submit): '4' is before the job above it; --sort puts them in order",
    ),
    "a job twice": (
        "job,submit,run,procs\n5,1,1,1\n5,1,1,1\n",
        "3: field 1 (job): '5' is there twice",
    ),
    "not text": (b"submit,run,procs,user\n0,1,1,J\xfcrgen\n", "2: byte 0xfc is not UTF-8 text"),
    "an open object": (
        '{"submit":0\n',
        "1: '{\"submit\":0' is no JSON object on one line (Input data was truncated)",
    ),
    "an unknown key": (
        '{"submit":0,"run":1,"procs":1,"users":"x"}\n',
        "1: the column 'users' is not known; did you mean 'user'? known: "
        "job, submit, run, procs, estimate, user, group, name, queue, priority",
    ),
    "a missing key": (
        '{"submit":0,"run":1}\n',
        "1: the key 'procs' is missing; needed: submit, run, procs",
    ),
    "a list as a value": (
        '{"submit":0,"run":[1],"procs":1}\n',
        "1: key 'run': [1] is neither a number nor text",
    ),
    "a word as a time": (
        '{"submit":0,"run":"long","procs":1}\n',
        "1: key 'run': 'long' is not a number",
    ),
    "a pod beyond one gpu": (
        PODS + "p,1,1,1,1500,0,9,0\n",
        "2: field 5 (gpu_milli): '1500' is more than one GPU; at most 1000 is allowed",
    ),
    "a pod that ends early": (
        PODS + "p,1,1,1,500,0,3,5\n",
        "2: field 7 (deletion_time): '3' is before scheduled_time 5",
    ),
    "a moment": (
        PHILLY + "yesterday,1.0,1,1.0,x\n",
        "2: field 1 (timestamp): 'yesterday' is no time such as 2017-10-09 07:01:55",
    ),
    "philly without gpus": (
        PHILLY + "2017-10-09 07:01:55,1.0,0,1.0,x\n",
        "2: no jobs; left out: 1 with no GPUs",
    ),
    "muri out of order": (
        MURI + "0,1,5000,1,0\n1,1,4000,1,0\n",
        "3: field 3 (submit_time): '4000' is before the job above it; --sort puts them in order",
    ),
}


@pytest.mark.parametrize("case", BROKEN_TABLES)
def test_a_broken_table_is_named_by_line_and_column(said, case):
    content, problem = BROKEN_TABLES[case]

    assert said(content) == f"log:{problem}"


def test_a_kind_that_does_not_exist_is_refused_with_the_nearest_one(said):
    assert said(HEAD, kind="swff") == (
        "the kind of trace 'swff' is not known; did you mean 'swf'? "
        "known: swf, openb, philly, muri, helios, sacct, table"
    )


def test_a_file_of_another_kind_than_was_said_is_refused(said):
    assert said(HEAD, kind="philly") == (
        "log:1: the column 'timestamp' is missing; needed: timestamp, duration, num_gpus"
    )


class TestPlaces:
    def test_a_file_that_is_not_there(self, tmp_path):
        assert refusal(tmp_path / "nowhere.swf") == "nowhere.swf: no such file"

    def test_a_folder(self, tmp_path):
        (tmp_path / "logs").mkdir()

        assert refusal(tmp_path / "logs") == "logs: is a folder; a file is needed"

    def test_a_file_that_may_not_be_read(self, tmp_path):
        path = tmp_path / "secret.swf"
        path.write_text(HEAD)
        path.chmod(0)

        with without_rights():
            said = refusal(path)

        assert said == "secret.swf: no permission to read it"

    def test_a_name_that_no_file_can_have(self, tmp_path):
        assert "cannot be opened" in refusal(tmp_path / ("x" * 300))
        assert "cannot be opened" in refusal(tmp_path / "a\0b")

    def test_a_name_with_a_line_end_stays_on_one_line(self, tmp_path):
        assert refusal(tmp_path / "two\nlines").endswith("two\\nlines': no such file")


@contextmanager
def without_rights() -> Iterator[None]:
    """As somebody whom file modes bind, which root is not."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


BROKEN_CLUSTERS = {
    "no toml": ("[[nodes]]\n\nname =\n", ":3: not TOML: Invalid value"),
    "no nodes": ("", ":1: the file is empty"),
    "nothing in it": (
        "# none\n",
        ": no nodes; a cluster is one or more tables [[nodes]]",
    ),
    "another table": (
        '[[node]]\nname = "a"\n',
        ": the key 'node' is not known; did you mean 'nodes'? known: nodes",
    ),
    "no name": ("[[nodes]]\ncpus = 4\n", ": nodes 1: name: a node needs a name"),
    "an unknown key": (
        '[[nodes]]\nname = "a"\ncpu = 4\n',
        ": nodes 1: the key 'cpu' is not known; did you mean 'cpus'? known: "
        "name, count, cpus, memory, gpus, gpu_type, gpu_memory, labels",
    ),
    "a bare size": (
        '[[nodes]]\nname = "a"\ncpus = 4\nmemory = 64\n',
        ": nodes 1: memory: 64 is no size such as '64g'",
    ),
    "no size": (
        '[[nodes]]\nname = "a"\ncpus = 4\nmemory = "much"\n',
        ": nodes 1: memory: 'much' is not valid; "
        "expected a size such as 512m, 8g, 16GB or 1.5T (binary units)",
    ),
    "no cpus": (
        '[[nodes]]\nname = "a"\n',
        ": nodes 1: cpus: None is no number of CPUs such as 64",
    ),
    "too many": (
        '[[nodes]]\nname = "a"\ncpus = 4\ncount = 1000000\n',
        ": nodes 1: count: 1000000 is not a whole number from 1 to 100000",
    ),
    "a name twice": (
        '[[nodes]]\nname = "a"\ncpus = 4\n[[nodes]]\nname = "a"\ncpus = 4\n',
        ": nodes 2: name: 'a' is there twice",
    ),
    "labels": (
        '[[nodes]]\nname = "a"\ncpus = 4\nlabels = { zone = 1 }\n',
        ": nodes 1: labels: {'zone': 1} is no table of texts such as {zone = 'a'}",
    ),
    "too many gpus": (
        "sn,cpu_milli,memory_mib,gpu,model\nn,1,1,5000,P100\n",
        ":2: field 4 (gpu): '5000' is too large; at most 1024 is allowed",
    ),
    "a node twice": (
        "sn,cpu_milli,memory_mib,gpu,model\nn,1,1,1,P100\nn,1,1,1,P100\n",
        ":3: field 1 (sn): 'n' is there twice",
    ),
}


@pytest.mark.parametrize("case", BROKEN_CLUSTERS)
def test_a_broken_cluster_is_refused(tmp_path, case):
    content, problem = BROKEN_CLUSTERS[case]
    path = tmp_path / "cluster"
    path.write_text(content)

    with pytest.raises(BadTrace) as refused:
        read_cluster(path)

    said = one_line(refused.value, path)
    assert said.startswith("cluster" + problem)


#: Text that comes close to a trace reaches further into the readers than bytes at random.
PIECES = st.sampled_from(
    [
        *(GOOD, PODS, PHILLY, MURI, "submit,run,procs\n", "sn,cpu_milli,memory_mib,gpu,model\n"),
        *('{"submit":0,"run":1,"procs":2}\n', '[[nodes]]\nname = "a"\ncpus = 4\n', "; MaxProcs: 9"),
        *("0,1,2\n", "2017-10-09 07:01:55", "1e400", "nan", "-1", "9" * 20, '"', ",", "\n", " "),
        *("[" * 40, "{", "_", "\r", "\t", "\u00a0", "\u0661", "\x1c", "\x85"),
    ]
)
NEARLY = st.lists(PIECES, max_size=12).map(lambda pieces: "".join(pieces).encode())


def attempted(read: Callable[[], object]) -> tuple[str, object]:
    """What is said about a file, or what is found in it."""
    try:
        return "", read()
    except BadTrace as error:
        return str(error), None


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(
    content=st.one_of(st.binary(max_size=200), NEARLY, NEARLY.map(gzip.compress)),
    kind=st.sampled_from(["", *KINDS]),
    sort=st.booleans(),
)
@example(content=b"\xc2\xa0\n", kind="", sort=False)
@example(content=b"\xc2\xa0\n", kind="philly", sort=False)
@example(content=b'{"submit":' + b"[" * 5000, kind="", sort=False)
def test_any_bytes_give_a_trace_or_one_line(tmp_path_factory, content, kind, sort):
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(content)

    for read in (lambda: read_trace(path, kind, sort), lambda: read_cluster(path)):
        problem, found = attempted(read)
        if problem:
            assert problem.startswith(f"{path}:")
            assert problem.isprintable()
        else:
            assert found.jobs if isinstance(found, Trace) else found
