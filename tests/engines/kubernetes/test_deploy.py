"""Rota itself on Kubernetes: its manifests on a real API server, and its rights at work."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.engines.kubernetes.cluster import IMAGE, manifest_of_docs
from tests.journeys.box import until
from tests.support.machine import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

    from tests.engines.kubernetes.cluster import Kube

DEPLOY = REPOSITORY / "deploy" / "kubernetes"
#: What needs a storage class, nodes or images of a registry is not made for real.
RIGHTS = DEPLOY / "base" / "rights.yaml"


def objects(kube: Kube, *source: str, stdin: str = "") -> list[Any]:
    """What the manifests say, as kubectl understands it."""
    told = kube.ctl("create", "--dry-run=client", "-o", "json", *source, stdin=stdin)
    decoder, found = json.JSONDecoder(), []
    while told := told.strip():
        one, end = decoder.raw_decode(told)
        found += one["items"] if one["kind"] == "List" else [one]
        told = told[end:]
    return found


def rules(manifest: list[Any]) -> dict[str, Any]:
    return {one["kind"]: one["rules"] for one in manifest if one["kind"].endswith("Role")}


@pytest.fixture
def granted(kube: Kube) -> None:
    """The namespaces and the rights are there, and stay: a namespace takes its time to go."""
    kube.ctl("apply", "-f", str(RIGHTS))


@pytest.mark.parametrize("overlay", ["base", "postgres"])
def test_the_api_server_accepts_every_object(kube: Kube, granted: None, overlay: str):
    accepted = kube.ctl("apply", "-k", str(DEPLOY / overlay), "--dry-run=server", "-o", "name")

    kinds = [line.partition("/")[0].partition(".")[0] for line in accepted.split()]
    stateful = 2 if overlay == "postgres" else 1
    assert kinds.count("statefulset") == kinds.count("service") == stateful
    assert kinds.count("secret") == (2 if overlay == "postgres" else 0)
    assert {"namespace", "serviceaccount", "role", "rolebinding", "configmap"} <= set(kinds)


def test_the_rights_are_those_of_the_docs(kube: Kube):
    deployed = objects(kube, "-f", str(RIGHTS))

    assert rules(deployed) == rules(objects(kube, "-f", "-", stdin=manifest_of_docs()))
    account = {"kind": "ServiceAccount", "name": "rota", "namespace": "rota"}
    bound = [one["subjects"] for one in deployed if one["kind"].endswith("Binding")]
    assert bound == [[account], [account]]


#: In a mount namespace of its own: the folder where every pod finds its account is made up.
INSIDE = """
set -e
mount -t tmpfs none /run
mkdir -p /run/secrets/kubernetes.io/serviceaccount
cp "$1"/* /run/secrets/kubernetes.io/serviceaccount
shift
exec "$@"
"""
#: Everything but the image is as the manifests say.
PROGRAM = """
import asyncio, sys
from rota.backends.api import EnginePhase
from rota.backends.orders import AttemptOrder, Key
from rota.backends.registry import make
from rota.config import parse
from rota.rpc.messages import Launch

async def main(text, image):
    table = parse(text, "rota.toml", {}).engines["here"]
    _, driver = make("here", {**table, "image": image})
    driver.cluster = "incluster"
    await driver.open()
    nodes = [node.spec.name for node in await driver.nodes()]
    launch = Launch("u.1", 1, "", ("sh", "-c", "exit 3"), "/", {"PATH": "/bin"}, cpu_milli=100)
    await driver.submit(AttemptOrder(key=Key("incluster", "u.1"), launch=launch, node=nodes[0]))
    while True:
        job, = await driver.jobs()
        if job.phase is EnginePhase.ENDED:
            break
        await driver.changes()
    await driver.forget(job)
    print(len(nodes), job.code)
    await driver.close()

asyncio.run(main(open(sys.argv[1]).read(), sys.argv[2]))
"""


@pytest.mark.root
def test_in_a_pod_the_engine_works_with_the_account_of_the_manifests(
    kube: Kube, granted: None, tmp_path: Path
):
    token = until(lambda: token_of(kube), "a token of the account")
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text(token)
    (account / "namespace").write_text("rota")
    (account / "ca.crt").write_bytes(kube.ca.read_bytes())
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    server = urlsplit(kube.url)
    env = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY / "src"),
        "KUBERNETES_SERVICE_HOST": str(server.hostname),
        "KUBERNETES_SERVICE_PORT": str(server.port),
    }
    program = [sys.executable, str(tmp_path / "program.py"), str(DEPLOY / "base" / "rota.toml")]

    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", INSIDE, "sh", str(account), *program, IMAGE],
        env=env,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )

    assert (done.stdout, done.returncode) == ("3 3\n", 0), done.stderr


def token_of(kube: Kube) -> str:
    secrets = json.loads(kube.ctl("-n", "rota", "get", "secrets", "-o", "json"))["items"]
    for secret in secrets:
        notes = secret["metadata"].get("annotations", {})
        if notes.get("kubernetes.io/service-account.name") == "rota":
            return base64.b64decode(secret.get("data", {}).get("token", "")).decode()
    return ""
