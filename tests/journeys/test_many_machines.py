"""A controller and agents that reach it over the network only: here, each a folder of its own."""

from __future__ import annotations

import shutil
import signal
import time

from tests.journeys.box import until
from tests.journeys.site import Site

#: Far less than the 30 s that jobs are given to end.
DOWN_S = 15.0


def test_an_agent_that_hears_nothing_ends_its_job_before_another_node_starts_it(hasty_site: Site):
    site = hasty_site
    site.join("one")
    site.join("two")
    until(lambda: site.is_up("one") and site.is_up("two"), "both nodes")
    job = site.witness_job("moved", retries=1, backoff_s=0)
    until(lambda: len(site.witness("moved")) == 1, "the job to begin")
    first = site.witness("moved")[0][1]

    site.agents[first].send_signal(signal.SIGSTOP)
    until(lambda: len(site.witness("moved")) == 3, "the job to begin elsewhere")
    lines = site.witness("moved")
    note = str(site.node(first)["note"])
    site.agents[first].send_signal(signal.SIGCONT)

    other = lines[2][1]
    assert [line[:2] for line in lines] == [["began", first], ["ended", first], ["began", other]]
    assert other != first
    assert float(lines[2][2]) > float(lines[1][2])
    assert "lost: silent for" in note
    until(lambda: site.is_up(first), "the first node to be back")
    assert site.head.reach(job, "running")["id"] == job
    assert len(site.witness("moved")) == 3


def test_down_does_not_wait_for_jobs_of_a_node_that_is_not_connected(hasty_site: Site):
    site = hasty_site
    agent = site.join("gone")
    until(lambda: site.is_up("gone"), "the node")
    job = site.witness_job("left")
    until(lambda: site.witness("left"), "the job to begin")
    agent.kill()
    until(lambda: not site.is_up("gone"), "the node to be away")

    began_s = time.monotonic()
    done = site.head.rota("down", "--stop-jobs")

    assert f"node gone is not connected; what runs there ends when it is back: job {job}" in (
        done.stderr
    )
    assert time.monotonic() - began_s < DOWN_S


def test_an_agent_alone_says_who_can_end_its_jobs(hasty_site: Site):
    site = hasty_site
    site.join("lonely")
    until(lambda: site.is_up("lonely"), "the node")
    folder = str(site.root / "lonely")

    refused = site.head.rota("down", "--stop-jobs", "--state-dir", folder, check=False)

    assert refused.returncode == 2
    assert "only an agent runs here, and its controller ends jobs" in refused.stderr
    assert site.is_up("lonely")


def test_a_killed_controller_touches_nothing(site: Site):
    site.join("three")
    until(lambda: site.is_up("three"), "the node")
    job = site.witness_job("stayed")
    until(lambda: site.witness("stayed"), "the job to begin")
    site.head.reach(job, "running")

    site.head.kill("controller")
    until(lambda: site.is_up("three"), "the node to be back")

    _, found = site.head.api("GET", f"/jobs/{job}")
    assert found["state"] == "running"
    assert len(site.witness("stayed")) == 1


def test_a_copy_of_an_agents_folder_is_refused_in_one_line_that_names_both(site: Site):
    first = site.join("four")
    until(lambda: site.is_up("four"), "the node")
    shutil.copytree(
        site.root / "four", site.root / "copy", ignore=shutil.ignore_patterns("*.sock", "*.lock")
    )

    second = site.join("four", folder="copy")
    refusal = until(
        lambda: next((x for x in site.log("copy").splitlines() if "is in use" in x), ""),
        "the refusal",
    )

    for agent, folder in ((first, "four"), (second, "copy")):
        assert f"{site.root / folder / 'agent'}, pid {agent.pid})" in refusal
    assert "is a copy of it" in refusal
    assert site.is_up("four")


def test_an_agent_does_not_speak_to_a_server_with_another_certificate(site: Site):
    token = site.token[:-4] + ("AAAA" if not site.token.endswith("AAAA") else "BBBB")

    site.join("five", token=token)
    said = until(
        lambda: next((x for x in site.log("five").splitlines() if "certificate" in x), ""),
        "the refusal",
    )

    assert "the certificate is not the one that the token names" in said
    assert site.node("five") == {}


def test_a_token_to_join_is_good_for_nothing_else(site: Site):
    over_network = {"ROTA_URL": site.url, "ROTA_TOKEN": site.token}

    done = site.head.rota("nodes", env=over_network, check=False)

    assert done.returncode != 0
    assert "has the role agent; this needs" in done.stderr


def test_people_use_the_same_encrypted_port_with_a_token_that_names_the_certificate(site: Site):
    token = site.head.rota("token", "create", "--quiet").stdout.strip()
    secret, _, fingerprint = token.partition(".")

    good = site.head.rota("nodes", env={"ROTA_URL": site.url, "ROTA_TOKEN": token})
    apart = {"ROTA_URL": site.url, "ROTA_TOKEN": secret, "ROTA_FINGERPRINT": fingerprint}
    split = site.head.rota("nodes", env=apart)
    bare = site.head.rota(
        "nodes", env={"ROTA_URL": site.url, "ROTA_TOKEN": secret}, check=False
    )  # fmt: skip
    plain = {"ROTA_URL": site.url.replace("https", "http"), "ROTA_TOKEN": token}
    clear = site.head.rota("nodes", env=plain, check=False)

    assert "NODE" in good.stdout
    assert good.stdout == split.stdout
    assert "use a token that names the certificate" in bare.stderr
    assert "is not encrypted: use https://" in clear.stderr
