# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tending of weavings whose members come and go: processes that are watched for, and changes of groups that advice asks
for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from gilk.engines.aspect.membership import Members
from gilk.engines.aspect.thread_groups import KnownThreads
from gilk.engines.aspect.weaving import Weaving
from gilk.engines.aspect.woven_process import WovenProcess
from gilk.errors import GilkError, UsageError
from gilk.lang.aspect.woven import GroupChange
from gilk.targets.alive import has_ended, process_of
from gilk.targets.process import Process, attach
from gilk.targets.selecting import Seen, Watched, is_instrumented, look_at

_TRIES_FOR = 2.0  # seconds in which a new process may still open the images that the aspects name
_NOT_YET = frozenset({"no-such-image", "no-such-function", "busy"})

#: Reports to the user why a process, given by its pid, does not take part.
Telling = Callable[[int, GilkError], None]
_Birth = tuple[int, int]  # pid, and the time when the process began


class Tender:
    """Has processes join and leave a weaving as its members come and go.

    ``tell`` is called once for each process that does not take part. As a context manager, it lets go of the processes
    that it has attached to.
    """

    def __init__(self, weaving: Weaving, members: Members, tell: Telling) -> None:
        self._weaving, self._members, self._tell = weaving, members, tell
        self._threads = KnownThreads(weaving.threads)
        self._watched = Watched()
        self._done: set[_Birth] = set()  # processes that are not tried again
        self._since: dict[_Birth, float] = {}
        self._held: dict[int, Process] = {}

    def __enter__(self) -> Tender:
        return self

    def __exit__(self, *_: object) -> None:
        for pid in list(self._held):
            self._let_go(pid)

    def tend(self) -> bool:
        """Carry out changes of members; returns whether processes that do not exist yet may become members."""
        changes = [one for one in self._weaving.changes() if may_ask(one)]
        for one in changes:
            self._change(one)
        for tid in self._threads.forget(has_ended):
            self._weaving.drop_thread(tid)
        if self._members.watched or changes:
            self._look()
        return self._members.watched

    def _change(self, one: GroupChange) -> None:
        """Carry out a change of a process's groups, or of a thread's that is not the first of its process."""
        pid = process_of(one.pid)
        if pid in (None, one.pid):
            (self._members.join if one.joins else self._members.leave)(one.group, one.pid)
        elif not self._weaving.put_thread(one.pid, self._threads.change(pid, one.pid, one.group, one.joins)):
            why = f"thread {one.pid} is one too many that joins groups by itself, or leaves them"
            self._tell(pid, UsageError("cannot-weave", why, "have whole processes join and leave"))

    def _look(self) -> None:
        found = {one.pid: one for one in self._watched.look()}
        wanted = dict.fromkeys(self._threads.pids, ()) | self._members.later(found.values())
        for one in self._weaving.processes:
            self._keep(one)
        there = {one.process.pid for one in self._weaving.processes}
        for pid, groups in wanted.items():
            seen, of_threads = found.get(pid), self._of_threads(pid)
            if seen is not None and pid not in there and (groups or of_threads or not self._members.every):
                self._take(seen, groups, of_threads)

    def _of_threads(self, pid: int) -> tuple[str, ...]:
        """The groups that threads of the process have joined by themselves, in the order of the file."""
        joined = self._threads.joined(pid)
        return tuple(name for name in self._members.every if name in joined)

    def _keep(self, one: WovenProcess) -> None:
        """Weave the process anew if its groups have changed; take it out if it has ended."""
        pid = one.process.pid
        groups, of_threads = self._members.regrouped(pid, one.groups), self._of_threads(pid)
        if one.over:
            self._leave(one)
            self._let_go(pid)
        elif set(groups) != set(one.groups) or not set(of_threads) <= {*one.groups, *one.of_threads}:
            self._leave(one)
            self._try(pid, lambda: self._weaving.join(one.process, groups, of_threads))

    def _leave(self, one: WovenProcess) -> None:
        self._try(one.process.pid, lambda: self._weaving.leave(one))

    def _try(self, pid: int, attempt: Callable[[], object]) -> None:
        try:
            attempt()
        except GilkError as error:
            if error.slug != "no-such-process":
                self._tell(pid, error)

    def _take(self, seen: Seen, groups: Sequence[str], of_threads: Sequence[str]) -> None:
        birth = seen.pid, seen.born
        if birth in self._done or is_instrumented(seen.pid):  # members have forked such a process
            return
        try:
            self._held[seen.pid] = process = attach(seen.pid)
            woven = self._weaving.join(process, groups, of_threads)
            woven.age = seen.age
        except GilkError as error:
            self._let_go(seen.pid)
            self._refused(birth, error)

    def _refused(self, birth: _Birth, error: GilkError) -> None:
        """Report a refused process, unless it may be tried again: a new process may not have opened its libraries, or
        may be about to execute another program."""
        now = time.monotonic()
        if error.slug == "no-such-process":
            return
        if error.slug in _NOT_YET and now - self._since.setdefault(birth, now) < _TRIES_FOR:
            return
        self._done.add(birth)
        self._tell(birth[0], error)

    def _let_go(self, pid: int) -> None:
        if (process := self._held.pop(pid, None)) is not None:
            process.keeper.leave()


def may_ask(change: GroupChange) -> bool:
    """Whether the asking process may change the groups of the other: only those of its own user's processes, or, as
    root, of all.

    So what a process writes into gilk's memory gives it no power that it does not have anyway.
    """
    asking, asked = look_at(change.asker), look_at(change.pid)
    return asking is not None and asked is not None and asking.user in (0, asked.user)
