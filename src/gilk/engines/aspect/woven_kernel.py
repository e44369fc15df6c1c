# SPDX-License-Identifier: LGPL-2.1-or-later
"""The elements of a file of aspects that are placed in a kernel: a module with their code, and the sites that call
it."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property

from gilk.engines.aspect.kernel_replaced import why_not_replaced
from gilk.engines.aspect.kernel_shadows import kernel_shadows, leaving
from gilk.engines.aspect.shadows import Shadow
from gilk.engines.aspect.state import WovenLayout
from gilk.errors import GilkError, MachineGone, UsageError
from gilk.lang.aspect.checked import CheckedFile
from gilk.lang.aspect.code.meeting import NumberedAspect, numbered
from gilk.lang.aspect.kernel.module import MAIN, KernelLimits, kbuild_of, main_text, unit_text, units
from gilk.lang.aspect.lower import automata
from gilk.lang.aspect.woven import DryShadow, WovenElement, WovenReport, WovenSummary
from gilk.session.kernel_session import KernelSession
from gilk.session.places import Place
from gilk.session.request import CallsAt, WantedSite
from gilk.targets.kernel.driver_build import headers_of
from gilk.targets.kernel.link import LocalLink
from gilk.targets.kernel.session_module import SessionModule
from gilk.targets.kernel.target import KernelTarget
from gilk.toolchain.kept_module import kept_module
from gilk.toolchain.kernel_instrument import ModuleFile

_HEAD = 20  # characters before the text of a report: GILK_WHOSE, process, thread
_TEXTS = 3  # the class of records that have reports
_COUNTS = struct.Struct("<4Q")  # struct gilk_module_counts
_PIECE = 1 << 20  # how many bytes are read at once
KERNEL_PID = 0
_FIRST_NAMESPACE = 0xEFFFFFFC  # the inode of the first namespace of processes: PROC_PID_INIT_INO


def check_same_machine(target: KernelTarget) -> None:
    """Check that processes can share a weaving with this kernel: it must be the one they run on, and know them by the
    same numbers.

    Raises UsageError `remote-kernel-only`, `cannot-weave`.
    """
    if not isinstance(target.link, LocalLink):
        why = "elements in processes and in the kernel are woven where gilk itself runs"
        raise UsageError("remote-kernel-only", why, "--on lab has gilk run there")
    if os.stat("/proc/self/ns/pid").st_ino != _FIRST_NAMESPACE:
        why = "gilk runs in a namespace with numbers of processes of its own, and the kernel knows others"
        raise UsageError("cannot-weave", why, "run it outside of the container")


def woven_kernel(target: KernelTarget | None, file: CheckedFile, layout: WovenLayout, both: bool) -> WovenKernel:
    """The kernel's part of a file with confined C. ``both``: processes share its state. Raises UsageError `no-target`,
    and as check_same_machine() and WovenKernel do."""
    if target is None:
        raise UsageError("no-target", f"{file.source.name} has elements in the kernel", "--on lab boots one for them")
    if both:
        check_same_machine(target)
    return WovenKernel(target, file, numbered(file, automata(file)), layout)


class WovenKernel:
    """A kernel with aspects. ``file`` has confined C; ``aspects`` are its aspects.

    Raises UsageError `cannot-weave`, `no-such-function`, TargetError.
    """

    def __init__(
        self, target: KernelTarget, file: CheckedFile, aspects: Sequence[NumberedAspect], layout: WovenLayout
    ) -> None:
        self.target, self._file, self._aspects, self._layout = target, file, aspects, layout
        self.shadows = kernel_shadows(target, file, aspects)
        self._units = units([one.met for one in self.shadows])
        self.refusals = {one.met.number: why for one in self.shadows if (why := self._refusal(one))}
        self._session: KernelSession | None = None
        self._module: SessionModule | None = None
        self._shared = 0  # address of the state in the kernel if processes share it, else 0
        self._counted = (0, 0, 0, 0)
        self._drops = self._nested = 0

    def _refusal(self, shadow: Shadow) -> str:
        unit = next(one for one in self._units if shadow.met in one.functions)
        if unit.replacing and (why := why_not_replaced(shadow.view, self.target.kernel.snapshot.symbols)):
            return f"{shadow.view.name} is not replaced: {why}"
        try:
            self._leaving(shadow) if unit.waits else None
        except UsageError as error:
            return f"{error.message} ({error.slug})"
        return ""

    def _leaving(self, shadow: Shadow) -> list[Place]:
        return leaving(shadow.view)

    @cached_property
    def compiled(self) -> ModuleFile:
        """The kernel module with the code of the elements. Raises CompileError, TargetError `driver-no-headers`."""
        files = {f"unit_{one.number}": unit_text(self._file, one, self._layout.tables) for one in self._units}
        files[MAIN] = main_text(self._aspects, [self._limits(one) for one in self._aspects], self._layout.size)
        return kept_module(files, lambda name: kbuild_of(name, list(files)), headers_of(self.target.release))

    def _limits(self, aspect: NumberedAspect) -> KernelLimits:
        number, instances = aspect.number, aspect.automaton.instances * aspect.is_sequence
        within = int(aspect.automaton.within or 0)
        return KernelLimits(instances, self._layout.instances[number], within, self._layout.index(number))

    def dry(self) -> Iterator[DryShadow]:
        """The functions that would be woven. The kernel is not touched. Raises CompileError."""
        _ = self.compiled
        for one in self.shadows:
            elements = tuple(WovenElement(e.aspect.label, e.number + 1, str(e.moment)) for e in one.met.elements)
            why = self.refusals.get(one.met.number, "")
            yield DryShadow(KERNEL_PID, one.met.image, one.met.function, elements, why)

    def share(self) -> int:
        """A descriptor of memory for the state, which the kernel shares with processes. Call it before weave(), which
        raises the same.

        After it, unweave() has to be called.
        """
        descriptor, self._shared = self._begun().share(self._layout.size)
        return descriptor

    def _begun(self) -> KernelSession:
        """The session in the kernel; all refusals that can be known before anything changes are raised first."""
        if self._session is None:
            for why in self.refusals.values():
                raise UsageError("cannot-weave", why, "`partial` is not for the kernel")
            _ = self.compiled
            self._session = KernelSession(self.target)
        return self._session

    def weave(self) -> None:
        """Put everything in, switched off.

        Raises UsageError `cannot-weave`, CompileError, TargetError; then unweave() has to be called.
        """
        session = self._begun()
        self._module = loaded = session.load(self.compiled, [f"shared={self._shared:#x}"] if self._shared else [])
        wanted = list(self._wanted(loaded))
        for probe in session.insert_sites(wanted):
            if probe.tactic is None:
                raise UsageError(
                    "cannot-weave", f"{probe.row.point} of the kernel cannot have advice: {probe.refusal}",
                    "docs/refusals.md has a paragraph for each reason",
                )  # fmt: skip

    def _wanted(self, module: SessionModule) -> Iterator[WantedSite]:
        for unit in self._units:
            for met in unit.functions:
                shadow = next(one for one in self.shadows if one.met is met)
                yield _site(shadow.view.entry, module.functions[unit.entry], met.number + 1, bool(unit.replacing))
                for place in self._leaving(shadow) if unit.waits else ():
                    yield _site(place, module.functions[unit.leaving], met.number + 1)

    def switch(self, on: int) -> None:
        """Switch aspects, from their next match on; ``on`` has a bit for each that is on.

        If processes share the state, do nothing: the aspects are switched there. Raises TargetError.
        """
        if not self._shared and self._module is not None and self._session is not None and not self._session.closed:
            self._module.set("on", on)

    def read_state(self, view: bytearray | None) -> None:
        """Read the present counts and tables; ``view`` receives those of a state that only the kernel has, else it is
        None. Raises OSError."""
        if self._module is None or self._session is None or self._session.closed:
            return
        if view is not None:
            self._read_tables(self._module.parameter("memory"), view)
        (counts,) = self.target.link.read_core([(self._module.parameter("counts"), _COUNTS.size)])
        self._counted = _COUNTS.unpack(counts)

    def _read_tables(self, at: int, view: bytearray) -> None:
        for first, end in self._layout.told_parts():
            for start in range(first, end, _PIECE):
                size = min(_PIECE, end - start)
                view[start : start + size] = self.target.link.read_core([(at + start, size)])[0]

    def reports(self, final: bool = False) -> list[WovenReport]:
        """The reports since the last call, in order of time."""
        session = self._session
        if session is None or (session.closed and not final):
            return []
        found = [
            report
            for chunk in session.taken(final and not session.closed)
            if chunk.number == _TEXTS
            for record in chunk.records
            if (report := self._told(record["tsc"], record["text"][: int(record["length"])].tobytes())) is not None
        ]
        return sorted(found, key=lambda one: one.at)

    def _told(self, tick: int, content: bytes) -> WovenReport | None:
        assert self._session is not None
        try:
            whose, pid, tid = int(content[:4], 16), int(content[4:12], 16), int(content[12:_HEAD], 16)
        except ValueError:
            return None
        aspect, element = self._aspects[whose & 0xFF], whose >> 8
        line = self._file.source.line(aspect.elements[element].span)
        clock = self._session.clock
        at = clock.ns0 + int((int(tick) - clock.tsc0) / clock.ticks_per_ns)
        return WovenReport(at, pid, tid, aspect.label, line, content[_HEAD:].decode("utf-8", "backslashreplace"))

    @property
    def functions(self) -> int:
        return len(self.shadows)

    def summary(self) -> WovenSummary:
        session = self._session
        inside, unread, crowded, _ = self._counted
        notes = []
        if unread:
            notes.append(f"{unread} times memory that a condition asks for could not be read: no match")
        if crowded:
            notes.append(f"{crowded} calls whose return was not waited for: too many were under way")
        restored = session.restored if session is not None else None
        return WovenSummary(KERNEL_PID, len(self.shadows), restored, inside, self._drops, 0, tuple(notes))

    def unweave(self) -> list[WovenReport]:
        """Take everything out; returns the last reports. Raises TargetError."""
        session = self._session
        if session is None or session.closed:
            return []
        left: list[WovenReport] = []
        try:
            session.take_out()
            left = self.reports(final=True)
            self._drops = session.drain.drops()
        except MachineGone:
            session.salvage()
            raise
        finally:
            session.close()
        return left

    def abandon(self) -> None:
        """Take everything out as far as possible."""
        with suppress(GilkError, OSError):
            self.unweave()


def _site(place: Place, function: int, number: int, replaces: bool = False) -> WantedSite:
    return WantedSite(place.loaded, place.function, place.point, CallsAt(function, number, replaces))


__all__ = ["KERNEL_PID", "WovenKernel", "check_same_machine"]
