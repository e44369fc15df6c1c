# SPDX-License-Identifier: LGPL-2.1-or-later
"""The processes that are members of groups: those given by pid, those found by name at the start, and those that are
watched for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum

from gilk.engines.aspect.thread_groups import ThreadGroups
from gilk.errors import TargetError, UsageError
from gilk.targets.alive import process_of
from gilk.targets.selecting import Seen, descendants, named
from gilk.values import dataclass

_HINT = "for example A=4711, A=name:squid, A=all:nginx or A=children:4711; several with commas between"


class MemberKind(StrEnum):
    """The ways to choose members."""

    PID = "pid"
    NAME = "name"
    ALL = "all"
    CHILDREN = "children"


_WATCHED = (MemberKind.ALL, MemberKind.CHILDREN)


@dataclass(frozen=True, slots=True)
class MemberChoice:
    """A choice of members of a group. ``word``: a pid, or a glob for names of programs. ``group``: "" for all
    groups."""

    group: str
    how: MemberKind
    word: str

    @property
    def watched(self) -> bool:
        """Whether more processes may become members later."""
        return self.how in _WATCHED

    def of(self, found: Iterable[Seen]) -> set[int]:
        """The pids of the processes among ``found`` that the choice means."""
        if self.how is MemberKind.PID:
            return {int(self.word)}
        if self.how is MemberKind.CHILDREN:
            return descendants(found, int(self.word))
        return named(found, self.word)


def read_choices(text: str) -> list[MemberChoice]:
    """Read GROUP=PID, GROUP=name:GLOB, GROUP=all:GLOB or GROUP=children:PID; several words have commas between them.

    Raises UsageError `bad-group`.
    """
    group, separator, rest = text.partition("=")
    if not separator or not group.isidentifier():
        raise UsageError("bad-group", f"{text!r} is not GROUP=MEMBERS", _HINT)
    return [_choice(text, group, word) for word in rest.split(",")]


def _choice(text: str, group: str, word: str) -> MemberChoice:
    kind, separator, rest = word.partition(":")
    how = MemberKind(kind) if separator and kind in set(MemberKind) else None if separator else MemberKind.PID
    what = rest if separator else word
    numeric = how in (MemberKind.PID, MemberKind.CHILDREN)
    if how is None or not what or (numeric and not (what.isascii() and what.isdecimal() and len(what) < 10)):
        raise UsageError("bad-group", f"{word!r} in {text!r} names no members", _HINT)
    return MemberChoice(group, how, what)


def check_group(name: str, every: Collection[str]) -> None:
    """Check that ``every``, the groups of the file, has this one. Raises UsageError `bad-group`."""
    if name not in every:
        raise UsageError("bad-group", f"the file has no group {name!r}", f"it has {', '.join(every) or 'none'}")


def thread_members(named: Iterable[tuple[str, int]]) -> dict[int, ThreadGroups]:
    """The threads among ``named``, which has groups with numbers of processes and threads; by number. The first thread
    of a process stands for the process.
    """
    found: dict[int, ThreadGroups] = {}
    for group, number in named:
        pid = process_of(number)
        if pid not in (None, number):
            found[number] = found.get(number, ThreadGroups(pid)).changed(group, True)
    return found


class Members:
    """The groups that each process is a member of. ``every``: the groups of the file, in its order. ``threads``: the
    single threads that are members from the beginning, by number.
    """

    def __init__(self, choices: Sequence[MemberChoice], every: Sequence[str]) -> None:
        """Raises UsageError `bad-group` if the file does not have a group that a choice names, TargetError
        `no-such-process` if a thread was to be a member of all groups.
        """
        for one in choices:
            if one.group:
                check_group(one.group, every)
        self.threads = thread_members((one.group, int(one.word)) for one in choices if one.how is MemberKind.PID)
        for tid, known in self.threads.items():
            if "" in known.joined:
                hint = f"give that process, or GROUP={tid} in a file with groups"
                raise TargetError("no-such-process", f"{tid} is a thread of process {known.pid}", hint)
        self._choices = tuple(
            one for one in choices if one.how is not MemberKind.PID or int(one.word) not in self.threads
        )
        self.every = tuple(every)
        self._joined: dict[int, set[str]] = {}
        self._left: dict[int, set[str]] = {}

    @property
    def watched(self) -> bool:
        """Whether processes that do not exist yet may become members."""
        return any(one.watched for one in self._choices)

    def first(self, found: Iterable[Seen]) -> dict[int, tuple[str, ...]]:
        """The groups of each member at the start, by pid; () for a process that only threads of are members. Raises
        TargetError `no-such-process` if no process has a chosen name."""
        there = list(found)
        for one in self._choices:
            if one.how is MemberKind.NAME and not one.of(there):
                hint = "gilk sees those that it may look into"
                raise TargetError("no-such-process", f"no process is called {one.word!r}", hint)
        return dict.fromkeys((one.pid for one in self.threads.values()), ()) | self._grouped(self._choices, there)

    def later(self, found: Iterable[Seen]) -> dict[int, tuple[str, ...]]:
        """The groups, by pid, of the processes that are watched for, and of those that advice has joined."""
        return self._grouped([one for one in self._choices if one.watched], list(found))

    def _grouped(self, choices: Iterable[MemberChoice], found: Sequence[Seen]) -> dict[int, tuple[str, ...]]:
        groups: dict[int, set[str]] = {pid: set(names) for pid, names in self._joined.items()}
        for one in choices:
            for pid in one.of(found):
                groups.setdefault(pid, set()).update((one.group,) if one.group else self.every)
        return {pid: self._ordered(names - self._left.get(pid, set())) for pid, names in sorted(groups.items())}

    def regrouped(self, pid: int, groups: Sequence[str]) -> tuple[str, ...]:
        """The groups of a process that was a member of ``groups``, after the changes that advice has made since."""
        return self._ordered({*groups, *self._joined.get(pid, ())} - self._left.get(pid, set()))

    def _ordered(self, names: Collection[str]) -> tuple[str, ...]:
        return tuple(name for name in self.every if name in names)

    def join(self, group: str, pid: int) -> None:
        """Make the process a member of the group, also if it has left the group before."""
        self._left.get(pid, set()).discard(group)
        self._joined.setdefault(pid, set()).add(group)

    def leave(self, group: str, pid: int) -> None:
        """Remove the process from the group; its name does not bring it back."""
        self._joined.get(pid, set()).discard(group)
        self._left.setdefault(pid, set()).add(group)


def said(pids: Iterable[int]) -> list[MemberChoice]:
    """Choices of these processes as members of all groups."""
    return [MemberChoice("", MemberKind.PID, str(pid)) for pid in pids]
