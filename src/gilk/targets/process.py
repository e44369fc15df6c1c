# SPDX-License-Identifier: LGPL-2.1-or-later
"""A live process, as the client sees it: its images, and the keeper that does what is asked."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from gilk.analysis.analysis import Analysis
from gilk.errors import TargetError
from gilk.image.model import ElfSymbol, Image
from gilk.splice.allocator import Occupied
from gilk.targets import learnt, seccomp, wire
from gilk.targets.alive import is_alive
from gilk.targets.base import Loaded
from gilk.targets.copies import Copy, Units, as_executed
from gilk.targets.exchanged import exchanged
from gilk.targets.files import Files
from gilk.targets.image import analyse
from gilk.targets.inner_threads import gone_of, threads_of
from gilk.targets.keepers import spawned
from gilk.targets.launch import ProcessEnd
from gilk.targets.maps import Mapping, heap_start, occupied, read_maps
from gilk.targets.meeting import Meeting
from gilk.targets.namespaces import own_number
from gilk.targets.requests import Requests
from gilk.targets.running import Sample
from gilk.targets.semaphores import Raised, Semaphore
from gilk.targets.spawning import Spawned
from gilk.targets.status import status_of
from gilk.targets.threads import Gone, Threads

_T = TypeVar("_T")
_PATIENCE = 120.0  # seconds for an answer; the keeper's own waits are shorter
_LOOKS = 5  # at mappings that others may be changing
_FAREWELL = 30.0  # seconds in which a keeper has undone all; one that has not goes on by itself
_AS_LONG_AS_IT_TAKES = frozenset(("launch", "run_until_linked", "run_to", "wait"))  # the program itself is awaited


class KeeperClient(Requests):
    """Requests to the keeper's process, ``pid``; each raises what the keeper raised. ``is_shared``: others may have a
    part in its process, too."""

    is_shared = False

    def __init__(self, launches: bool = False, made: Spawned | None = None) -> None:
        """``launches``: it is to launch a program. ``made``: one that answers for other processes, too."""
        super().__init__()
        self._of_many = made is not None
        made = made or spawned(launches)
        self.pid, self._reap, self._channel, self._ended = made.pid, made.reap, made.channel, made.ended
        self._channel.settimeout(_PATIENCE)  # also what is sent is taken, or it has gone

    def ask(self, name: str, *arguments: Any, fds: tuple[int, ...] = ()) -> Any:
        """Where an answer is not waited for (Ctrl-C), that is the end: the keeper undoes everything, and goes."""
        if self._channel.fileno() < 0:
            raise TargetError("keeper-gone", "the session with this process has been closed")
        try:
            wire.send(self._channel, (name, arguments), fds)
            self._await(name)
            (good, value), self.received = wire.receive(self._channel)
        except wire.ChannelClosed:
            raise TargetError("keeper-gone", "the process that holds the target has gone") from None
        except TimeoutError:
            raise self._ended_by_us() from None
        except BaseException:
            self._channel.close()  # what is asked next would be given this answer
            raise
        if not good:
            raise value
        return value

    def _await(self, name: str) -> None:
        """An answer; but for what waits for the program itself, it does not take long. Raises TimeoutError."""
        if not wire.readable(self._channel.fileno(), None if name in _AS_LONG_AS_IT_TAKES else _PATIENCE):
            raise TimeoutError

    def _ended_by_us(self) -> TargetError:
        """The threads that it holds go on without it."""
        self._channel.close()
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._ended, signal.SIGKILL)
        return TargetError(
            "keeper-gone",
            f"the process that holds the target did not answer within {_PATIENCE:.0f} s, and was ended",
            "gilk restore puts its code right",
        )

    def follow(self, line: int) -> None:
        """Have the keeper follow what the process begins, and tell of it on this line (tree_client.py)."""
        super().follow(line)
        self._of_many = True

    def leave(self) -> None:
        """Let the keeper go; it undoes what is left, and has gone then, unless it answers for other processes, too."""
        if self._of_many and self._channel.fileno() >= 0:
            self._part()
            self.hand_over()
        else:
            self.hand_over(lambda: wire.readable(self._ended, _FAREWELL))  # whosever child it is
        self._reap()

    def _part(self) -> None:
        """All is undone in our process when the keeper closes its end."""
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)
            wire.readable(self._channel.fileno(), _FAREWELL)

    @property
    def there(self) -> bool:
        """It has not gone, as far as can be seen."""
        return self._ended >= 0 and not wire.readable(self._ended, 0)

    @property
    def files(self) -> tuple[int, ...]:
        """The descriptors that a fork of this process needs to be the client in its place."""
        return self._channel.fileno(), self._ended

    def hand_over(self, then: Callable[[], object] = lambda: None) -> None:
        """A fork of this process is the client from now on."""
        self._channel.close()
        if self._ended >= 0:
            then()
            os.close(self._ended)
            self._ended = -1

    def reap(self) -> None:
        """Once it has been let go by the client that has taken our place."""
        self._reap()


class Process:
    """Made by attach() or launch(). Use as a context manager, or call close()."""

    def __init__(self, keeper: KeeperClient, pid: int, launched: bool) -> None:
        self.keeper = keeper
        self.pid = pid
        self.launched = launched
        self.files = Files(pid)
        self._analyses: dict[Path, Analysis] = {}
        self._held = launched
        self._program = _pidfd(pid) if launched else -1  # for it, and for no other that gets its number afterwards
        self._copies: tuple[Copy, ...] = ()
        self.meeting = Meeting()  # who lets others have a part in its session replaces it

    def __enter__(self) -> Process:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        except TargetError as error:
            if kind is None or error.slug not in ("keeper-gone", "no-such-process"):
                raise

    @property
    def who(self) -> str:
        return f"process {self.pid}"

    @property
    def own_number(self) -> int:
        """By which its threads know the process themselves (pid_namespaces(7))."""
        return own_number(self.pid)

    @property
    def threads(self) -> Threads:
        return threads_of(self.pid)

    def caught(self) -> int:
        """The signals that it has handlers for, bit n-1 for signal n (SigCgt of proc(5)); 0 once it has gone."""
        with contextlib.suppress(OSError):
            return int(self.status().get(b"SigCgt", b"0"), 16)
        return 0

    @property
    def gone(self) -> Gone:
        return gone_of(self.pid)

    def status(self) -> dict[bytes, bytes]:
        return status_of(self.pid)

    def root(self) -> bytes:
        return os.fsencode(os.readlink(f"/proc/{self.pid}/root"))

    def may_be_killed(self) -> bool:
        return seccomp.may_kill(self.pid)

    def exported(self, path: Path, name: str) -> ElfSymbol | None:
        """The symbol of that name that other images find in this one; None without one. Raises ImageError."""
        return self.files.exported(path, name)

    def mentions(self, path: Path, names: frozenset[str]) -> bool:
        """Whether an image has symbols of these names, of its own or asked of others. Raises ImageError."""
        return self.files.mentions(path, names)

    @property
    def alive(self) -> bool:
        return is_alive(self.pid)

    def maps(self) -> tuple[Mapping, ...]:
        """As they would be if no code were exchanged for a copy; another of us may do that while we look."""
        if self._copies:
            return as_executed(read_maps(self.pid), self._copies)
        maps = _settled(self.pid)
        return as_executed(maps, tuple(exchanged(maps, self.files.extents)))

    def copy_code(self, units: Units) -> int:
        """Have copies of the code ready in which these units are in force; in how many mappings that is worth it."""
        self._copies = self.keeper.copy_code(units)
        return len(self._copies)

    def occupied(self) -> Occupied:
        """Where nothing may be mapped: what there is, and what heap and stack must keep to grow."""
        return occupied(read_maps(self.pid), heap=heap_start(self.pid))

    @property
    def unstarted(self) -> bool:
        """A launched program of which nothing has run yet."""
        return self._held

    def release(self) -> None:
        """Let a launched program run."""
        if self._held:
            self.keeper.release()
            self._held = False

    def kill_unstarted(self) -> None:
        """End a launched program of which nothing has run yet."""
        if self._held:
            self._held = False
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def raise_semaphores(self, counters: list[Semaphore]) -> list[Raised]:
        """Have these say, until the end, that somebody listens; those that do."""
        return self.keeper.raise_semaphores(counters)

    def sample(self, stack: int = 0) -> list[Sample]:
        """Where the threads are that run just now, and ``stack`` bytes of the stack of each; they stand still only
        to tell. Raises TargetError."""
        return self.keeper.sample(stack)

    def wait(self, block: bool = False) -> ProcessEnd | None:
        return self.keeper.wait(block)

    def close(self, kill: bool = False) -> bool:
        """Undo everything and let go; whether all code is what it was. ``kill``: a launched program ends with it."""
        try:
            restored = self.keeper.close()
        finally:
            self.keeper.leave()
            self._end_launched(kill)
            self.meeting.close()
            self.files.close()
        return restored

    def _end_launched(self, kill: bool) -> None:
        if self._program >= 0:
            with contextlib.suppress(OSError):  # it has ended, or has become somebody else's
                if kill:
                    signal.pidfd_send_signal(self._program, signal.SIGKILL)
            os.close(self._program)
            self._program = -1

    def loaded(self) -> tuple[Loaded, ...]:
        """The images mapped now, main program first. Files that are not ELF are left out."""
        return self.files.loaded(self.maps())

    def analysis(self, loaded: Loaded) -> Analysis:
        """Analysis of a loaded image; what was learnt of it before comes from the cache."""
        known, image = self._analyses.get(loaded.path), self.image(loaded.path)
        if known is None or known.image is not image:  # another file may lie there by now
            known = self._analyses[loaded.path] = analyse(image)
        return known

    def keep_learnt(self) -> None:
        """Keep the findings of analyses for sessions to come."""
        for analysis in self._analyses.values():
            learnt.store(analysis)

    def image(self, path: Path) -> Image:
        """Raises ImageError."""
        return self.files.image(path)


def _pidfd(pid: int) -> int:
    """A descriptor that means this process for ever (pidfd_open(2)); -1 when it has gone, or none can be had."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1


def _settled(pid: int) -> tuple[Mapping, ...]:
    """All mappings; where there are sessions, which may exchange code meanwhile, they were the same twice."""
    maps = read_maps(pid)
    for _ in range(_LOOKS if any(mapping.ours for mapping in maps) else 0):
        before, maps = maps, read_maps(pid)
        if _code(before) == _code(maps):
            break
    return maps


def _code(maps: tuple[Mapping, ...]) -> list[Mapping]:
    return [mapping for mapping in maps if mapping.executable]


def attach(pid: int) -> Process:
    """Raises TargetError `no-such-process`, `own-process`, `no-permission`, `already-traced`, `wrong-architecture`."""
    return Process(keeper_of(pid), pid, launched=False)


def keeper_of(pid: int) -> KeeperClient:
    """Raises as attach()."""
    if not Path(f"/proc/{pid}").is_dir():
        raise TargetError("no-such-process", f"there is no process {pid}")
    if Path(f"/proc/self/task/{pid}").exists():
        raise TargetError("own-process", f"process {pid} is gilk itself", "run gilk in another process")
    keeper = KeeperClient()
    try:
        keeper.attach(pid)
    except BaseException:
        keeper.leave()
        raise
    return keeper
