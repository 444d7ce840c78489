"""From a launch to the keeper's order: script and input on disk, output paths, cgroup."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from rota.agent.attempts.accounts import JobUsers, LaunchFailed
from rota.agent.attempts.gangs import RESIZED, WORLD, PortTaken, prepare, retell
from rota.agent.attempts.node_variables import NodeVariables, NoPort
from rota.agent.files.bundles import NodeBundles
from rota.agent.files.checkpoints import FolderFailed, check_root, make_folder
from rota.agent.files.reports import VARIABLE, ReportFolders
from rota.agent.files.spare_folders import SpareFolders
from rota.agent.machine.containers import CannotContain, contain
from rota.keeper.failures import NODE
from rota.keeper.processes import UID_VARIABLE
from rota.session.instructions import Forget, GiveUp, Gone, Keep, Seek, Signal, Spawn, Tell

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rota.agent.machine.cgroups import Cgroups
    from rota.rpc.messages import Launch, Saved
    from rota.session.instructions import Began, Instruction, KeeperCommand

log = logging.getLogger("rota.agent")
_encode = msgspec.json.Encoder().encode


#: The socket of an attempt's terminal is beside its script.
TERMINAL = ".tty"
#: The keeper is told this much later, or along with something else, what it may forget.
FORGET_S = 0.05
#: The most empty groups that are left for a quiet moment.
GROUPS_MAX = 32
#: How the names of an attempt's files end, behind its uid.
ENDINGS = ("", ".in", ".new", ".in.new", TERMINAL, WORLD, WORLD + ".new")


def _uid_of(name: str) -> str:
    """Whose file it is."""
    for ending in ENDINGS[:0:-1]:
        name = name.removesuffix(ending)
    return name


def terminal_path(scripts: str, uid: str) -> str:
    return f"{scripts}/{uid}{TERMINAL}"


class Launcher:
    """Turns commands into lines for the keeper, and keeps the files that go with them."""

    def __init__(
        self, folder: Path, cgroups: Cgroups | None = None, variables: NodeVariables | None = None
    ) -> None:
        self._logs = str(folder / "logs")
        self._scripts = str(folder / "scripts")
        self._cgroups = cgroups
        self.variables = variables or NodeVariables()
        self.bundles = NodeBundles(folder)
        self.accounts = JobUsers()
        self._reports = ReportFolders(folder)
        #: Told of an attempt whose working folder is to be removed.
        self.on_gone: Callable[[str], None] = self.bundles.remove
        #: Attempts with a working folder of their own to remove.
        self._with_bundle = self.bundles.left_over()
        #: Attempts with files to remove; after a restart a look into the folder decides.
        os.makedirs(self._logs, mode=0o711, exist_ok=True)
        os.makedirs(self._scripts, mode=0o711, exist_ok=True)
        #: Why the keeper can start nothing; empty: it can.
        self.held = ""
        #: Ended attempts whose saved work was copied.
        self.copied: set[str] = set()
        #: Folders for saved work that go with their attempt when nothing was saved.
        self._folders: dict[str, str] = {}
        self._spares = SpareFolders()
        #: Attempts that the keeper may forget, and when it shall be told.
        self._over: list[str] = []
        self.due_s: float | None = None
        #: What may take its time, and is not waited for.
        self.in_thread: Callable[[Callable[[], None]], object] = lambda work: work()
        self._with_files = {_uid_of(name) for name in os.listdir(self._scripts)}

    def lines(
        self, instructions: list[Instruction], now_s: float
    ) -> tuple[list[bytes], list[Began | Gone]]:
        """What the keeper is told, and the ends of attempts that it cannot be told of.

        Starts come before everything else: a job waits for its start.
        """
        starts: list[bytes] = []
        others: list[bytes] = []
        failed: list[Began | Gone] = []
        for instruction in instructions:
            if isinstance(instruction, Spawn):
                line = self._start(instruction, now_s)
                starts.append(line) if isinstance(line, bytes) else failed.append(line)
            elif isinstance(instruction, Seek) and self.held:
                failed.append(Gone(instruction.uid, 0.0, now_s, error=self.held, lost=True))
            elif isinstance(instruction, Seek | GiveUp | Signal):
                others.append(self.line(instruction))
            elif isinstance(instruction, Forget):
                self._over += instruction.uids
                self.due_s = self.due_s or now_s + FORGET_S
            elif isinstance(instruction, Tell):
                others += self._retell(instruction)
        busy = bool(starts or others)
        if self.due_s is not None and (busy or now_s >= self.due_s):
            others += self.farewell()
            if self._cgroups is not None and (not busy or len(self._cgroups.left) >= GROUPS_MAX):
                self.in_thread(self._cgroups.tidy)
        return starts + others, failed

    def _start(self, spawn: Spawn, now_s: float) -> bytes | Gone:
        """The order for the keeper, or why there can be none."""
        try:
            return self.line(spawn)
        except LaunchFailed as error:
            return Gone(spawn.uid, 0.0, now_s, error=str(error), fault=error.fault)
        except Exception as error:
            log.exception("attempt %s", spawn.uid)
            reason = f"cannot be started: {type(error).__name__}: {error}"
            return Gone(spawn.uid, 0.0, now_s, error=reason[:500])

    def farewell(self) -> list[bytes]:
        """What the keeper may forget."""
        over, self._over, self.due_s = tuple(self._over), [], None
        return [self.line(Forget(over))] if over else []

    def line(self, command: KeeperCommand) -> bytes:
        """One command as the keeper reads it."""
        if isinstance(command, Spawn):
            return self._spawn(command)
        if isinstance(command, Signal):
            order = {"op": "signal", "uid": command.uid, "signal": command.signal}
            return _encode(order | {"note": command.note, "asks": command.asks})
        if isinstance(command, GiveUp):
            return _encode({"op": "give_up", "uid": command.uid})
        if isinstance(command, Seek):
            group = self._cgroups.path(command.uid) if self._cgroups is not None else None
            order = {"op": "seek", "uid": command.uid, "cgroup": group}
            return _encode(order | {"keep": command.keep})
        self._clean(command)
        return _encode({"op": "forget", "uids": command.uids})

    def _spawn(self, command: Spawn) -> bytes:
        launch = command.launch
        uid = command.uid
        if self.held:
            raise LaunchFailed(self.held, NODE)
        if not uid.replace("-", "").replace("_", "").replace(".", "").isalnum():
            raise LaunchFailed(f"uid {uid!r}: letters, digits, -, _ and . only")
        workdir, environment = launch.workdir, launch.environment
        if launch.bundle:
            self._with_bundle.add(uid)
            workdir = self.bundles.folder_of(uid)
            environment = environment | {"ROTA_BUNDLE_DIR": workdir}
        if launch.checkpoint is not None and self._make_folder(launch):
            environment = environment | {"ROTA_RESUME": "1"}
        try:
            extra = self._found_here(launch)
            environment = environment | extra
            argv = launch.argv
            if launch.script:
                argv = self._store_script(uid, launch.script, launch.user, argv)
            stdin = self._store_input(uid, launch.stdin) if launch.stdin else None
            if launch.image:
                inside = (*launch.inside, *extra)
                launch = msgspec.structs.replace(launch, environment=environment, inside=inside)
                argv, environment = self._contain(launch, argv, workdir)
            cgroup = self._group(launch)
        except OSError as error:
            raise LaunchFailed(f"{error.filename}: {error.strerror}") from None
        except (PortTaken, NoPort) as error:
            raise LaunchFailed(str(error)) from None
        return _encode(
            {
                "op": "spawn",
                "uid": uid,
                "argv": argv,
                "env": _environment(environment),
                "cwd": workdir,
                "elsewhere": launch.elsewhere,
                "stdin": stdin,
                "stdout": self.output_path(uid, "out", launch.stdout, launch.workdir),
                "stderr": self.output_path(uid, "err", launch.stderr, launch.workdir),
                "outputs": launch.outputs,
                "umask": launch.umask,
                "user": launch.user or None,
                "cpus": launch.cpus,
                "ulimits": launch.ulimits,
                "cgroup": cgroup,
                "terminal": self._terminal(uid) if launch.terminal else None,
                "keep": Keep(
                    launch.grace_s,
                    launch.memory_mib,
                    copied_work(launch),
                    self.variables.ports_of(uid),
                    launch.health,
                    launch.devices,
                    launch.user or None,
                ),
            }
        )

    def _group(self, launch: Launch) -> str | None:
        """Where its processes are held to what it was given; None: nowhere."""
        if self._cgroups is None:
            return None
        return self._cgroups.make(
            launch.uid,
            memory_mib=launch.memory_mib,
            cpu_milli=0 if launch.cpus else launch.cpu_milli,
            cpus=launch.cpus,
            devices=launch.devices,
        )

    def _make_folder(self, launch: Launch) -> bool:
        """Whether an earlier try left something there.

        A job that has nothing to go on from starts without the folder: it may not need it.
        """
        saved = launch.checkpoint
        assert saved is not None
        resumes = launch.environment.get("ROTA_RESUME") == "1"
        try:
            owner = self.accounts.owner_of(launch.user)
            check_root(os.path.dirname(saved.folder))
            fresh = self._spares.take(saved.folder, owner)
            found = not fresh and make_folder(saved.folder, owner)
        except FolderFailed as error:
            if resumes:
                raise LaunchFailed(str(error), error.fault) from None
            log.warning("attempt %s: %s", launch.uid, error)
            return False
        # Members on other nodes may save there, too, where the folder is a shared one.
        one = (launch.environment.get(name) for name in ("ROTA_NUM_TASKS", "SLURM_JOB_NUM_NODES"))
        if "1" in one:
            self._folders[launch.uid] = saved.folder
        return found and saved.attempt > 1

    def on_ended(self, uid: str) -> None:
        """Before its end is told: a later try may make the folder again, on another node."""
        folder = self._folders.pop(uid, None)
        if folder is not None and folder not in self._folders.values():
            self._spares.keep_if_empty(folder)

    def _contain(
        self, launch: Launch, argv: tuple[str, ...], workdir: str
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        mounts = [launch.checkpoint.folder] if launch.checkpoint is not None else []
        if launch.script:
            mounts.append(f"{self._scripts}/{launch.uid}")
        if launch.world:
            mounts.append(f"{self._scripts}/{launch.uid}{WORLD}")
        if VARIABLE in launch.inside:
            mounts.append(os.path.dirname(launch.environment[VARIABLE]))
        try:
            command = contain(launch, argv, workdir, mounts, bounded=self._cgroups is not None)
        except CannotContain as error:
            raise LaunchFailed(str(error)) from None
        return command.argv, command.environment

    def _found_here(self, launch: Launch) -> dict[str, str]:
        """Variables that only its node knows."""
        found = {**self.variables.of(launch), **self._meet(launch)}
        # A job that has no place for its progress runs all the same.
        with suppress(LaunchFailed):
            owner = self.accounts.owner_of(launch.user)
            found |= self._reports.variables(launch.user, owner, launch.uid)
        return found

    def _meet(self, launch: Launch) -> dict[str, str]:
        """What a member of a gang finds here beside what the controller knows."""
        if "ROTA_NODE_ADDRESS" not in launch.environment:
            return {}
        self._with_files.add(launch.uid)
        return prepare(self._scripts, launch)

    def _retell(self, command: Tell) -> list[bytes]:
        """A gang learns of its new world, and hears of it if it knew another one."""
        self._with_files.add(command.uid)
        try:
            news = retell(self._scripts, command.uid, command.world)
        except OSError as error:
            log.warning("attempt %s: %s: %s", command.uid, error.filename, error.strerror)
            return []
        return [self.line(Signal(command.uid, RESIZED))] if news else []

    def _terminal(self, uid: str) -> str:
        """Where the keeper will listen for visitors that attach."""
        self._with_files.add(uid)
        return terminal_path(self._scripts, uid)

    def output_path(self, uid: str, ending: str, asked: str, workdir: str) -> str:
        """Where the output goes: the path that was asked for, or our own folder."""
        return os.path.join(workdir, asked) if asked else f"{self._logs}/{uid}.{ending}"

    def _store_script(
        self, uid: str, script: bytes, user: str, argv: tuple[str, ...]
    ) -> tuple[str, ...]:
        path = f"{self._scripts}/{uid}"
        self._write(uid, path, script, 0o700)
        if (owner := self.accounts.owner_of(user)) is not None:
            os.chown(path, *owner)
        # Without a first line that names an interpreter the kernel would not know what to do.
        return (path, *argv) if script.startswith(b"#!") else ("/bin/sh", path, *argv)

    def _store_input(self, uid: str, body: bytes) -> str:
        path = f"{self._scripts}/{uid}.in"
        self._write(uid, path, body, 0o600)
        return path

    def _write(self, uid: str, path: str, body: bytes, mode: int) -> None:
        self._with_files.add(uid)
        fresh = path + ".new"
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        with open(fd, "wb") as file:
            file.write(body)
        os.rename(fresh, path)

    def _clean(self, command: Forget) -> None:
        """Scripts and inputs go with their attempt; output stays and can be read."""
        self.copied.difference_update(command.uids)
        for uid in command.uids:
            self.variables.forget(uid)
            if uid in self._with_files:
                self._with_files.discard(uid)
                for ending in ENDINGS:
                    path = f"{self._scripts}/{uid}{ending}"
                    if os.path.exists(path):
                        os.unlink(path)
            if uid in self._with_bundle:
                self._with_bundle.discard(uid)
                self.on_gone(uid)
        if self._cgroups is not None:
            self._cgroups.left.update(command.uids)


def copied_work(launch: Launch) -> Saved | None:
    """The saved work of an attempt, if it is to be copied when the attempt has ended."""
    saved = launch.checkpoint
    return saved if saved is not None and saved.store and saved.copies else None


def _environment(variables: dict[str, str]) -> list[str]:
    """As a program gets it, without names that no program could read. The keeper adds the uid."""
    return [
        f"{name}={value}"
        for name, value in variables.items()
        if name and "=" not in name and name != UID_VARIABLE
    ]
