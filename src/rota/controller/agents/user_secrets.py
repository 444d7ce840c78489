"""Secrets of users: sealed on disk and in memory; only a launch carries what is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rota.core.facts.errors import NotFound
from rota.core.facts.tenant import Secret
from rota.rpc.messages import Desired

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.controller.launches.vault import Vault
    from rota.core.cluster import Cluster
    from rota.core.facts.job import JobSpec
    from rota.rpc.messages import ControllerMessage, Launch, Wanted


class UserSecrets:
    """All secrets of all users, by user and name."""

    def __init__(self, vault: Vault) -> None:
        self.vault = vault
        self._held: dict[tuple[str, str], Secret] = {}

    def load(self, secrets: Iterable[Secret]) -> None:
        """What the store has."""
        self._held = {(secret.user, secret.name): secret for secret in secrets}

    def of(self, user: str) -> list[Secret]:
        """The secrets of a user, by name; of nobody: all of them."""
        found = sorted(self._held.items())
        return [secret for (owner, _), secret in found if user in ("", owner)]

    def get(self, user: str, name: str) -> Secret:
        found = self._held.get((user, name))
        if found is None:
            raise NotFound(
                f"there is no secret {name} of {user}; 'rota secret set {name}' makes one",
                field="secret",
                value=name,
            )
        return found

    def seal(self, user: str, name: str, value: str, now_s: float) -> Secret:
        """A new record, not yet held."""
        return Secret(user, name, self.vault.seal(value.encode()), now_s)

    def put(self, secret: Secret) -> None:
        """It is on disk."""
        self._held[secret.user, secret.name] = secret

    def drop(self, secret: Secret) -> None:
        """It is on disk no more."""
        self._held.pop((secret.user, secret.name), None)

    def filled(self, message: ControllerMessage, cluster: Cluster) -> ControllerMessage:
        """The same orders, each launch with what its job alone may see."""
        if not isinstance(message, Desired):
            return message
        attempts = tuple(self._filled(item, cluster) for item in message.attempts)
        return message if attempts == message.attempts else replace(message, attempts=attempts)

    def _filled(self, item: Wanted, cluster: Cluster) -> Wanted:
        job = cluster.jobs.get(item.launch.job) if item.launch is not None else None
        if item.launch is None or job is None:
            return item
        if not job.spec.secrets and not (self.vault.seals and job.spec.variables):
            return item
        return replace(item, launch=self._launch(item.launch, job.spec))

    def _launch(self, launch: Launch, spec: JobSpec) -> Launch:
        environment, names = dict(launch.environment), spec.secrets
        # Only what stands in the spec was sealed here: a captured value may look as if it were.
        for name, value in self.vault.open_variables(spec.variables).items():
            if environment.get(name) == spec.variables[name]:
                environment[name] = value
        for name in names:
            if (secret := self._held.get((launch.user, name))) is not None:
                environment[name] = self.vault.open(secret.sealed).decode()
        inside = tuple(dict.fromkeys((*launch.inside, *names))) if launch.image else launch.inside
        return replace(launch, environment=environment, inside=inside)
