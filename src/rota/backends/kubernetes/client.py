"""The few requests that the driver makes of an API server, each bounded in time."""

from __future__ import annotations

import logging
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import httpx2
import msgspec
from lightkube import ALL_NS, AsyncClient, operators
from lightkube.config import client_adapter
from lightkube.core.exceptions import ConfigError
from lightkube.resources.core_v1 import Node, Pod, Secret, Service
from lightkube.types import PatchType

from rota.backends.api import EngineAway, EngineError, EngineRefused, Full, Unsure
from rota.backends.kubernetes import answers
from rota.backends.kubernetes.settings import PROJECT
from rota.backends.kubernetes.streams import KubeTerminal, KubeTunnel, opened
from rota.core.facts.errors import Rejected
from rota.core.facts.states import Blame
from rota.kubeapi.words import SENSELESS, said, words

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable

    from lightkube.config.kubeconfig import SingleConfig
    from lightkube.models.meta_v1 import ObjectMeta
    from websockets.asyncio.client import ClientConnection as Socket

TIMEOUT_S = 10.0
#: A list comes in pages of this size; all of them are of one moment.
PAGE = 500
#: The server ends a watch after so long. One that is silent for longer is dead.
WATCH_S = 60
#: The name of the one container of a pod.
CONTAINER = "job"
ABSENT, CONFLICT = 404, 409
#: Of whom it does not know: a token that has expired.
UNKNOWN = 401
#: Credentials that are not accepted are read anew this often at the most.
RENEW_S = 5.0
_EXCUSE = re.compile(
    rb"(unable to retrieve container logs for |rpc error: code = |"
    rb"failed to try resolving symlinks in path )[^\n]*\Z"
)


T = TypeVar("T")
_Clients = tuple[AsyncClient, httpx2.AsyncClient]
Fields = dict[str, str | operators.BinaryOperator | operators.SequenceOperator]


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str


class _Marked(msgspec.Struct):
    metadata: _Meta


class _Status(msgspec.Struct):
    message: str = "the watch failed"


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class PodChange(NamedTuple):
    """One line of a watch. ``pod`` is None when only the version has moved on."""

    version: str
    pod: Pod | None = None
    gone: bool = False


class Api:
    """Speaks with one API server about one namespace, or about those of all projects.

    Names of pods are made of their keys, so that one is unique whatever namespace it is in.
    ``renewed`` finds the credentials anew: tokens and certificates are short-lived.
    """

    def __init__(
        self,
        config: SingleConfig,
        namespace: str,
        renewed: Callable[[], SingleConfig] | None = None,
    ) -> None:
        self._config, self._renewed = config, renewed
        #: Empty: each project has its own.
        self._shared = "" if PROJECT in namespace else namespace
        #: Where pods are, by their names, as far as they were seen.
        self._homes: dict[str, str] = {}
        self._renew_at_s = 0.0
        #: Requests may be under way by these still.
        self._former: _Clients | None = None

    async def connect(self) -> tuple[int, int]:
        """The server's version."""
        logging.getLogger("httpx2").setLevel(logging.WARNING)  # It would log every request.
        self._dial()
        told = (await self._ask(self._get("version"))).json()
        return version_of(told)

    def _dial(self) -> None:
        timeout = httpx2.Timeout(TIMEOUT_S)
        self._client = AsyncClient(self._config, namespace=self._shared or None, timeout=timeout)
        # For bytes as they are: lightkube takes a log apart into lines, and knows no bookmarks.
        params = client_adapter.ConnectionParams(timeout=timeout)
        self._raw = client_adapter.AsyncClient(self._config, params)

    async def _renew(self) -> None:
        """With the credentials as they are now; while these cannot be read, as before."""
        now_s = time.monotonic()
        if self._renewed is None or now_s < self._renew_at_s:
            return
        self._renew_at_s = now_s + RENEW_S
        with suppress(Rejected):
            self._config = self._renewed()
            former, self._former = self._former, (self._client, self._raw)
            self._dial()
            await _closed(former)

    async def close(self) -> None:
        if hasattr(self, "_raw"):
            await _closed(self._former)
            await _closed((self._client, self._raw))

    async def create(self, thing: Pod | Secret | Service) -> bool:
        """Whether it was not there before."""
        self._note(thing.metadata)
        try:
            await self._client.create(thing)
        except httpx2.HTTPStatusError as error:
            code, message = error.response.status_code, said(error)
            if code == CONFLICT and "already exists" in message:
                return False
            if code == ABSENT and not self._shared:
                raise Full(message) from None  # The namespace of a project may yet be made.
            raise _later(answers.refusal(code, message), error.response) from None
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise EngineAway(words(error)) from None
        except (httpx2.HTTPError, *SENSELESS) as error:
            raise Unsure(words(error)) from None
        except ConfigError as error:
            raise EngineAway(str(error)) from None
        return True

    async def pod(self, name: str) -> Pod | None:
        try:
            return await self._ask(self._client.get(Pod, name, namespace=await self._home(name)))
        except _Absent:
            return None

    async def _home(self, name: str) -> str:
        """The namespace of a pod and of its secret."""
        if not self._shared and name not in self._homes:
            found = self._client.list(Pod, namespace=ALL_NS, fields={"metadata.name": name})
            for pod in await self._ask(_all(found)):
                self._note(pod.metadata)
            if name not in self._homes:
                raise _Absent(f"there is no pod {name}")
        return self._shared or self._homes[name]

    def _note(self, meta: ObjectMeta | None) -> None:
        if not self._shared and meta is not None:
            self._homes[meta.name or ""] = meta.namespace or ""

    async def pods(self, labels: dict[str, str]) -> tuple[list[Pod], str]:
        """All of them, and the version from which a watch goes on."""
        where = self._shared or ALL_NS
        found = self._client.list(Pod, namespace=where, labels={**labels}, chunk_size=PAGE)
        pods = await self._ask(_all(found))
        for pod in pods:
            self._note(pod.metadata)
        return pods, found.resourceVersion

    async def machines(self, labels: dict[str, str]) -> list[Node]:
        return await self._ask(_all(self._client.list(Node, labels={**labels}, chunk_size=PAGE)))

    async def machine(self, name: str) -> Node | None:
        try:
            return await self._ask(self._client.get(Node, name))
        except _Absent:
            return None

    async def unfinished(self) -> list[Pod]:
        """Pods of all namespaces that may hold something; where that is forbidden, of ours."""
        living: Fields = {"status.phase": operators.not_in(["Succeeded", "Failed"])}
        for namespace in dict.fromkeys((ALL_NS, self._shared or ALL_NS)):
            listed = self._client.list(Pod, namespace=namespace, fields=living, chunk_size=PAGE)
            try:
                return await self._ask(_all(listed))
            except EngineRefused:
                continue
        return []

    async def change(
        self, name: str, patch: dict[str, Any], kind: type[Pod | Service] = Pod
    ) -> None:
        """A merge patch, of a pod if nothing else is said; one that is gone needs none."""
        with suppress(_Absent):
            home = await self._home(name)
            await self._ask(
                self._client.patch(kind, name, patch, namespace=home, patch_type=PatchType.MERGE)
            )

    async def delete(self, kind: type[Pod | Secret], name: str, grace_s: int | None = None) -> None:
        """Ask for its end; what is gone already is as it should be."""
        with suppress(_Absent):
            home = await self._home(name)
            await self._ask(self._client.delete(kind, name, namespace=home, grace_period=grace_s))
        if kind is Secret:  # The last that is asked of an attempt.
            self._homes.pop(name, None)

    async def log(self, name: str, most: int) -> bytes:
        """What its container has printed, as bytes; nothing: it has not begun, or is gone."""
        asked: dict[str, str | int] = {"container": CONTAINER, "limitBytes": most}
        try:
            path = f"{_path(await self._home(name))}/{name}/log"
            answer = await self._raw.get(path, params=asked)
        except _Absent:
            return b""
        except (httpx2.HTTPError, ConfigError) as error:
            raise EngineAway(words(error)) from None
        if answer.status_code in (400, ABSENT):
            return b""
        if answer.status_code in (500, 502):
            raise EngineRefused(f"the node of pod {name} does not answer", Blame.NODE)
        if answer.is_error:
            raise answers.trouble(answer.status_code, answer.text)
        return without_excuse(answer.content)

    async def follow(self, name: str, most: int) -> AsyncIterator[bytes]:
        """The same from its beginning to the end of the container."""
        asked: dict[str, str | int] = {"container": CONTAINER, "limitBytes": most, "follow": "true"}
        path = f"{_path(await self._home(name))}/{name}/log"
        patience = httpx2.Timeout(TIMEOUT_S, read=None)
        try:
            async with self._raw.stream("GET", path, params=asked, timeout=patience) as answer:
                if answer.is_success:
                    async for part in answer.aiter_raw():
                        yield part
        except (httpx2.HTTPError, ConfigError) as error:
            raise EngineAway(words(error)) from None

    async def enter(self, name: str, argv: tuple[str, ...], leave: tuple[str, ...]) -> KubeTerminal:
        """Another program in its container, on a terminal; ``leave`` ends it."""
        socket = await self._beside(name, argv, "stdin", "stdout", "tty")
        return KubeTerminal(socket, lambda: self._beside(name, leave, "stdout"))

    async def _beside(self, name: str, argv: tuple[str, ...], *streams: str) -> Socket:
        asked = [("container", CONTAINER), *(("command", word) for word in argv)]
        return await self._upgraded(name, "exec", asked + [(one, "true") for one in streams])

    async def reach(self, name: str, port: int) -> KubeTunnel:
        """A connection to a port of it."""
        return KubeTunnel(await self._upgraded(name, "portforward", [("ports", str(port))]), port)

    async def _upgraded(self, name: str, kind: str, asked: list[tuple[str, str]]) -> Socket:
        try:
            path = f"{_path(await self._home(name))}/{name}/{kind}"
            params = httpx2.QueryParams(tuple(asked))
            return await opened(self._config, self._raw.build_request("GET", path, params=params))
        except ConfigError as error:
            raise EngineAway(str(error)) from None

    async def watch(self, labels: dict[str, str], version: str) -> AsyncIterator[PodChange]:
        """What happens after this version, until the server has had enough.

        A version that is too old, or a line that is cut, raises ``EngineAway``: list again.
        """
        params: dict[str, str | int] = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "labelSelector": ",".join(f"{key}={value}" for key, value in labels.items()),
            "resourceVersion": version,
            "timeoutSeconds": WATCH_S,
        }
        silence = httpx2.Timeout(TIMEOUT_S, read=WATCH_S + TIMEOUT_S)
        try:
            path = _path(self._shared)
            async with self._raw.stream("GET", path, params=params, timeout=silence) as lines:
                if lines.status_code != 200:
                    why = f"the API server answers {lines.status_code} to a watch"
                    raise _later(EngineAway(why), lines)
                async for line in lines.aiter_lines():
                    change = change_of(line)
                    if change.pod is not None and not change.gone:
                        self._note(change.pod.metadata)
                    yield change
        except (httpx2.HTTPError, msgspec.DecodeError, ConfigError) as error:
            raise EngineAway(words(error)) from None

    async def _get(self, path: str, **params: str | int) -> httpx2.Response:
        answer = await self._raw.get(path, params=params)
        answer.raise_for_status()
        return answer

    async def _ask(self, request: Awaitable[T]) -> T:
        try:
            return await request
        except httpx2.HTTPStatusError as error:
            code = error.response.status_code
            if code == ABSENT:
                raise _Absent(str(error)) from None
            if code == UNKNOWN:
                await self._renew()
            raise _later(answers.trouble(code, said(error)), error.response) from None
        except (httpx2.HTTPError, ConfigError, *SENSELESS) as error:
            raise EngineAway(words(error)) from None


def _path(namespace: str) -> str:
    """Of pods; without a namespace: of all of them."""
    return f"api/v1/namespaces/{namespace}/pods" if namespace else "api/v1/pods"


class _Absent(EngineError):
    """There is no such object."""


def change_of(line: str) -> PodChange:
    """One line of a watch; an old version is told in such a line, too."""
    event = msgspec.json.decode(line, type=_Event)
    if event.type == "ERROR":
        raise EngineAway(msgspec.json.decode(event.object, type=_Status).message)
    version = msgspec.json.decode(event.object, type=_Marked).metadata.resource_version
    if event.type == "BOOKMARK":
        return PodChange(version)
    pod = msgspec.json.decode(event.object, type=Pod)
    return PodChange(version, pod, gone=event.type == "DELETED")


def without_excuse(body: bytes) -> bytes:
    """A kubelet that has removed a container says so at the end of its log, as if it were log."""
    return _EXCUSE.sub(b"", body)


def version_of(told: dict[str, Any]) -> tuple[int, int]:
    """Some leave out the two numbers; all have the whole of it."""
    numbers = f"{told.get('major') or ''}.{told.get('minor') or ''}"
    for text in (str(told.get("gitVersion") or ""), numbers):
        if found := re.match(r"v?(\d+)\.(\d+)", text):
            return int(found[1]), int(found[2])
    raise EngineAway("the API server does not say which version it is of")


def _later(error: EngineError, answer: httpx2.Response) -> EngineError:
    """With the server's own word on when to come back."""
    after = answer.headers.get("Retry-After", "")
    if after.isdecimal():
        error.after_s = float(after)
    return error


async def _closed(clients: _Clients | None) -> None:
    if clients is not None:
        await clients[0].close()
        await clients[1].aclose()


async def _all(listed: AsyncIterable[T]) -> list[T]:
    return [item async for item in listed]
