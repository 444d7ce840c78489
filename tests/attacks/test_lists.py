"""Lists of the Slurm commands hold up nobody, fill no memory and speak to no terminal."""

from __future__ import annotations

import json
import re

import pytest

from tests.attacks.people import Person
from tests.attacks.test_asking import HELD_UP_S, all_at_once, longest_s, statuses
from tests.attacks.test_asking import _slurm as slurm
from tests.attacks.test_freezing import resident_mib
from tests.journeys.box import Box, UnixConnection

#: A line that is as long as a format may make it.
WIDE = ",".join(["jobid:300"] * 100)
JOBS, ELEMENTS, MANY_ELEMENTS = 3000, 200_000, 900_000
#: Whatever a terminal would act on, and the beginning of a line.
EVIL = "\x1b[2J\x1b]0;pwned\x07\nJobId=1 UserId=root(0)\x9b31m"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def told(person: Box, *words: str) -> str:
    """What a Slurm command prints."""
    method, path, body = slurm(*words)
    connection = UnixConnection(person.state / "rota.sock", 60.0, person.user)
    connection.request(method, f"/api/v1{path}", body)
    frames, said = connection.getresponse().read(), b""
    connection.close()
    while frames:
        kind, length = frames[:1], int.from_bytes(frames[1:5], "big")
        said += frames[5 : 5 + length] if kind in b"oe" else b""
        frames = frames[5 + length :]
    return said.decode()


@pytest.mark.parametrize(
    "words",
    [("squeue", "-O", WIDE), ("squeue", "--yaml"), ("sacct", "-a", "--yaml"),
     ("squeue", "-r", "-h", "-o", "%A")],
    ids=["wide", "squeue-yaml", "sacct-yaml", "elements"],
)  # fmt: skip
def test_no_form_of_a_list_keeps_others_waiting(
    town: Box, mallory: Person, alice: Person, words: tuple[str, ...]
):
    jobs = [{"command": "true", "name": f"n{n}", "hold": True} for n in range(JOBS)]
    assert mallory.api("POST", "/jobs:batch", {"jobs": jobs})[0] == 201
    mallory.job(["true"], hold=True, array=f"0-{ELEMENTS - 1}")

    with all_at_once(mallory, [slurm(*words)]) as lines:
        held_up_s = longest_s(town, alice)
        assert statuses(lines) == [200]

    assert held_up_s < HELD_UP_S


def test_elements_of_arrays_that_are_gone_fill_no_memory(town: Box, mallory: Person):
    """They cost nothing any more, so their number is not bounded: a list of them is."""
    for _ in range(2):
        array = mallory.job(["true"], hold=True, array=f"0-{MANY_ELEMENTS - 1}")
        mallory.api("DELETE", f"/jobs/{array}")
    before = resident_mib(town.living("controller"))

    said = told(mallory, "squeue", "-r", "-t", "all", "-u", mallory.user)

    assert "ask for fewer" in said
    assert resident_mib(town.living("controller")) - before < 700


def test_lists_that_nobody_takes_are_not_made(town: Box, mallory: Person, alice: Person):
    jobs = [{"command": "true", "name": f"n{n}", "hold": True} for n in range(JOBS)]
    assert mallory.api("POST", "/jobs:batch", {"jobs": jobs})[0] == 201
    before = resident_mib(town.living("controller"))

    with all_at_once(mallory, [slurm("squeue", "-O", WIDE)] * 30) as lines:
        assert statuses(lines) == [200] * 30
        alice.is_served_soon()
        assert resident_mib(town.living("controller")) - before < 600


def test_what_a_list_shows_of_a_job_neither_speaks_to_a_terminal_nor_forges_a_record(
    town: Box, mallory: Person
):
    ended = mallory.ran([f"no{EVIL}"], workdir=f"/no{EVIL}", labels={"x": "y"})["id"]
    held = mallory.job([f"no{EVIL}"], hold=True)
    lists = [
        ("scontrol", "show", "job"), ("scontrol", "-o", "show", "job", str(held)),
        ("squeue", "-t", "all", "-o", "%all"), ("squeue", "--json"), ("squeue", "--yaml"),
        ("sacct", "-a", "-p", "-o", "all"), ("sacct", "-a", "--json"),
        ("sacct", "-a", "-o", "jobid,workdir%200,submitline%200"),
    ]  # fmt: skip

    shown = {words: told(town, *words) for words in lists}

    assert all(str(held) in text or str(ended) in text for text in shown.values())
    assert [words for words, text in shown.items() if CONTROLS.search(text)] == []
    assert [words for words, text in shown.items() if re.search("^JobId=1 U", text, re.M)] == []
    assert json.loads(shown["squeue", "--json"])["jobs"]
