# SPDX-License-Identifier: LGPL-2.1-or-later
"""A live process, as the client sees it: its images, and the keeper that carries out requests."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from gilk.analysis.analysis import Analysis
from gilk.errors import TargetError, keeper_gone
from gilk.image.model import ElfSymbol, Image
from gilk.splice.allocator import Occupied
from gilk.targets import learnt, seccomp, wire
from gilk.targets.alive import has_ended, proc_link
from gilk.targets.another_program import began_of
from gilk.targets.base import Loaded
from gilk.targets.copies import Copy, Units, as_executed
from gilk.targets.exchanged import exchanged
from gilk.targets.files import Files
from gilk.targets.filtered_calls import check_hits
from gilk.targets.image import analyse
from gilk.targets.inner_threads import gone_of, threads_of
from gilk.targets.keepers import spawned
from gilk.targets.launch import ProcessEnd
from gilk.targets.maps import Mapping, heap_start, occupied, read_maps
from gilk.targets.meeting import Meeting
from gilk.targets.namespaces import own_number
from gilk.targets.requests import Requests
from gilk.targets.running import MOST_STACK, Sample
from gilk.targets.semaphores import Raised, Semaphore
from gilk.targets.spawning import Spawned
from gilk.targets.status import status_of
from gilk.targets.threads import Gone, Threads
from gilk.targets.without_program import check_program

_T = TypeVar("_T")
_PATIENCE = 120.0  # seconds for an answer; the keeper's own waits are shorter
_LOOKS = 5  # how often mappings are read that other sessions may be changing
_FAREWELL = 30.0  # seconds to wait for a keeper to undo everything; a slower one goes on by itself
_AS_LONG_AS_IT_TAKES = frozenset(("launch", "run_until_linked", "run_to", "wait"))  # these wait for the program


class KeeperClient(Requests):
    """Sends requests to the keeper's process, ``pid``; each raises what the keeper raised. ``is_shared``: whether other
    clients may have a part in its target, too."""

    is_shared = False

    def __init__(self, launches: bool = False, made: Spawned | None = None) -> None:
        """``launches``: the keeper is to launch a program. ``made``: an existing keeper that answers for other
        processes, too."""
        super().__init__()
        self._of_many = made is not None
        made = made or spawned(launches)
        self.pid, self._reap, self._channel, self._ended = made.pid, made.reap, made.channel, made.ended
        self._channel.settimeout(_PATIENCE)  # for sending, too: a keeper that does not read counts as gone

    def ask(self, name: str, *arguments: Any, fds: tuple[int, ...] = ()) -> Any:
        """Make a request and return the answer. If the wait for the answer is interrupted (Ctrl-C), the channel is
        closed: the keeper undoes everything, and goes."""
        if self._channel.fileno() < 0:
            raise TargetError("keeper-gone", "the session with this process has been closed")
        try:
            with contextlib.suppress(wire.ChannelClosed):  # a keeper that has failed has said why before it went
                wire.send(self._channel, (name, arguments), fds)
            self._await(name)
            (good, value), self.received = wire.receive(self._channel)
        except wire.ChannelClosed:
            raise keeper_gone("the process that holds the target has gone") from None
        except TimeoutError:
            raise self._ended_by_us() from None
        except BaseException:
            self._channel.close()  # else the next request would be given this answer
            raise
        if not good:
            raise value
        return value

    def _await(self, name: str) -> None:
        """Wait until the answer can be read. There is no limit for requests that wait for the program itself; for
        others raises TimeoutError."""
        if not wire.readable(self._channel.fileno(), None if name in _AS_LONG_AS_IT_TAKES else _PATIENCE):
            raise TimeoutError

    def _ended_by_us(self) -> TargetError:
        """Kill a keeper that does not answer; returns the error to raise. The threads that it holds go on without
        it."""
        self._channel.close()
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._ended, signal.SIGKILL)
        return keeper_gone(f"the process that holds the target did not answer within {_PATIENCE:.0f} s, and was ended")

    def follow(self, line: int) -> None:
        """Have the keeper follow the processes that the target begins, and report them on this line
        (tree_client.py)."""
        super().follow(line)
        self._of_many = True

    def leave(self) -> None:
        """Let the keeper go. It undoes what is left and ends, which is waited for, unless it answers for other
        processes, too."""
        if self._of_many and self._channel.fileno() >= 0:
            self._part()
            self.hand_over()
        else:
            self.hand_over(lambda: wire.readable(self._ended, _FAREWELL))  # works for any process, not only children
        self._reap()

    def _part(self) -> None:
        """End this line only, and wait until the keeper closes its end: it has undone everything in our process
        then."""
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)
            wire.readable(self._channel.fileno(), _FAREWELL)

    @property
    def there(self) -> bool:
        """Whether the keeper has not ended, as far as can be seen."""
        return self._ended >= 0 and not wire.readable(self._ended, 0)

    @property
    def files(self) -> tuple[int, ...]:
        """The descriptors that a fork of this process needs to become the client in its place."""
        return self._channel.fileno(), self._ended

    def hand_over(self, then: Callable[[], object] = lambda: None) -> None:
        """Close this client's descriptors, because a fork of this process is the client from now on; ``then`` is called
        in between."""
        self._channel.close()
        if self._ended >= 0:
            then()
            os.close(self._ended)
            self._ended = -1

    def reap(self) -> None:
        """Reap the keeper, after the client that has taken our place has let it go."""
        self._reap()


class Process:
    """A process that gilk may instrument, made by attach() or launch(). Use it as a context manager, or call
    close()."""

    def __init__(self, keeper: KeeperClient, pid: int, launched: bool) -> None:
        self.keeper = keeper
        self.pid = pid
        self.launched = launched
        self.files = Files(pid)
        self._analyses: dict[Path, Analysis] = {}
        self._held, self._stopped = launched, False
        self._began = began_of(pid)
        self._program = _pidfd(pid) if launched else -1  # unlike the pid, never another process
        self._copies: tuple[Copy, ...] = ()
        self.meeting = Meeting()  # replaced by a session that others may join

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
        """The process's number in its own PID namespace (pid_namespaces(7)), by which its threads know it."""
        return own_number(self.pid)

    @property
    def threads(self) -> Threads:
        return threads_of(self.pid)

    def caught(self) -> int:
        """The signals that the process has handlers for, bit n-1 for signal n (SigCgt of proc(5)); 0 once it has
        gone."""
        with contextlib.suppress(OSError):
            return int(self.status().get(b"SigCgt", b"0"), 16)
        return 0

    @property
    def gone(self) -> Gone:
        return gone_of(self.pid)

    def status(self) -> dict[bytes, bytes]:
        return status_of(self.pid)

    def root(self) -> bytes:
        return os.fsencode(proc_link(self.pid, "root"))

    def check_hits(self) -> None:
        check_hits(self.pid)

    def may_be_killed(self) -> bool:
        return seccomp.may_kill(self.pid)

    def exported(self, path: Path, name: str) -> ElfSymbol | None:
        """The symbol called ``name`` that the image exports to other images; None if it has none. Raises ImageError."""
        return self.files.exported(path, name)

    def mentions(self, path: Path, names: frozenset[str]) -> bool:
        """Whether the image defines or imports a symbol of any of these names. Raises ImageError."""
        return self.files.mentions(path, names)

    @property
    def alive(self) -> bool:
        return not has_ended(self.pid)

    def maps(self) -> tuple[Mapping, ...]:
        """The mappings as they would be if no code were exchanged for a copy; another session of gilk may do that at
        any time."""
        if self._copies:
            return as_executed(read_maps(self.pid), self._copies)
        maps = _settled(self.pid)
        return as_executed(maps, tuple(exchanged(maps, self.files.extents)))

    def copy_code(self, units: Units) -> int:
        """Prepare copies of the code in which these units are in force; returns the number of mappings for which that
        is worth it."""
        self._copies = self.keeper.copy_code(units)
        return len(self._copies)

    def occupied(self) -> Occupied:
        """The address ranges where nothing may be mapped: those in use, and the room that heap and stack need to
        grow."""
        return occupied(read_maps(self.pid), heap=heap_start(self.pid))

    @property
    def unstarted(self) -> bool:
        """Whether this is a launched program none of whose code has run yet."""
        return self._held

    @property
    def stands(self) -> bool:
        """Whether this is a process that stands still until release()."""
        return self._held or self._stopped

    def has_executed(self) -> bool:
        """Whether the process has executed another program since gilk attached to it or stopped it, as far as can be
        seen."""
        return began_of(self.pid) != self._began

    def hold(self) -> None:
        """Stop the process until release(), so that it executes no other program. Raises TargetError."""
        if not self._held:
            self.keeper.hold()
            self._began, self._stopped = began_of(self.pid), True

    def release(self) -> None:
        """Let a launched program run, or one that was stopped."""
        if self.stands:
            self.keeper.release()
            self._held = self._stopped = False

    def kill_unstarted(self) -> None:
        """Kill a launched program none of whose code has run yet."""
        if self._held:
            self._held = False
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def raise_semaphores(self, counters: list[Semaphore]) -> list[Raised]:
        """Increment semaphores until the end, which tell the program that somebody listens; returns those that were
        incremented."""
        return self.keeper.raise_semaphores(counters)

    def sample(self, stack: int = 0) -> list[Sample]:
        """Samples of the threads that run just now, with up to ``stack`` bytes of the stack of each. The threads are
        stopped only for as long as that takes. Raises TargetError."""
        return self.keeper.sample(stack)

    def standing(self) -> list[Sample]:
        """Samples of all threads with their stacks, as far as MOST_STACK goes; none of a program that has not begun.
        The threads are stopped only for as long as that takes. Raises TargetError."""
        return [] if self.unstarted else self.keeper.standing(MOST_STACK)

    def wait(self, block: bool = False) -> ProcessEnd | None:
        return self.keeper.wait(block)

    def close(self, kill: bool = False) -> bool:
        """Undo everything and let go; returns whether all code is what it was. ``kill``: a launched program is killed
        then."""
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
            with contextlib.suppress(OSError):  # it has ended, or belongs to another user by now
                if kill:
                    signal.pidfd_send_signal(self._program, signal.SIGKILL)
            os.close(self._program)
            self._program = -1

    def loaded(self) -> tuple[Loaded, ...]:
        """The images mapped now, main program first. Mapped files that are not ELF are left out."""
        return self.files.loaded(self.maps())

    def analysis(self, loaded: Loaded) -> Analysis:
        """The analysis of a loaded image, with earlier findings from the cache."""
        known, image = self._analyses.get(loaded.path), self.image(loaded.path)
        if known is None or known.image is not image:  # another file may lie there by now
            known = self._analyses[loaded.path] = analyse(image)
        return known

    def keep_learnt(self) -> None:
        """Keep the findings of analyses for later sessions."""
        for analysis in self._analyses.values():
            learnt.store(analysis)

    def image(self, path: Path) -> Image:
        """The image of the file at ``path``. Raises ImageError."""
        return self.files.image(path)


def _pidfd(pid: int) -> int:
    """A descriptor that means this process for ever (pidfd_open(2)); -1 when the process has gone, or no descriptor can
    be had."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1


def _settled(pid: int) -> tuple[Mapping, ...]:
    """All mappings. If there are sessions in the process, which may be exchanging code, the maps are read until two
    readings of the code agree, for a limited number of times."""
    maps = read_maps(pid)
    for _ in range(_LOOKS if any(mapping.ours for mapping in maps) else 0):
        before, maps = maps, read_maps(pid)
        if _code(before) == _code(maps):
            break
    return maps


def _code(maps: tuple[Mapping, ...]) -> list[Mapping]:
    return [mapping for mapping in maps if mapping.executable]


def attach(pid: int) -> Process:
    """Attach to a process. Raises TargetError `no-such-process`, `kernel-thread`, `own-process`, `no-permission`,
    `already-traced`, `wrong-architecture`."""
    return Process(keeper_of(pid), pid, launched=False)


def keeper_of(pid: int) -> KeeperClient:
    """A keeper that has attached to the process. Raises as attach() does."""
    check_program(pid)
    if Path(f"/proc/self/task/{pid}").exists():
        raise TargetError("own-process", f"process {pid} is gilk itself", "run gilk in another process")
    keeper = KeeperClient()
    try:
        keeper.attach(pid)
    except BaseException:
        keeper.leave()
        raise
    return keeper
