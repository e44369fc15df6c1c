# SPDX-License-Identifier: LGPL-2.1-or-later
"""The aspects of a file that are woven into one process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from gilk.engines.aspect.access_shadows import AccessShadows, access_advice
from gilk.engines.aspect.alias_shadows import AliasShadows
from gilk.engines.aspect.inlined_copies import ShadowCopies, left_out, shadow_copies
from gilk.engines.aspect.members import member_parts
from gilk.engines.aspect.only_inlined import OnlyInlined
from gilk.engines.aspect.program_types import with_types
from gilk.engines.aspect.reports import AspectReport, ChangeKind, ReportReader
from gilk.engines.aspect.shadows import Shadow, Shadows
from gilk.engines.aspect.state import BOUNDS, STAYS, CodeRanges, WovenLayout, private_part, private_size
from gilk.engines.aspect.thread_groups import mask
from gilk.engines.aspect.trapped_shadows import TrappedShadows, TrappedVariable
from gilk.engines.dtrace.symbols import SymbolNames
from gilk.engines.dtrace.unwinding import Unwinding
from gilk.errors import TargetError
from gilk.lang.aspect.checked import CheckedFile, CheckedFunction
from gilk.lang.aspect.code.accessing import MetAccess, woven_access
from gilk.lang.aspect.code.copies import woven_copy
from gilk.lang.aspect.code.meeting import MetElement, NumberedAspect, verifies
from gilk.lang.aspect.code.unit import WOVEN, woven
from gilk.lang.aspect.woven import DryShadow, GroupChange, WovenReport, WovenSummary
from gilk.session.advised_session import AdvisedSession, MadeAdvice
from gilk.session.advising import Advice, AdvisedAccess, AdvisedCalls, TrappedMemory
from gilk.session.leaving import leaving
from gilk.targets.common_memory import CommonMemory
from gilk.targets.process import Process

_POINTS = 1 << 16  # how many entries and returns can have advice; memory is taken only as they are used
_RING = 1 << 18  # how many bytes of reports a thread can have waiting


class WovenProcess:
    """One process with aspects. ``groups``: the groups that it is a member of. ``of_threads``: the groups that threads
    of it have joined by themselves. ``made``: see AdvisedSession."""

    def __init__(
        self, process: Process, file: CheckedFile, aspects: Sequence[NumberedAspect], layout: WovenLayout,
        groups: Sequence[str], of_threads: Sequence[str] = (), made: MadeAdvice | None = None,
    ) -> None:  # fmt: skip
        """Find the functions and accesses that get advice.

        Raises UsageError `cannot-weave`, `no-debug-types`, `no-such-function`, `no-such-image`, `ambiguous-function`,
        `tail-call`, TargetError `may-not-look`.
        """
        self.process, self.groups, self.of_threads, self._made = process, tuple(groups), tuple(of_threads), made
        #: The seconds that a process which has joined by itself had run by then.
        self.age: float | None = None
        self._file = file = with_types(file, process)
        self._aspects, self._layout = aspects, layout
        self._ranges = CodeRanges()
        calls = Shadows(process, file, {*groups, *of_threads}, self._ranges)
        self.shadows = calls.found(self._aspects)
        parts = member_parts(file)
        accesses = AccessShadows(process, file, calls, parts)
        named = accesses.found(self._aspects)
        aliases = AliasShadows(process, file, calls, [one.instruction.address for one in named])
        self.accesses = (*named, *aliases.found(self._aspects))
        traps = TrappedShadows(process, file, calls, parts)
        self.trapped = traps.variables(self._aspects)
        traps.check_apart(self.trapped, self.accesses)
        self._left_out = [*accesses.left_out, *aliases.left_out, *calls.left_out]
        self._unwinding: Unwinding | None = None
        self._check_calls()
        self._bounds = 0
        self._alike: dict[tuple[CheckedFunction, tuple[MetElement, ...], bool], Advice] = {}
        self._session: AdvisedSession | None = None
        self._asked: list[AspectReport] = []

    def _check_calls(self) -> None:
        """Check that the process may make the system calls by which stacks are copied. Raises TargetError
        `may-not-look`."""
        if self._walks and self.process.may_be_killed():
            why = f"{self.process.who} has a seccomp filter of its own, which may kill it for a copy of its stack"
            raise TargetError("may-not-look", why, "aspects without `walk` and `verify` can be woven")

    def advice(self) -> list[tuple[Shadow, Advice]]:
        return [(shadow, self._advice(shadow)) for shadow in self.shadows]

    def _advice(self, shadow: Shadow) -> Advice:
        """The advice for a function, the same for all functions that are declared alike and match the same elements."""
        met = shadow.met
        alike = met.point, met.elements, met.tracked
        if alike not in self._alike:
            made = woven(self._file, met, self._layout.tables)
            path = Path(self._file.source.name)
            self._alike[alike] = Advice(made.text, WOVEN, made.signature, made.when, path, made.declarations)
        return self._alike[alike]

    def copies(self) -> list[tuple[ShadowCopies, Advice | None]]:
        """The copies of each function, and the advice that they get; None if there are no copies that can have it."""
        found = [shadow_copies(one, self._advice(one)) for one in self.shadows]
        return [(one, self._at_copies(one.shadow) if one.found else None) for one in found]

    def _at_copies(self, shadow: Shadow) -> Advice:
        made = woven_copy(self._file, shadow.met, self._layout.tables)
        return Advice(made.text, WOVEN, made.signature, made.when, Path(self._file.source.name), made.declarations)

    def accessed(self) -> list[AdvisedAccess]:
        made: dict[int, Advice] = {}
        return [
            access_advice(
                self.process,
                one,
                lambda met: made.get(id(met)) or made.setdefault(id(met), self._on_access(met)),
                self._bounds,
            )
            for one in self.accesses
        ]

    def _on_access(self, met: MetAccess) -> Advice:
        made = woven_access(self._file, met, self._layout.tables)
        return Advice(made.text, WOVEN, made.signature, made.when, Path(self._file.source.name), made.declarations)

    def _on_trapped(self, one: TrappedVariable) -> TrappedMemory:
        read, write = (None if met is None else self._on_access(met) for met in (one.read, one.write))
        return TrappedMemory(one.pieces, read, write)

    def dry(self) -> Iterator[DryShadow]:
        """The functions and accesses that would be woven; the process is not touched. Raises CompileError, ImageError,
        TargetError."""
        from gilk.engines.aspect.dry_run import DryRun  # late: it is for this alone

        accesses = zip(self.accesses, self.accessed(), strict=True)
        calls = zip(self.advice(), self.copies(), strict=True)
        trapped = [(one, self._on_trapped(one)) for one in self.trapped]
        run = DryRun(self.process, ((*one, *copies) for one, copies in calls), accesses, self.left_out, trapped)
        return run.shadows()

    @property
    def over(self) -> bool:
        """Whether the process has ended, or executes another program."""
        process = self.process
        return not process.alive or (process.launched and process.wait() is not None) or not process.keeper.is_present()

    def share(self, memory: CommonMemory, threads: int = 1024) -> None:
        """Give the process its part of the state, and map the common part. Call it before weave().

        Raises UsageError, TargetError; then unweave() has to be called.
        """
        size = private_size(self._ranges)
        points = _POINTS + len(self.accesses)
        self._unwinding = Unwinding(self.process) if self._walks else None
        unwind = self._unwinding.room if self._unwinding is not None else 0
        self._session = session = AdvisedSession(self.process, points, threads, _RING, size + unwind, self._made)
        own = mask(self.groups, [one.name for one in self._file.groups])
        session.private[:size] = private_part(self._layout, self._aspects, self._ranges, session.clock, unwind, own)
        if self._unwinding is not None:
            self._unwinding.place(session.private[size : size + unwind])
        self._bounds = session.share(memory) + BOUNDS
        self._reports = ReportReader(session.stored, _Naming(self.process))

    @property
    def _elements(self) -> Iterator[MetElement]:
        """The elements that match calls or accesses in this process; some come several times."""
        for shadow in self.shadows:
            yield from shadow.met.elements
        for met in (met for one in self.accesses for met in (one.read, one.write) if met is not None):
            yield from met.elements
        for one in self.trapped:
            yield from one.elements

    @property
    def _walks(self) -> bool:
        """Whether the C in this process walks stacks."""
        return any(one.walks for one in self._elements)

    def weave(self) -> None:
        """Put everything in, in one change; the common state says which aspects are on.

        Raises UsageError, CompileError, TargetError; then unweave() has to be called.
        """
        copies = self.copies()
        for one, _ in copies:
            one.check()
        self._left_out += left_out(one for one, _ in copies)
        copied = [each for one, made in copies if made is not None for each in one.advised(made)]
        calls = [
            AdvisedCalls(shadow.view.entry, advice, shadow.met.number, shadow.met.function, shadow.met.partial)
            for shadow, advice in self.advice()
            if not isinstance(shadow.view, OnlyInlined)
        ]
        asks = verifies(tuple(self._elements)) or any(one.met.tracked for one in self.shadows)
        self.session.advise_all(calls, self.accessed(), leaving(self.process) if asks else (), copied)
        self.session.trap([self._on_trapped(one) for one in self.trapped])

    def stay(self) -> None:
        """Have everything stay when gilk is killed, for as long as the common state says so. Raises TargetError."""
        self.process.keeper.stay(self._bounds - BOUNDS + STAYS)

    def under_way(self, off: bool) -> list[str]:
        """The names of functions with advice whose calls are under way.

        ``off``: if there are none, switch all aspects off, in all processes, before a thread of this one goes on.
        Raises TargetError.
        """
        if self._session is None or self.over:
            return []
        return self.process.keeper.under_way((self._bounds - BOUNDS) * off)

    def reports(self, final: bool = False) -> list[WovenReport]:
        """The reports since the last call, in order of time."""
        if self._session is None:
            return []
        if self._unwinding is not None and not final:
            self._unwinding.follow()
        found = self._reports.reports(self._session.records_taken(final))
        self._asked += [one for one in found if one.change is not None]
        return [self._told(one) for one in found if one.change is None]

    def changes(self) -> list[GroupChange]:
        """The changes of groups that advice has asked for, in the records that reports() has read.

        Group numbers that the file does not have are skipped: a program has written them into gilk's memory.
        """
        found, self._asked = self._asked, []
        groups = [one.name for one in self._file.groups]
        return [
            GroupChange(self.process.pid, groups[one.group], one.value, one.change is ChangeKind.JOIN)
            for one in found
            if one.group < len(groups)
        ]

    def _told(self, one: AspectReport) -> WovenReport:
        clock = self.session.clock
        known = one.aspect < len(self._aspects)
        aspect = self._aspects[one.aspect] if known else None
        elements = aspect.elements if aspect is not None else ()
        line = self._file.source.line(elements[one.element].span) if one.element < len(elements) else 0
        at = clock.ns0 + int((one.tick - clock.tsc0) / clock.ticks_per_ns)
        return WovenReport(at, one.pid, one.tid, aspect.label if aspect is not None else "", line, one.text)

    def summary(self) -> WovenSummary:
        """The numbers of what was woven, and notes. Raises TargetError if nothing was woven."""
        session = self.session
        drain = session.drain
        accesses = len(self.accesses) - len(session.left_out)
        return WovenSummary(
            self.process.pid, self.functions, session.restored, drain.nested(), drain.drops(), drain.lost(),
            (*self._notes(), *session.notes, *(f"left out: {one}" for one in self.left_out)), accesses, drain.skipped(),
            len(self.trapped),
        )  # fmt: skip

    def _notes(self) -> Iterator[str]:
        if self.age is not None:
            yield f"woven {self.age:.2f} s after it had begun: calls before that went without advice"

    @property
    def functions(self) -> int:
        """How many functions have advice."""
        return len(self.shadows) - (len(self._session.calls_left_out) if self._session is not None else 0)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Messages about accesses and functions that are left out, since their aspects are `partial`."""
        session = self._session
        if session is None:
            return tuple(self._left_out)
        return (*self._left_out, *session.left_out, *session.calls_left_out, *session.copies_left_out)

    @property
    def session(self) -> AdvisedSession:
        assert self._session is not None, "nothing is woven"
        return self._session

    def unweave(self) -> None:
        """Take everything out. Raises TargetError."""
        if self._session is not None:
            self._session.end()


class _Naming:
    """Names addresses of a process's code, as image:function+0x12; those of no image are printed as numbers."""

    def __init__(self, process: Process) -> None:
        self._names = SymbolNames(process)

    def __call__(self, address: int) -> str:
        found = self._names.name(address)
        if not found.module:
            self._names.look()  # a library may have been opened since
            found = self._names.name(address)
        inside = f"{found.function}+{found.offset:#x}" if found.function else f"+{found.offset:#x}"
        return f"{found.module}:{inside}" if found.module else f"{address:#x}"
