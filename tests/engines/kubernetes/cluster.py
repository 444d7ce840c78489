"""A real Kubernetes for tests: started, asked and stopped."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from tests.journeys.box import until
from tests.support.machine import REPOSITORY

NAMESPACE = "rota-jobs"
ACCOUNT = "rota-engine"
IMAGE = "rota.test/busybox:1"
START_S = 280.0


def manifest_of_docs() -> str:
    page = (REPOSITORY / "docs" / "engines.md").read_text()
    manifest = re.search(r"```yaml\n(apiVersion: v1\nkind: Namespace.*?)```", page, re.DOTALL)
    assert manifest is not None
    return manifest[1]


class Kube:
    """The cluster, as its admin sees it. ``config`` has the rights of docs/engines.md.

    Paths of sockets are short, so its folder has to be.
    """

    def __init__(self, up: Path, folder: Path, *options: str) -> None:
        self._up, self._options = up, options
        self.state = folder / "k"
        self.config = folder / "rota.kubeconfig"

    def start(self) -> None:
        """Start it, or what has died of it."""
        self.state.mkdir(exist_ok=True)
        started = subprocess.run(
            [self._up, *self._options, self.state],
            cwd=self.state,  # A server that dies leaves its core there.
            text=True,
            capture_output=True,
            timeout=START_S,
            check=False,
        )
        assert not started.returncode, started.stderr[-300:]
        env = dict(re.findall(r"^export (\w+)=(.*)$", started.stdout, re.MULTILINE))
        self._env = {**os.environ, **env}
        self._kubectl = f"{env['KUBE_BIN']}/kubectl"
        self.url, self.ca = env["KUBE_URL"], Path(env["KUBE_CA"])
        if not self.config.exists():
            self._give_rights()

    def stop(self) -> None:
        down = [self._up.with_name("kube-down"), "--purge", self.state]
        subprocess.run(down, capture_output=True, timeout=60, check=False)

    def ctl(self, *args: str, stdin: str = "", check: bool = True) -> str:
        done = subprocess.run(
            [self._kubectl, *args],
            env=self._env,
            input=stdin,
            text=True,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert not (check and done.returncode), done.stderr
        return done.stdout

    def refusal(self, *args: str, stdin: str = "") -> str:
        """What kubectl says when it is refused; nothing when it is not."""
        words = [self._kubectl, *args]
        done = subprocess.run(
            words,
            env=self._env,
            input=stdin,
            text=True,
            capture_output=True,
            timeout=60,
            check=False,
        )
        return done.stderr if done.returncode else ""

    @property
    def admin(self) -> str:
        """A kubeconfig with all rights."""
        return self._env["KUBECONFIG"]

    def used(self, namespace: str, quota: str) -> dict[str, str]:
        words = ("-n", namespace, "get", "resourcequota", quota, "-o", "json")
        return dict(json.loads(self.ctl(*words))["status"]["used"])

    def show(self, *args: str) -> Any:
        return json.loads(self.ctl("-n", NAMESPACE, "get", *args, "-o", "json"))

    def _give_rights(self) -> None:
        """Those of the docs, and nothing else, to the account that the driver uses."""
        self.ctl("apply", "-f", "-", stdin=manifest_of_docs())
        self.config.write_text(self.kubeconfig(until(self._token, "a token of the account")))

    def kubeconfig(self, token: str) -> str:
        """For the account, with a token of it as its secret has it."""
        user = {"token": base64.b64decode(token).decode()}
        cluster = {"server": self._env["KUBE_URL"], "certificate-authority": self._env["KUBE_CA"]}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": ACCOUNT}}],
            "clusters": [{"name": "k", "cluster": cluster}],
            "users": [{"name": ACCOUNT, "user": user}],
        }
        return json.dumps(config)

    def _token(self) -> str:
        for secret in self.show("secrets")["items"]:
            notes = secret["metadata"].get("annotations", {})
            if notes.get("kubernetes.io/service-account.name") == ACCOUNT:
                return str(secret.get("data", {}).get("token", ""))
        return ""

    def another_token(self, name: str) -> str:
        """Good until the secret of this name is deleted."""
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/service-account-token",
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "annotations": {"kubernetes.io/service-account.name": ACCOUNT},
            },
        }
        self.ctl("apply", "-f", "-", stdin=json.dumps(secret))
        shown = lambda: self.show("secret", name).get("data", {}).get("token", "")  # noqa: E731
        return str(until(shown, "the token"))

    def revoke(self, name: str) -> None:
        self.ctl("-n", NAMESPACE, "delete", "secret", name, "--ignore-not-found")

    def quota(self, **hard: str) -> None:
        limits = {name.replace("_", "."): amount for name, amount in hard.items()}
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "small", "namespace": NAMESPACE},
            "spec": {"hard": limits},
        }
        self.ctl("apply", "-f", "-", stdin=json.dumps(quota))
        until(lambda: self.show("resourcequota", "small")["status"].get("hard") == limits, "it")

    def no_quota(self) -> None:
        self.ctl("-n", NAMESPACE, "delete", "resourcequota", "small", "--ignore-not-found")
