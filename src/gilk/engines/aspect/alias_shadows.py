# SPDX-License-Identifier: LGPL-2.1-or-later
"""Shadows of accesses by address: any instruction in the code that elements name may access the memory that instances
watch."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from gilk.analysis.accesses import VariableAccess
from gilk.analysis.memory_sites import memory_sites
from gilk.analysis.memory_uses import OperandManner, is_plain_store, reads_string
from gilk.engines.aspect.access_shadows import MEANS, VOID, WORD, AccessShadow, left_out, place_at, place_of
from gilk.engines.aspect.shadows import Shadows
from gilk.engines.aspect.variables import LoadedAccess
from gilk.errors import UsageError
from gilk.lang.aspect.automaton import Moment
from gilk.lang.aspect.checked import CheckedAlias, CheckedCode, CheckedFile, CheckedFunction
from gilk.lang.aspect.code.accessing import MetAccess
from gilk.lang.aspect.code.meeting import NumberedAspect, value_of
from gilk.splice.access import AccessingInstruction, Means
from gilk.targets.base import Code, Loaded
from gilk.values import dataclass

_ANYWHERE = (CheckedCode("*", ""),)
Functions = dict[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class _Watching:
    """An alternative of an element that matches accesses of memory by its address. ``ranges``: addresses of the code
    whose accesses match."""

    aspect: NumberedAspect
    element: int
    which: int
    point: CheckedAlias
    ranges: tuple[tuple[int, int], ...]

    def has(self, address: int) -> bool:
        return any(low <= address < high for low, high in self.ranges)


class AliasShadows:
    """Finds the instructions of a process that may access watched memory.

    ``calls``: the shadows of the calls of the same file. ``taken``: addresses of instructions that have advice already,
    as accesses of variables.
    """

    def __init__(self, process: Code, file: CheckedFile, calls: Shadows, taken: Collection[int]) -> None:
        self._process, self._file, self._calls = process, file, calls
        self._taken = frozenset(taken)
        self._mets: dict[tuple[bool, tuple[tuple[int, int, int], ...]], MetAccess | None] = {}
        self.left_out: list[str] = []  # messages about accesses that are left out, since their aspects are `partial`

    def found(self, aspects: Sequence[NumberedAspect]) -> tuple[AccessShadow, ...]:
        """The shadows in order of address. Raises UsageError `atomic-access`, `split-access`, `strange-access`,
        `cannot-weave`."""
        watching = list(self._all(aspects))
        if not watching:
            return ()
        sites = [each for loaded in self._process.loaded() for each in self._sites(loaded, watching)]
        functions: Functions = {}
        for one in sites:
            functions.setdefault((one.loaded.name, one.access.function.name), len(functions))
        return tuple(each for one in sites for each in self._shadow(one, watching, functions))

    def _all(self, aspects: Sequence[NumberedAspect]) -> Iterator[_Watching]:
        for one in self._calls.placed(aspects):
            point = one.alternative.point
            if isinstance(point, CheckedAlias):
                ranges = tuple(sorted(set(self._calls.ranges_of(one.alternative.within or _ANYWHERE))))
                yield _Watching(one.aspect, one.element, one.which, point, ranges)

    def _sites(self, loaded: Loaded, watching: Sequence[_Watching]) -> Iterator[LoadedAccess]:
        bias = loaded.bias
        ranges = {
            (low - bias, high - bias) for one in watching for low, high in one.ranges
            if low < loaded.end and loaded.start < high
        }  # fmt: skip
        for site in memory_sites(self._process.analysis(loaded), ranges) if ranges else ():
            if isinstance(site, VariableAccess):
                yield LoadedAccess(loaded, site)
                continue
            place = place_at(loaded, site.function, site.address)
            here = [one for one in watching if one.has(site.address + bias)]
            self._refuse(self._refused("strange-access", here[0], f"where {place} jumps is not known"), here)

    def _shadow(
        self, where: LoadedAccess, watching: Sequence[_Watching], functions: Functions
    ) -> Iterator[AccessShadow]:
        access = where.access
        address, use = access.instruction.ip + where.loaded.bias, access.use
        here = [one for one in watching if one.has(address)]
        reads = tuple(one for one in here if not one.point.write and (use.reads or reads_string(access.instruction)))
        writes = tuple(one for one in here if one.point.write and use.writes)
        if not reads and not writes:
            return
        met = self._met(False, reads, functions), self._met(True, writes, functions)
        try:
            made = self._instruction(where, (*reads, *writes), met)
        except UsageError as error:
            self._refuse(error, (*reads, *writes))
            return
        yield AccessShadow(where, made, *met, functions[where.loaded.name, access.function.name], True)

    def _met(self, write: bool, ways: tuple[_Watching, ...], functions: Functions) -> MetAccess | None:
        if not ways:
            return None
        key = write, tuple((one.aspect.number, one.element, one.which) for one in ways)
        if key not in self._mets:
            first = ways[0].point
            result, given = (VOID, (WORD,)) if write else (WORD, ())
            point = CheckedFunction("", first.address, True, result, given, False, first.span)
            self._check_values(ways)
            elements = tuple(self._calls.elements(ways))
            self._mets[key] = MetAccess(0, 0, write, False, point, elements, tuple(functions), True)
        return self._mets[key]

    def _check_values(self, ways: Sequence[_Watching]) -> None:
        """Check that the alternatives of each element have values of one type. Raises UsageError `cannot-weave`."""
        first: dict[tuple[int, int], str] = {}
        for one in ways:
            text = value_of(one.point).text
            if first.setdefault((one.aspect.number, one.element), text) != text:
                why = "values of different types match one element"
                raise self._refused("cannot-weave", one, why, "make two aspects of it")

    def _instruction(
        self, where: LoadedAccess, ways: Sequence[_Watching], met: tuple[MetAccess | None, MetAccess | None]
    ) -> AccessingInstruction:
        """The instruction with the way in which advice can be put on it. Raises UsageError if it cannot have the advice
        of the elements."""
        access, use, place = where.access, where.access.use, place_of(where)
        instruction = access.instruction
        means = MEANS.get(use.manner)
        if use.manner is OperandManner.STRING and is_plain_store(instruction) and met[0] is None:
            means = None if access.function.turns else Means.STRING
        if means is None:
            why = f"which bytes {place} accesses is not known: {instruction}"
            raise self._refused("strange-access", ways[0], why)
        if instruction.ip + where.loaded.bias in self._taken:
            raise self._refused("split-access", ways[0], f"{place} accesses one of the file's variables")
        for one in met:
            if one is not None:
                self._check(one, where, means, ways[0])
        raw = self._process.image(where.loaded.path).read(instruction.ip, instruction.len)
        return AccessingInstruction(instruction, raw, where.loaded.bias, means, use.reads, use.writes, use.size)

    def _check(self, met: MetAccess, where: LoadedAccess, means: Means, way: _Watching) -> None:
        use, what = where.access.use, f"{place_of(where)}: {where.access.instruction}"
        if means is Means.STRING:
            if met.needs_bytes or (met.replaces and met.at(Moment.AFTER)):
                raise self._refused("strange-access", way, f"nobody knows what is written at {what}")
            return
        if means is not Means.EXCHANGED and met.replaces:
            raise self._refused("atomic-access", way, f"advice cannot stand in place of {what}")
        if means is Means.OBSERVED and met.write and met.needs_value:
            raise self._refused("atomic-access", way, f"nobody knows before what is written at {what}")
        if met.gives_value and use.size > min(_given(met), default=use.size):
            raise self._refused("split-access", way, f"{use.size} bytes are accessed, more than a value has, at {what}")

    def _refused(self, slug: str, one: _Watching, why: str, hint: str = "") -> UsageError:
        line = self._file.source.line(one.point.span)
        hint = hint or "`partial` does without, or in(...) names other code"
        return UsageError(slug, f"{self._file.source.name}, line {line}: {why}", hint)

    def _refuse(self, error: UsageError, ways: Sequence[_Watching]) -> None:
        """Raise the error, or note what is left out if all aspects are `partial`."""
        self.left_out.append(left_out(error, (one.aspect for one in ways)))


def _given(met: MetAccess) -> Iterator[int]:
    """The sizes, in bytes, of the values that advice in place gives."""
    for one in met.elements:
        if one.advice is not None and one.advice.when == "inplace" and one.value is not None:
            yield one.value.size or 0
