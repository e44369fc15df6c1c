# SPDX-License-Identifier: LGPL-2.1-or-later
"""Selects processes by their names, users and control groups, or as descendants of others, by what /proc says of them
(proc(5)).

The names of a process are that of the program's file, and the one that the kernel has for the process, of at most 15
bytes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

from gilk.errors import TargetError, UsageError
from gilk.targets.apart import HELPERS
from gilk.targets.maps import CODE_NAME, read_maps
from gilk.targets.program import name_of, path_there, program_file
from gilk.targets.stat import PARENT, START_TIME, stat_of
from gilk.values import dataclass

_SOON = 1.0  # seconds in which a new process is looked at each time: it may be about to execute a program
_DIGITS = 10  # the most of a user's number
_AGAIN = 1.0  # seconds after which all processes are looked at again


@dataclass(frozen=True, slots=True)
class Seen:
    """A process that was seen. ``born``, its start time in clock ticks since the machine's start, tells it from others
    that have its number later. ``user`` owns it."""

    pid: int
    born: int
    user: int
    parent: int
    names: frozenset[str]

    @property
    def age(self) -> float:
        """The time since the process began, in seconds, to a hundredth."""
        return max(time.clock_gettime(time.CLOCK_BOOTTIME) - self.born / os.sysconf("SC_CLK_TCK"), 0.0)


class PatternPid(int):
    """The number of a process that was chosen by what it is, not by number: it may have ended since."""


def look_at(pid: int) -> Seen | None:
    """The process with this number; None if it has ended, is a thread of the kernel's own, or may not be looked
    into."""
    try:
        fields = stat_of(pid)
        user = os.stat(f"/proc/{pid}").st_uid
        program, name = program_file(pid), name_of(pid)
    except OSError:
        return None
    return Seen(pid, int(fields[START_TIME]), user, int(fields[PARENT]), frozenset((name, os.path.basename(program))))


def processes() -> list[Seen]:
    """All processes that we may look into, except this one and gilk's own helpers."""
    found = (look_at(int(name)) for name in os.listdir("/proc") if name.isdecimal())
    return [one for one in found if one is not None and one.pid != os.getpid() and HELPERS.isdisjoint(one.names)]


def is_instrumented(pid: int) -> bool:
    """Whether a process has code of gilk's mapped, as children of an instrumented process have; also true if it has
    ended, or may not be looked into."""
    try:
        return any(mapping.path.startswith(CODE_NAME) for mapping in read_maps(pid))
    except TargetError:
        return True


def named(found: Iterable[Seen], glob: str) -> set[int]:
    return {one.pid for one in found if any(fnmatchcase(name, glob) for name in one.names)}


def descendants(found: Iterable[Seen], ancestor: int) -> set[int]:
    """The children of a process, their children, and so on."""
    children: dict[int, list[int]] = {}
    for one in found:
        children.setdefault(one.parent, []).append(one.pid)
    there, left = set[int](), [ancestor]
    while left:
        fresh = [pid for pid in children.get(left.pop(), ()) if pid not in there]
        there.update(fresh)
        left += fresh
    return there


def of_user(found: Iterable[Seen], user: str) -> set[int]:
    """The processes of a user, who is given by name or number: those that run with the user's rights. Raises UsageError
    `no-such-user`."""
    if user.isascii() and user.isdecimal() and len(user) <= _DIGITS:
        number = int(user)
    else:
        import pwd  # a late import, for a look-up that may ask another machine

        try:
            number = pwd.getpwnam(user).pw_uid
        except (KeyError, ValueError):
            raise UsageError("no-such-user", f"there is no user {user!r}", "give a name, or a number") from None
    return {one.pid for one in found if one.user == number}


def in_group(found: Iterable[Seen], glob: str) -> set[int]:
    """The processes in the control groups whose paths match, and in groups below these. A path is that in the group's
    hierarchy (cgroups(7)), with or without the first slash."""
    return {one.pid for one in found if any(_is_below(path, glob.strip("/")) for path in _groups(one.pid))}


def _groups(pid: int) -> list[str]:
    """The paths of the process's control groups, in all hierarchies, without the first slash; none if it has ended."""
    try:
        with open(f"/proc/{pid}/cgroup", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    return [path_there(line.split(":", 2)[2]).strip("/") for line in lines if line.count(":") >= 2]


def _is_below(path: str, glob: str) -> bool:
    parts = path.split("/")
    return any(fnmatchcase("/".join(parts[:n]), glob) for n in range(1, len(parts) + 1))


def chosen(
    pids: Iterable[int], globs: Iterable[str], ancestors: Iterable[int], users: Iterable[str] = (),
    groups: Iterable[str] = (),
) -> tuple[int, ...]:  # fmt: skip
    """The numbers given, then those of processes whose names match, of all descendants of ancestors, of users, and of
    control groups, as PatternPid: each once, in this order. Raises TargetError `no-such-process` where one of these
    means no process, UsageError `no-such-user`."""
    there = processes()
    found = list[int]()
    for glob in globs:
        found += sorted(_some(named(there, glob), f"no process is called {glob!r}"))
    for ancestor in ancestors:
        found += sorted(_some(descendants(there, ancestor), f"process {ancestor} has no children"))
    for user in users:
        found += sorted(_some(of_user(there, user), f"user {user} has no processes"))
    for group in groups:
        found += sorted(_some(in_group(there, group), f"there is no process in a control group {group!r}"))
    return tuple(dict.fromkeys((*pids, *map(PatternPid, found))))


def _some(found: set[int], why: str) -> set[int]:
    if not found:
        raise TargetError("no-such-process", why, "gilk sees the processes that it may look into")
    return found


class Watched:
    """All processes, looked at again and again. Processes that are known are looked at less often than new ones."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._seen: dict[int, Seen] = {}
        self._since: dict[int, float] = {}
        self._all_at = float("-inf")

    def look(self) -> list[Seen]:
        """The same processes as processes() gives, as of now."""
        now, there = self._now(), {int(name) for name in os.listdir("/proc") if name.isdecimal()}
        there -= {os.getpid()}
        for gone in self._since.keys() - there:
            del self._since[gone]
            self._seen.pop(gone, None)
        again = now - self._all_at >= _AGAIN
        self._all_at = now if again else self._all_at
        for pid in there:
            if again or now - self._since.setdefault(pid, now) < _SOON:
                self._look_at(pid, now)
        return [one for one in self._seen.values() if HELPERS.isdisjoint(one.names)]

    def _look_at(self, pid: int, now: float) -> None:
        one, old = look_at(pid), self._seen.pop(pid, None)
        if one is not None:
            self._seen[pid] = one
        if one is None or old is None or old.born != one.born:
            self._since.setdefault(pid, now)
