"""Options about where a job runs and how it gives way, from the command line and script lines."""

import pytest

from rota.cli.submit.script_lines import script_options
from rota.hostlist import expand


def submitted(fake, rota, *options):
    """The body that these options make."""
    fake.routes["POST /jobs"] = {"id": 1}
    ended = rota("submit", "--no-env", *options, "--", "true")
    assert ended.code == 0, ended.err
    return fake.asked[-1].body


def test_wishes_are_sent_in_the_words_of_the_server(fake, rota):
    body = submitted(
        fake,
        rota,
        *("-N", "2", "-C", "rack=a|b", "--constraint", "gpu_mem>40&!slow", "-w", "n[1-2],x"),
        *("-x", "n9", "--tolerate", "team=vision", "--near", "app=web@rack?", "--apart", "db"),
        *("--topology", "rack", "--exclusive", "--data", "imagenet,coco"),
    )

    assert body["nodes"] == 2
    assert body["constraints"] == ["rack=a|b", "gpu_mem>40&!slow"]
    assert (body["node_list"], body["exclude"]) == (["n1", "n2", "x"], ["n9"])
    assert (body["tolerate"], body["near"], body["apart"]) == (
        ["team=vision"],
        ["app=web@rack?"],
        ["db"],
    )
    assert (body["topology"], body["exclusive"], body["data"]) == (
        "rack",
        True,
        ["imagenet", "coco"],
    )


def test_claims_are_sent(fake, rota):
    body = submitted(
        fake,
        rota,
        *("--qos", "best-effort", "--deadline", "2096-01-01T00:00Z", "--estimate", "10m"),
        *("--preemptible", "--preempt-mode", "suspend", "--checkpoint-signal", "USR1"),
        *("--preempt-retries", "7"),
        *("--restart-cost", "2m", "--type", "inference", "--priority", "scavenger"),
        *("--tasks", "4", "--min-tasks", "2", "--gpus", "0.5"),
    )

    assert (body["qos"], body["deadline_at"], body["estimate_s"]) == (
        "best-effort",
        "2096-01-01T00:00:00Z",
        600,
    )
    assert (body["preemptible"], body["preempt_mode"]) == (True, "suspend")
    assert body["preempt_retries"] == 7
    assert (body["checkpoint_signal"], body["restart_cost_s"]) == ("USR1", 120)
    assert (body["type"], body["priority"], body["min_tasks"]) == ("inference", 0, 2)
    assert body["resources"] == {"gpus": 0.5}


def test_tasks_per_node_make_the_tasks(fake, rota):
    body = submitted(fake, rota, "--nodes", "3", "--tasks-per-node", "4")

    assert (body["nodes"], body["tasks"]) == (3, 12)


def test_an_update_takes_wishes_away_with_an_empty_text(fake, rota):
    fake.routes["PATCH /jobs/12"] = {"id": 12}

    ended = rota(
        *("update", "12", "--constraint", "", "--exclude", "", "--deadline", "none"),
        *("--no-exclusive", "--min-tasks", "2"),
    )

    assert ended.code == 0, ended.err
    assert fake.asked[-1].body == {
        "constraints": [],
        "exclude": [],
        "deadline_at": 0,
        "exclusive": False,
        "min_tasks": 2,
    }


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--constraint", "a b"), "'a b' is not valid; expected ssd"),
        (("--tolerate", "*=x"), "for every taint"),
        (("--near", "@rack"), "a label of jobs"),
        (("--nodelist", "n[3-1]"), "expected numbers such as [1-3,7]"),
        (("--gpus", "1.5"), "whole GPUs such as 2, or a share such as 0.5"),
        (("--priority", "top"), "critical, urgent, high, normal, low, batch, scavenger"),
        (("--qos", "gold"), "'guaranteed', 'burstable', 'best-effort'"),
        (("--deadline", "soon"), "expected a moment"),
        (("--tasks", "2", "--tasks-per-node", "2"), "exclude each other"),
    ],
)
def test_a_bad_value_is_one_line_and_nothing_is_sent(fake, rota, options, words):
    ended = rota("submit", *options, "--", "true")

    assert ended.code == 2
    assert words in ended.err
    assert ended.err.count("\n") == 1
    assert not fake.asked


def test_script_lines_take_the_same_options():
    found = script_options(
        "#!/bin/sh\n#ROTA -C rack=a --nodes 2\n#ROTA --constraint ssd? --qos guaranteed\n",
        "job.sh",
    ).options

    assert found == {"constraint": ("rack=a", "ssd?"), "nodes": 2, "qos": "guaranteed"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("a,b,a", ("a", "b")),
        ("n[08-10,12]-gpu, x", ("n08-gpu", "n09-gpu", "n10-gpu", "n12-gpu", "x")),
    ],
)
def test_lists_of_nodes_are_written_out(text, names):
    assert expand(text) == names


@pytest.mark.parametrize("text", ["a,,b", "n[", "n[1-", "n[a-b]", "n[1-99999999]", "a b"])
def test_lists_of_nodes_that_make_no_sense_are_refused(text):
    with pytest.raises(ValueError, match="is not valid"):
        expand(text)


def test_a_port_to_answer_at_is_sent_with_its_path_and_is_one_of_the_ports(fake, rota):
    body = submitted(fake, rota, "--port", "grpc", "--health", "web/healthz")

    assert body["health"] == {"port": "web", "path": "/healthz"}
    assert body["ports"] == ["grpc", "web"]


def test_without_a_path_a_connection_is_enough_and_a_port_is_named_once(fake, rota):
    body = submitted(fake, rota, "--port", "web", "--health", "web")

    assert (body["health"], body["ports"]) == ({"port": "web"}, ["web"])
