"""The audit: who did what to which object, from where, and who only read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.journeys.box import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.journeys.box import Box


def audit(box: Box, *options: str) -> list[dict[str, Any]]:
    return list(json.loads(box.rota("audit", "--json", *options).stdout))


def test_what_was_done_to_a_job_and_who_read_it_is_on_record(home: Box) -> None:
    job = home.submit("--", "echo", "hi")
    home.ended(job)
    home.output(job)
    held = home.submit("--hold", "--", "true")
    home.rota("cancel", str(held))

    first, second = audit(home, "--object", str(job)), audit(home, "--object", f"job {held}")

    assert [entry["action"] for entry in first] == ["logs", "submit"]
    assert [entry["action"] for entry in second] == ["cancel", "submit"]
    who = {(entry["user"], entry["via"], entry["address"]) for entry in first + second}
    assert who == {(first[0]["user"], "local", "")}
    assert [entry["action"] for entry in audit(home, "--action", "cancel", "--limit", "1")] == [
        "cancel"
    ]
    assert "a moment that has passed" in home.refusal("audit", "--since", "now+1h")


def test_a_table_is_printed_for_people_and_a_bad_moment_is_refused_in_one_line(home: Box) -> None:
    home.submit("--hold", "--", "true")

    table = home.rota("audit", "--action", "submit").stdout.splitlines()
    same = home.rota("events", "--action", "submit").stdout.splitlines()

    assert table[0].split() == ["TIME", "USER", "VIA", "ADDRESS", "ACTION", "OBJECT", "REFUSED"]
    assert "submit" in table[1]
    assert same == table
    assert "is not valid" in home.refusal("audit", "--since", "yesteryear")


def test_records_outlive_the_jobs_that_they_are_about_and_are_shipped_as_lines_of_json(
    new_box: Callable[..., Box], tmp_path: Path
) -> None:
    box = new_box()
    lines = tmp_path / "audit.jsonl"
    box.env["ROTA_AUDIT_FILE"] = str(lines)
    box.up()
    job = box.submit("--", "true")
    box.ended(job)

    box.kill("controller")
    box.ended(job)
    kept = audit(box, "--object", str(job))
    shipped = until(
        lambda: [json.loads(line) for line in lines.read_text().splitlines()], "a line in the file"
    )

    assert [record["action"] for record in kept] == ["submit"]
    assert {"submit"} == {line["action"] for line in shipped if line["object"] == f"job {job}"}
    verified = box.rota("audit", "verify", str(lines)).stdout
    assert verified.startswith(f"{len(shipped)} records as they were written")
    lines.write_text(lines.read_text().replace(shipped[0]["user"], "somebody", 1))
    changed = box.rota("audit", "verify", str(lines), check=False)
    assert changed.returncode == 1
    assert changed.stdout.startswith("line 1: was changed")


def test_a_file_that_cannot_be_written_is_refused_in_one_line(
    new_box: Callable[..., Box], tmp_path: Path
) -> None:
    box = new_box()
    box.env["ROTA_AUDIT_FILE"] = str(tmp_path / "not" / "there.jsonl")

    refused = box.rota("up", "--detach", check=False)

    assert refused.returncode != 0
    assert "audit.file" in refused.stderr


@pytest.mark.parametrize("syslog", ["nowhere", "host:port", "host:99999999"])
def test_a_syslog_that_is_none_is_refused_in_one_line(
    new_box: Callable[..., Box], syslog: str
) -> None:
    box = new_box()
    box.env["ROTA_AUDIT_SYSLOG"] = syslog

    assert "expected /dev/log or HOST:PORT" in box.refusal("up", "--detach")
