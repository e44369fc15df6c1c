# SPDX-License-Identifier: LGPL-2.1-or-later
"""Weaving of a file of aspects into running processes: all is planned before anything changes, and goes in everywhere
or nowhere.

Processes can join later, and leave, while the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from gilk.engines.aspect.kernel_part import confined_file
from gilk.engines.aspect.possible import check_lasting, check_possible
from gilk.engines.aspect.state import WovenLayout, WovenState
from gilk.engines.aspect.thread_groups import ThreadGroups, ThreadTable
from gilk.engines.aspect.woven_process import WovenProcess
from gilk.errors import GilkError, UsageError
from gilk.lang.aspect.checked import CheckedFile, CheckedTable
from gilk.lang.aspect.code.meeting import numbered
from gilk.lang.aspect.lower import automata
from gilk.lang.aspect.woven import AspectCounts, DryShadow, GroupChange, WovenReport, WovenSummary, WovenTable
from gilk.session.advised_session import MadeAdvice
from gilk.targets.alive import has_ended
from gilk.targets.common_memory import CommonMemory
from gilk.targets.process import Process

if TYPE_CHECKING:
    from gilk.engines.aspect.woven_kernel import WovenKernel
    from gilk.targets.kernel.target import KernelTarget

_TICK, _SECOND = 0.05, 1.0  # seconds between looks at reports, and at threads that have ended


class Weaving:
    """A file of aspects in processes and a kernel. As a context manager, it takes everything out at its end."""

    def __init__(
        self, file: CheckedFile, members: Mapping[int, Sequence[str]], held: Sequence[Process],
        at_least: int | None = None, persist: bool = False, kernel: KernelTarget | None = None,
        replaces: bool = False, threads: Mapping[int, ThreadGroups] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        """Plan a weaving; nothing is woven yet.

        ``members``: by pid, the groups of each process of ``held``. ``at_least``: how many processes are enough if
        others are refused; None: all are needed. ``refused`` has the errors of those that were refused, by pid.
        ``persist``: everything stays in when gilk is killed. ``kernel``: the kernel for the elements that are placed
        there. ``replaces``: advice may stand in place of functions of the kernel. ``threads``: by number, the threads
        that are members of groups by themselves from the beginning. Raises UsageError `cannot-weave`, and as
        WovenProcess does.
        """
        self.threads = dict(threads)
        self._confined = confined_file(file, bool(held), replaces)
        self.file = file = replace(file, of_threads=bool(threads))
        self._aspects = numbered(file, automata(file))
        check_possible(file, self._aspects)
        self._layout, self._made = WovenLayout(self._aspects, file.tables), MadeAdvice()
        self._memory = CommonMemory(self._layout.size)
        self._on_both = bool(held)  # whether processes have the state, or may get it
        self.kernel = self._kernel_of(kernel)
        if persist:
            check_lasting(self._aspects, self.kernel is not None)
        self._state: WovenState | None = None
        self._past: list[WovenSummary] = []
        self._released = float("-inf")
        self._left_over: list[WovenReport] = []
        self._changes: list[GroupChange] = []
        self.refused: dict[int, GilkError] = {}
        self.kills_unstarted = False  # whether to kill a launched program that has not begun upon a refusal
        self._at_least, self._persist = at_least, persist
        planned = (
            self._tried(one, partial(self._planned, one, members[one.pid], self._of_threads(one.pid))) for one in held
        )
        self.processes: tuple[WovenProcess, ...] = tuple(one for one in planned if one is not None)
        self._check_enough()

    def _kernel_of(self, target: KernelTarget | None) -> WovenKernel | None:
        if not any(element.kernel for one in self._aspects for element in one.elements):
            return None
        from gilk.engines.aspect.woven_kernel import woven_kernel  # late: most weavings need none of it

        self._on_both |= any(element.processes for one in self._aspects for element in one.elements)
        return woven_kernel(target, self._confined, self._layout, self._on_both)

    def _of_threads(self, pid: int) -> tuple[str, ...]:
        """The groups that threads of the process are members of by themselves from the beginning."""
        joined = {group for one in self.threads.values() if one.pid == pid for group in one.joined}
        return tuple(one.name for one in self.file.groups if one.name in joined)

    def _planned(self, process: Process, groups: Sequence[str], of_threads: Sequence[str] = ()) -> WovenProcess:
        return WovenProcess(process, self.file, self._aspects, self._layout, groups, of_threads, self._made)

    def _tried(self, process: Process, attempt: Callable[[], WovenProcess]) -> WovenProcess | None:
        """The result of ``attempt``; None if it is refused and the other processes may be enough."""
        try:
            return attempt()
        except GilkError as error:
            self.refused[process.pid] = error
            if self._at_least is None:
                raise
            return None

    def _check_enough(self) -> None:
        """Check that enough processes are left. Raises the first refusal, or UsageError `usage` if there is none."""
        there, least = len(self.processes), self._at_least or 0
        if there < least:
            why = f"--at-least {least}: there {'is' if there == 1 else 'are'} {there}"
            too_few = UsageError("usage", why, "give more processes, or a smaller number")
            raise next(iter(self.refused.values()), too_few)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.unweave()
        else:
            self._abandon()

    def weave(self) -> None:
        """Weave into all processes, switched off, then switch all on at one moment. If too many are refused, nothing is
        woven.

        Raises GilkError.
        """
        try:
            if self.kernel is not None and self._on_both:
                self._memory.adopt(self.kernel.share())
            woven = [self._tried(one.process, partial(self._woven, one)) for one in self.processes]
            self.processes = tuple(one for one in woven if one is not None)
            self._check_enough()
            if self.kernel is not None:
                self.kernel.weave()
            self._put_threads()
        except BaseException:
            self._abandon()
            raise
        self.switch(True)
        if self._persist:
            self._have_it_stay()

    def dry(self) -> list[DryShadow]:
        """The functions and accesses that would be woven; no target is touched. Raises CompileError."""
        of_kernel = self.kernel.dry() if self.kernel is not None else ()
        return [*of_kernel, *(each for one in self.processes for each in one.dry())]

    def _have_it_stay(self) -> None:
        """Have the weaving stay when gilk is killed: after one store, no keeper takes anything out by itself."""
        aspects = [
            {"name": one.label, "elements": len(one.checked.elements), "sequence": one.is_sequence}
            for one in self._aspects
        ]
        functions = {one.process.pid: one.functions for one in self.processes}
        path = str(Path(self.file.source.name).absolute())
        self.state.tell({"file": path, "began": time.time(), "aspects": aspects, "functions": functions})
        self.state.stay(True)

    def _woven(self, one: WovenProcess) -> WovenProcess:
        try:
            one.share(self._memory)
            one.weave()
            if self._persist:
                one.stay()
        except GilkError:
            if self._at_least is not None:
                with suppress(GilkError):  # as in _abandon()
                    one.unweave()
            raise
        return one

    def join(self, process: Process, groups: Sequence[str], of_threads: Sequence[str] = ()) -> WovenProcess:
        """Weave into one more process, which takes part from now on. ``of_threads``: the groups that threads of it have
        joined by themselves. Raises as weave() does; then the others go on as before."""
        one, first = self._planned(process, groups, of_threads), not self._memory.there
        try:
            one.share(self._memory)
            if first:
                self.switch(True)
            one.weave()
            if self._persist:
                one.stay()
                self._have_it_stay()
        except BaseException:
            with suppress(GilkError):  # as in _abandon()
                one.unweave()
            raise
        self.processes = (*self.processes, one)
        return one

    def put_thread(self, tid: int, groups: ThreadGroups) -> bool:
        """Have a thread be a member of groups by itself; returns whether there was room for it."""
        return self._memory.there and self._threads.put(tid, groups)

    def _put_threads(self) -> None:
        """Make the threads members that are so from the beginning. Raises UsageError `cannot-weave`."""
        for tid, groups in self.threads.items():
            if not self.put_thread(tid, groups):
                why = f"thread {tid} is one too many that is a member of groups by itself"
                raise UsageError("cannot-weave", why, "have whole processes be members")

    def drop_thread(self, tid: int) -> None:
        """Forget that a thread, which has ended, was a member by itself."""
        if self._memory.there:
            self._threads.drop(tid)

    @cached_property
    def _threads(self) -> ThreadTable:
        return self.state.threads([one.name for one in self.file.groups])

    def leave(self, one: WovenProcess) -> None:
        """Take the weaving out of one process; the others go on. Raises TargetError."""
        self.processes = tuple(each for each in self.processes if each is not one)
        try:
            one.unweave()
        finally:
            self._left_over += one.reports(final=True)
            self._changes += one.changes()
            self._past.append(one.summary())

    def switch(self, on: bool) -> None:
        """Switch all aspects, from their next match on."""
        if self._memory.there:
            self.state.switch(on)
        if self.kernel is not None:
            self.kernel.switch(sum(1 << one.number for one in self._aspects) * on)

    def turn(self, name: str, on: bool) -> None:
        """Switch one aspect, by its name or number (#1); bits that advice switches meanwhile are kept. Raises
        OSError."""
        self.refresh()
        for aspect in self._aspects:
            if aspect.label == name:
                self.state.turn(aspect.number, on)
                if self.kernel is not None:
                    self.kernel.switch(self.state.on_bits)

    def states(self) -> dict[str, bool]:
        """Whether each aspect is on, by its name or number."""
        if not self.there:
            return {}
        self.refresh()
        return {one.label: self.state.is_on(one.number) for one in self._aspects}

    @property
    def there(self) -> bool:
        """Whether there is a common state, in memory shared with processes or in the kernel."""
        return self._memory.there or self.kernel is not None

    @property
    def state(self) -> WovenState:
        """The common state of all processes; None before there is one."""
        if self._state is None:
            view = self._memory.view if self._memory.there else memoryview(self._far)
            self._state = WovenState(self._layout, self._aspects, view)
        return self._state

    @cached_property
    def _far(self) -> bytearray:
        """A copy of the state, for a state that only the kernel has."""
        return bytearray(self._layout.size)

    def refresh(self) -> None:
        """Bring counts and tables up to date, if the kernel has them. Raises OSError, TargetError."""
        if self.kernel is not None:
            self.kernel.read_state(None if self._memory.there else self._far)

    def reports(self, final: bool = False) -> Iterator[WovenReport]:
        """The reports since the last call, in order of time."""
        found, self._left_over = self._left_over, []
        found += [each for one in self.processes for each in one.reports(final)]
        if self.kernel is not None:
            found += self.kernel.reports(final)
        return iter(sorted(found, key=lambda each: each.at))

    def changes(self) -> list[GroupChange]:
        """The changes of groups that advice has asked for since the last call, in the records that reports() has
        read."""
        found, self._changes = self._changes, []
        return found + [each for one in self.processes for each in one.changes()]

    def wait(
        self, seconds: float | None, stop: Callable[[], bool], tell: Callable[[WovenReport], None],
        tend: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        """Pass reports to ``tell`` as they come, until every process has ended, ``seconds`` are over, or ``stop``
        returns True.

        ``tend`` is called at each look, and returns whether more processes may come.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while not stop():
            more = tend()
            self.release(time.monotonic())
            for report in self.reports():
                tell(report)
            if not more and not self._of_kernel_alone and all(one.over for one in self.processes):
                return
            left = _TICK if until is None else until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(_TICK, left))

    def check_idle(self) -> None:
        """Check that it can be known which calls are under way. Raises UsageError `usage` if the weaving is in a
        kernel."""
        if self.kernel is not None:
            why = "--when-idle is for processes: nobody looks into the stacks of a kernel"
            raise UsageError("usage", why, "leave it out")

    def off_when_idle(self) -> list[str]:
        """The functions with advice whose calls are under way, each with its process; if there are none, all aspects
        are off from then on.

        If there are several processes, all but the last may have begun a call since they were looked at. Raises
        UsageError `usage`, TargetError.
        """
        self.check_idle()
        there = [one for one in self.processes if not one.over]
        for one in there:
            if names := one.under_way(one is there[-1]):
                return [f"{name} (process {one.process.pid})" for name in names]
        return []

    def idle(self, seconds: float, stop: Callable[[], bool]) -> list[str]:
        """Call off_when_idle() until it returns nothing, for ``seconds`` at most; returns its last result. Raises as it
        does."""
        until = time.monotonic() + seconds
        while (found := self.off_when_idle()) and time.monotonic() < until and not stop():
            time.sleep(_TICK)
        return found

    @property
    def _of_kernel_alone(self) -> bool:
        return self.kernel is not None and not self._on_both

    def release(self, now: float) -> None:
        """Once a second, mark the instances that no thread can continue any more."""
        if self._memory.there and now - self._released >= _SECOND:
            self._released = now
            self.state.release(has_ended)

    def summaries(self) -> tuple[WovenSummary, ...]:
        """A summary of each process and kernel: first the kernel's, then those of processes that have left."""
        kernel = (self.kernel.summary(),) if self.kernel is not None else ()
        return (*kernel, *self._past, *(one.summary() for one in self.processes))

    def unweave(self) -> None:
        """Take the weaving out of all targets, even if one of them fails.

        All aspects are switched off first, so that threads in short advice soon leave it. Raises the first GilkError.
        """
        if self._memory.there:
            self.state.stay(False)
        self.switch(False)
        wrong: list[GilkError] = []
        for one in self.processes:
            try:
                one.unweave()
            except GilkError as error:
                wrong.append(error)
        if self.kernel is not None:
            try:
                self.refresh()
                self._left_over += self.kernel.unweave()
            except GilkError as error:
                wrong.append(error)
        self._memory.close()
        if wrong:
            raise wrong[0]

    def _abandon(self) -> None:
        """Take the weaving out as far as possible, after an error, which is the one to report.

        A keeper whose request was interrupted does not answer; it undoes everything by itself.
        """
        for one in self.processes if self.kills_unstarted else ():
            one.process.kill_unstarted()  # before it is let go, which would let it run
        with suppress(GilkError):
            self.unweave()

    def counts(self) -> tuple[AspectCounts, ...]:
        """The counts of each aspect, in the order of the file, for all processes together; () if there never was a
        state."""
        self.refresh()
        return self.state.counts() if self.there else ()

    def tables(self) -> tuple[WovenTable, ...]:
        """The tables, in the order of the file, each summed over all processes; () if there never was a state."""
        self.refresh()
        return tuple(map(self._table, self.file.tables)) if self.there else ()

    def _table(self, table: CheckedTable) -> WovenTable:
        rows = sorted(self.state.rows(table.name), key=lambda row: row.key)
        return WovenTable(table, tuple(rows), self.state.lost(table.name))
