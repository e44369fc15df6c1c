# SPDX-License-Identifier: LGPL-2.1-or-later
"""The C of a file of aspects, as it would be in a program that has one function, and one variable, of each name in the
file. There is no process: variables begin at 0, and no code is known that callers could be compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from gilk.analysis.model import Function
from gilk.engines.aspect.access_shadows import AccessShadows
from gilk.engines.aspect.alias_shadows import AliasShadows
from gilk.engines.aspect.checked import check
from gilk.engines.aspect.kernel_part import confined_file
from gilk.engines.aspect.shadows import Shadows
from gilk.engines.aspect.state import CodeRanges, WovenLayout
from gilk.engines.aspect.variables import FoundVariable, VariablePart
from gilk.errors import UsageError
from gilk.image.model import ElfSymbol, SymbolKind
from gilk.lang.aspect.checked import KERNEL_GROUP, CheckedCode, CheckedFile, CheckedFunction
from gilk.lang.aspect.code.accessing import MetAccess, woven_access
from gilk.lang.aspect.code.meeting import NumberedAspect, numbered
from gilk.lang.aspect.code.unit import WovenText, woven
from gilk.lang.aspect.kernel.module import unit_text, units
from gilk.lang.aspect.lower import automata
from gilk.session.places import FunctionView
from gilk.targets.base import Loaded
from gilk.values import dataclass

_APART = 16  # bytes between two functions
_NOWHERE = Path("/nonexistent")
_PLACES = (("", ""),)  # the functions, by image and name, that make accesses


@dataclass(frozen=True, slots=True)
class EmittedC:
    """The C for ``what``, which is a function, or the accesses of a variable. ``woven`` is for processes; in the kernel
    it is None, and ``text`` is all."""

    what: str
    text: str
    woven: WovenText | None = None


def emitted(path: Path) -> tuple[EmittedC, ...]:
    """The C of the file at ``path``: of functions in processes, of accesses, and of functions in the kernel; () if the
    file has errors. Raises UsageError `cannot-weave`, OSError if the file cannot be read."""
    found = check(path).check.file
    return () if found is None else tuple(_Emitting(found).all())


class _Emitting:
    def __init__(self, file: CheckedFile) -> None:
        self._file = file
        self._aspects = numbered(file, automata(file))
        self._tables = WovenLayout(self._aspects, file.tables).tables

    def all(self) -> Iterator[EmittedC]:
        file, calls = self._file, _Calls(self._file, False)
        for one in calls.found(self._aspects):
            yield _of(f"{one.met.image}:{one.met.function}", woven(file, one.met, self._tables))
        variables = (*_Variables(file, calls).mets(self._aspects), *_Trapped(file, calls).mets(self._aspects))
        accesses = (*variables, *_Memory(file, calls).mets(self._aspects))
        for met in accesses:
            what = f"{'writes' if met.write else 'reads'} of {'memory at ' * met.by_address}{met.point.name}"
            yield _of(what, woven_access(file, met, self._tables))
        yield from self._of_kernel()

    def _of_kernel(self) -> Iterator[EmittedC]:
        of_kernel = [one for one in self._aspects if any(each.kernel for each in one.elements)]
        if not of_kernel:
            return
        confined = confined_file(self._file, replaces=True)
        aspects = numbered(confined, automata(confined))
        shadows = _Calls(confined, True).found([one for one in aspects if any(each.kernel for each in one.elements)])
        for unit in units([one.met for one in shadows]):
            names = ", ".join(one.function for one in unit.functions)
            yield EmittedC(f"kernel:{names}", unit_text(confined, unit, self._tables))


def _of(what: str, made: WovenText) -> EmittedC:
    return EmittedC(what, f"{made.declarations}{made.text}\n", made)


class _NoProcess:
    """A process that does not exist."""

    who = "no process"

    def loaded(self) -> tuple[Loaded, ...]:
        return ()

    def image(self, path: Path) -> NoReturn:
        raise UsageError("no-such-image", f"there is no {path}")

    def analysis(self, loaded: Loaded) -> NoReturn:
        raise UsageError("no-such-image", f"there is no {loaded.name}")


class _Calls(Shadows):
    """The functions that a file names; each exists once, and has no code."""

    def __init__(self, file: CheckedFile, kernel: bool) -> None:
        groups = [KERNEL_GROUP] if kernel else [one.name for one in file.groups]
        super().__init__(_NoProcess(), file, groups, CodeRanges(), kernel)
        self._starts: dict[tuple[str, str], int] = {}

    def _functions_meant(self, point: CheckedFunction) -> list[FunctionView]:
        image = point.image or ("kernel" if self._kernel else "program")
        start = self._starts.setdefault((image, point.name), _APART * (1 + len(self._starts)))
        function = Function(point.name, start, start + 1, (), (), (), (), False, frozenset(), b"")
        return [FunctionView(self._process, Loaded(_NOWHERE / image, 0, 0, 0, False), function)]

    def _check_stays(self, aspect: NumberedAspect, point: CheckedFunction, view: FunctionView) -> None:
        """Every function stays on the stack."""

    def _extents(self, view: FunctionView) -> Iterator[tuple[int, int]]:
        return iter(())

    def ranges_of(self, callers: Sequence[CheckedCode]) -> Iterator[tuple[int, int]]:
        return iter(())


class _Variables(AccessShadows):
    """The variables that a file names."""

    def __init__(self, file: CheckedFile, calls: _Calls) -> None:
        super().__init__(_NoProcess(), file, calls, {})

    def mets(self, aspects: Sequence[NumberedAspect]) -> Iterator[MetAccess]:
        named = list(self._all(aspects))
        for path, write in dict.fromkeys((one.point.path, one.point.write) for one in named):
            here = [one for one in named if (one.point.path, one.point.write) == (path, write)]
            size = here[0].point.type.size or 8
            symbol = ElfSymbol(path, 0, size, SymbolKind.OBJECT, False, False)
            variable = FoundVariable(Loaded(_NOWHERE / "program", 0, 0, 0, False), symbol)
            met = self._met(variable, VariablePart(0, size), write, here, _PLACES)
            yield replace(met, trapped=self._by_debugreg)


class _Trapped(_Variables):
    """The variables that a file names in aspects that say `debugreg`."""

    _by_debugreg = True


class _Memory(AliasShadows):
    """The memory that a file names by its address."""

    def __init__(self, file: CheckedFile, calls: _Calls) -> None:
        super().__init__(_NoProcess(), file, calls, ())

    def mets(self, aspects: Sequence[NumberedAspect]) -> Iterator[MetAccess]:
        watching = list(self._all(aspects))
        for write in (False, True):
            met = self._met(write, tuple(one for one in watching if one.point.write is write), {_PLACES[0]: 0})
            if met is not None:
                yield met
