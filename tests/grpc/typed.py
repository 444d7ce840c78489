"""A typed client of a running server, and what it is refused with."""

from __future__ import annotations

import time
from typing import Any

import grpc

from rota.rpc import cluster_pb2 as pb
from rota.rpc.cluster_pb2_grpc import ClusterServiceStub

#: Guards against hanging only.
WAIT_S = 60.0


class Typed:
    """Calls by name, as whoever the token says: ``ann("ListJobs", limit=5)``."""

    def __init__(self, address: str, token: str = "") -> None:
        self.channel = grpc.insecure_channel(address)
        self.stub: Any = ClusterServiceStub(self.channel)
        self.metadata = [("authorization", f"Bearer {token}")] if token else []

    def __call__(self, name: str, request: Any = None, /, **fields: Any) -> Any:
        method = pb.DESCRIPTOR.services_by_name["ClusterService"].methods_by_name[name]
        if request is None:
            request = getattr(pb, method.input_type.name)(**fields)
        return getattr(self.stub, name)(request, timeout=WAIT_S, metadata=self.metadata)

    def launch(self, *command: str, **fields: Any) -> str:
        return str(self("LaunchJob", command=command or ("true",), **fields).job_id)

    def status(self, job_id: str) -> Any:
        return self("GetJobStatus", job_id=job_id)

    def until(self, job_id: str, *states: int) -> Any:
        """The job once it is in one of the states."""
        deadline_s = time.monotonic() + WAIT_S
        while (status := self.status(job_id)).state not in states:
            assert time.monotonic() < deadline_s, f"job {job_id} is still {status}"
            time.sleep(0.002)
        return status

    def close(self) -> None:
        self.channel.close()


def refusal(call: Any, *arguments: Any, **fields: Any) -> tuple[grpc.StatusCode, str]:
    """The code and the one line that a call is refused with."""
    try:
        answer = call(*arguments, **fields)
        found = list(answer) if hasattr(answer, "__next__") else answer
    except grpc.RpcError as error:
        text = str(error.details())
        assert text
        assert "\n" not in text
        assert "Traceback" not in text
        return error.code(), text
    raise AssertionError(f"it was taken: {found}")
