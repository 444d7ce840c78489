"""Two ways to drive one Rota: a client generated from its document, and the Python client.

Both know the same verbs, so that one list of journeys is gone through by both.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import httpx

import rota
from rota.client.errors import Refused

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

PACKAGE = "rota_generated"


class Refusal(Exception):
    """The server said no, whichever client asked."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        super().__init__(f"{status}: {problem.get('detail')}")
        self.status = status
        self.code = problem["code"]
        self.field = problem.get("field", "")


class Driver:
    """What journeys need of a client; ``name`` keeps what both make apart."""

    name = ""

    def do(self, operation: str, body: Any = None, **given: Any) -> Any:
        """One operation of the document, by its name; parameters and headers by theirs."""
        raise NotImplementedError

    def submit(self, **request: Any) -> int:
        return int(self.do("submit", {"workdir": "/tmp", **request})["id"])

    def job(self, job: int) -> dict[str, Any]:
        return dict(self.do("show", job_id=str(job)))

    def jobs(self, **filters: Any) -> list[dict[str, Any]]:
        return list(self.do("list_jobs", **filters)["items"])

    def wait(self, job: int) -> dict[str, Any]:
        """The job once it has ended."""
        while self.do("wait", ids=str(job), timeout_s=30.0)["pending"]:
            pass
        return self.job(job)

    def logs(self, job: int, stream: str = "stdout", **wish: Any) -> str:
        return str(self.do("logs", job_id=str(job), stream=stream, **wish))

    def cancel(self, job: int) -> None:
        self.do("cancel_one", job_id=str(job))

    def hold(self, job: int) -> dict[str, Any]:
        return dict(self.do("update_one", {"action": "hold"}, job_id=str(job)))

    def release(self, job: int) -> dict[str, Any]:
        return dict(self.do("update_one", {"action": "release"}, job_id=str(job)))

    def update(self, job: int, **fields: Any) -> dict[str, Any]:
        return dict(self.do("update_one", fields, job_id=str(job)))

    def why(self, job: int) -> dict[str, Any]:
        return dict(self.do("why", job_id=str(job)))

    def plan(self, **request: Any) -> dict[str, Any]:
        return dict(self.do("plan", {"workdir": "/tmp", **request}))

    def events(self, job: int) -> list[dict[str, Any]]:
        return list(self.do("events", job_id=str(job))["items"])

    def nodes(self) -> list[dict[str, Any]]:
        return list(self.do("list_nodes")["items"])


def document_of(socket: Path) -> dict[str, Any]:
    """What the server itself says of its routes."""
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(socket)), timeout=60.0) as client:
        return dict(client.get("http://rota/openapi.json").json())


def generate(document: dict[str, Any], folder: Path) -> ModuleType:
    """A client made from a document, as anybody would make one; no warning is let pass."""
    source, config = folder / "openapi.json", folder / "config.json"
    source.write_text(json.dumps(document))
    config.write_text(json.dumps({"post_hooks": []}))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"),
            *("--path", str(source), "--config", str(config), "--fail-on-warning"),
            *("--output-path", str(folder / PACKAGE)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(PACKAGE)
    finally:
        sys.path.remove(str(folder))


class Generated(Driver):
    """By the functions and the types of the generated package."""

    name = "generated"

    def __init__(self, package: ModuleType, socket: Path) -> None:
        self._types = importlib.import_module(f"{package.__name__}.types")
        self._problem = importlib.import_module(f"{package.__name__}.models").Problem
        transport = httpx.HTTPTransport(uds=str(socket))
        self._client = package.Client(
            "http://rota", timeout=httpx.Timeout(60.0), httpx_args={"transport": transport}
        )
        api = importlib.import_module(f"{package.__name__}.api")
        self._modules = {
            found.name.rpartition(".")[2]: found.name
            for found in pkgutil.walk_packages(api.__path__, f"{api.__name__}.")
            if not found.ispkg
        }

    def do(self, operation: str, body: Any = None, **given: Any) -> Any:
        call = importlib.import_module(self._modules[operation]).sync_detailed
        known = inspect.signature(call).parameters
        given |= {} if body is None else {"body": body}
        # What Python has a name for already stands there with an underscore.
        names = {name: name if name in known else f"{name}_" for name in given}
        sent = {name: _typed(known[name], given[asked]) for asked, name in names.items()}
        answer = call(client=self._client, **sent)
        if isinstance(answer.parsed, self._problem):
            raise Refusal(int(answer.status_code), answer.parsed.to_dict())
        assert answer.status_code < 300, answer
        shown = answer.parsed
        return shown.to_dict() if hasattr(shown, "to_dict") else shown

    def close(self) -> None:
        self._client.get_httpx_client().close()


def _typed(parameter: inspect.Parameter, value: Any) -> Any:
    """A value in the type that the generated function asks for."""
    kinds = getattr(parameter.annotation, "__args__", (parameter.annotation,))
    for kind in kinds:
        if isinstance(value, dict) and hasattr(kind, "from_dict"):
            return kind.from_dict(value)
        if isinstance(value, str) and isinstance(kind, type) and issubclass(kind, str):
            return kind(value)
    return value


class Python(Driver):
    """By the verbs of ``rota.connect()``, and by its connection where it has no verb."""

    name = "python"

    def __init__(self, document: dict[str, Any], socket: Path) -> None:
        self.cluster = rota.connect(f"unix://{socket}")
        self._operations = {
            operation["operationId"]: (method.upper(), path.removeprefix("/api/v1"), operation)
            for path, operations in document["paths"].items()
            for method, operation in operations.items()
        }

    def do(self, operation: str, body: Any = None, **given: Any) -> Any:
        method, path, known = self._operations[operation]
        query: dict[str, Any] = {}
        key = ""
        for entry in known.get("parameters", ()):
            value = given.pop(entry["name"].lower().replace("-", "_"), None)
            if value is None:
                continue
            if entry["in"] == "path":
                path = path.replace(f"{{{entry['name']}}}", str(value))
            elif entry["in"] == "query":
                query[entry["name"]] = value
            else:
                assert entry["name"] == "Idempotency-Key"
                key = value
        assert not given, f"{operation} has no {given}"
        try:
            return self.cluster.client.call(method, path, body=body, parameters=query, key=key)
        except Refused as refusal:
            raise Refusal(refusal.status, refusal.problem) from None

    def submit(self, **request: Any) -> int:
        try:
            return self.cluster.launch(_built(request)).id
        except Refused as refusal:
            raise Refusal(refusal.status, refusal.problem) from None

    def job(self, job: int) -> dict[str, Any]:
        return self.cluster.status(job).record

    def jobs(self, **filters: Any) -> list[dict[str, Any]]:
        return [status.record for status in self.cluster.jobs(**filters)]

    def wait(self, job: int) -> dict[str, Any]:
        return self.cluster.wait(job, timeout=60).record

    def logs(self, job: int, stream: str = "stdout", **wish: Any) -> str:
        return "".join(self.cluster.logs(job, stream, **wish))

    def cancel(self, job: int) -> None:
        assert self.cluster.cancel(job)

    def hold(self, job: int) -> dict[str, Any]:
        return self.cluster.hold(job).record

    def release(self, job: int) -> dict[str, Any]:
        return self.cluster.release(job).record

    def update(self, job: int, **fields: Any) -> dict[str, Any]:
        return self.cluster.update(job, **fields).record

    def why(self, job: int) -> dict[str, Any]:
        return self.cluster.why(job).record

    def plan(self, **request: Any) -> dict[str, Any]:
        return self.cluster.plan(_built(request)).record

    def events(self, job: int) -> list[dict[str, Any]]:
        return self.cluster.events(job)

    def nodes(self) -> list[dict[str, Any]]:
        return [node.record for node in self.cluster.nodes()]

    def close(self) -> None:
        self.cluster.close()


def _built(request: dict[str, Any]) -> rota.Job:
    """The request by the steps of the builder."""
    fields = {"workdir": "/tmp", **request}
    asked = fields.pop("resources", {})
    job = rota.Job(fields.pop("name", "")).cpus(asked.get("cpus", 1))
    if "gpus" in asked:
        job = job.gpus(asked["gpus"], asked.get("gpu_type", ""))
    if "memory_mib" in asked:
        job = job.memory(asked["memory_mib"])
    command = fields.pop("command")
    job = job.shell(command) if isinstance(command, str) else job.command(*command)
    return job.options(**fields)
