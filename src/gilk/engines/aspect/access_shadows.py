# SPDX-License-Identifier: LGPL-2.1-or-later
"""Access shadows: instructions of a process that may read or write variables which elements of aspects name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from gilk.analysis.accesses import Escape
from gilk.analysis.memory_uses import OperandManner
from gilk.analysis.model import Function
from gilk.engines.aspect.shadows import Shadows
from gilk.engines.aspect.variables import (
    FoundVariable,
    LoadedAccess,
    VariablePart,
    find_variable,
    loaded_accesses,
)
from gilk.errors import UsageError
from gilk.lang.aspect.checked import (
    CheckedAlternative,
    CheckedFile,
    CheckedFunction,
    CheckedGlobal,
    CheckedType,
    last_of,
)
from gilk.lang.aspect.code.accessing import MetAccess
from gilk.lang.aspect.code.meeting import MetElement, NumberedAspect
from gilk.session.advising import Advice, AdvisedAccess
from gilk.session.places import Place
from gilk.splice.access import AccessingInstruction, Means
from gilk.splice.points import Point
from gilk.targets.base import Code, Loaded
from gilk.values import dataclass

_WORDS = (1, 2, 4, 8)
VOID = CheckedType("void")
WORD = CheckedType("unsigned long", None, 8)
MEANS = {
    OperandManner.PLAIN: Means.EXCHANGED, OperandManner.TIED: Means.READ_ONCE,
    OperandManner.ATOMIC: Means.OBSERVED,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class AccessShadow:
    """An instruction, and what matches when it reads and when it writes.

    ``number``: the number by which the C of both knows the instruction's function. ``by_address``: the instruction may
    access any memory, so that its address has to be compared.
    """

    where: LoadedAccess
    instruction: AccessingInstruction
    read: MetAccess | None
    write: MetAccess | None
    number: int
    by_address: bool = False


@dataclass(frozen=True, slots=True)
class NamedAccess:
    """An alternative of an element that matches accesses of a variable."""

    aspect: NumberedAspect
    element: int
    which: int
    point: CheckedGlobal

    @property
    def alternative(self) -> CheckedAlternative:
        return self.aspect.elements[self.element].alternatives[self.which]


class AccessShadows:
    """Finds the instructions of a process that access named variables.

    ``calls``: the shadows of the calls of the same file, which know the functions of control flows. ``parts``: by path
    of a member, its place in its variable.
    """

    _by_debugreg = False  # whether the elements meant are those of aspects that say `debugreg`

    def __init__(self, process: Code, file: CheckedFile, calls: Shadows, parts: dict[str, VariablePart]) -> None:
        self._process, self._file, self._calls, self._parts = process, file, calls, parts
        self.left_out: list[str] = []  # messages about accesses that are left out, since their aspects are `partial`

    def found(self, aspects: Sequence[NumberedAspect]) -> tuple[AccessShadow, ...]:
        """The shadows in order of address.

        Raises UsageError `no-such-variable`, `ambiguous-variable`, `escapes`, `atomic-access`, `split-access`,
        `strange-access`, `cannot-weave`.
        """
        found: dict[int, AccessShadow] = {}
        for variable, part, named in self._by_place(aspects):
            for shadow in self._of_variable(variable, part, named):
                self._add(found, shadow, named[0])
        return tuple(one for _, one in sorted(found.items()))

    def _by_place(
        self, aspects: Sequence[NumberedAspect]
    ) -> Iterable[tuple[FoundVariable, VariablePart, list[NamedAccess]]]:
        """The variables, or members, each with the alternatives that name it."""
        by_place: dict[tuple[int, int], tuple[FoundVariable, VariablePart, list[NamedAccess]]] = {}
        for one in self._all(aspects):
            variable, part = self._variable(one.point)
            key = variable.address + part.offset, part.size
            by_place.setdefault(key, (variable, part, []))[2].append(one)
        return by_place.values()

    def _add(self, found: dict[int, AccessShadow], shadow: AccessShadow, named: NamedAccess) -> None:
        address = shadow.where.access.instruction.ip + shadow.where.loaded.bias
        if address in found:
            raise self._refused("split-access", named.point, f"{place_of(shadow.where)} may reach two of the variables")
        found[address] = shadow

    def _all(self, aspects: Sequence[NumberedAspect]) -> Iterator[NamedAccess]:
        for one in self._calls.placed(aspects):
            last = last_of(one.alternative.point)
            if isinstance(last, CheckedGlobal) and one.aspect.checked.debugreg is self._by_debugreg:
                yield NamedAccess(one.aspect, one.element, one.which, last)

    def _variable(self, point: CheckedGlobal) -> tuple[FoundVariable, VariablePart]:
        name, _, members = point.path.partition(".")
        try:
            variable = find_variable(self._process, name, point.image)
        except UsageError as error:
            error.message = f"{self._line(point)}: {error.message}"
            raise
        part = self._parts[point.path] if members else VariablePart(0, variable.symbol.size)
        size = point.type.size
        if size is not None and size != part.size:
            raise self._refused(
                "cannot-weave", point, f"{point.path} has {part.size} bytes, and {point.type.text} has {size}",
                "declare it as the program does",
            )  # fmt: skip
        return variable, part

    def _of_variable(
        self, variable: FoundVariable, part: VariablePart, named: Sequence[NamedAccess]
    ) -> Iterator[AccessShadow]:
        found, escapes = loaded_accesses(self._process, variable, part)
        if escapes:
            self._refuse(self._escaped(escapes, named[0].point), named)
        functions = tuple(dict.fromkeys((one.loaded.name, one.access.function.name) for one in found))
        mets: dict[tuple[bool, tuple[NamedAccess, ...]], MetAccess | None] = {}
        for where in found:
            use = where.access.use
            sides: list[MetAccess | None] = []
            for write in (False, True):
                here = tuple(one for one in named if one.point.write is write and self._is_in(one, where))
                if (write, here) not in mets:
                    mets[write, here] = self._met(variable, part, write, here, functions) if here else None
                sides.append(mets[write, here] if (use.writes if write else use.reads) else None)
            if sides[0] is not None or sides[1] is not None:
                number = functions.index((where.loaded.name, where.access.function.name))
                try:
                    shadow = self._shadow(where, sides[0], sides[1], number, named[0], part)
                except UsageError as error:
                    self._refuse(error, named)
                    continue
                yield shadow

    def _escaped(self, escapes: Sequence[tuple[Loaded, Escape]], point: CheckedGlobal) -> UsageError:
        loaded, one = escapes[0]
        place = f"{loaded.name}:{one.function or 'data'} at {one.address:#x}"
        more = f", and {len(escapes) - 1} more" if len(escapes) > 1 else ""
        return self._refused(
            "escapes", point, f"an address of {point.path} gets out of sight: {place}, {one.how}{more}",
            "`partial` does without the accesses of those who have it then",
        )  # fmt: skip

    def _refuse(self, error: UsageError, named: Sequence[NamedAccess]) -> None:
        """Raise the error, or note what is left out if all aspects are `partial`."""
        self.left_out.append(left_out(error, (one.aspect for one in named)))

    def _is_in(self, one: NamedAccess, where: LoadedAccess) -> bool:
        """Whether the instruction is in the code that the alternative names by ``in(...)``."""
        within = one.alternative.within
        address = where.access.instruction.ip + where.loaded.bias
        return not within or any(low <= address < high for low, high in self._calls.ranges_of(within))

    def _met(
        self, variable: FoundVariable, part: VariablePart, write: bool, named: Sequence[NamedAccess],
        functions: tuple[tuple[str, str], ...],
    ) -> MetAccess:  # fmt: skip
        first = named[0].point
        for one in named:
            if one.point.type.text != first.type.text:
                why = f"{first.path} has another type elsewhere in the file"
                raise self._refused("cannot-weave", one.point, why, "declare it alike")
        value = first.type if first.type.size in _WORDS else WORD
        point = CheckedFunction(
            first.image, first.path, True, VOID if write else value, (value,) if write else (), False, first.span
        )
        elements = tuple(self._calls.elements(named))
        whole = value is first.type
        return MetAccess(variable.address + part.offset, part.size, write, whole, point, elements, functions)

    def _shadow(
        self, where: LoadedAccess, read: MetAccess | None, write: MetAccess | None, number: int, named: NamedAccess,
        part: VariablePart,
    ) -> AccessShadow:  # fmt: skip
        access, use = where.access, where.access.use
        means = MEANS.get(use.manner)
        place = place_of(where)
        if means is None:
            raise self._refused(
                "strange-access", named.point, f"which bytes {place} accesses is not known: {access.instruction}"
            )
        for met in (read, write):
            if met is not None:
                self._check(met, where, means, part)
        instruction = access.instruction
        raw = self._process.image(where.loaded.path).read(instruction.ip, instruction.len)
        made = AccessingInstruction(instruction, raw, where.loaded.bias, means, use.reads, use.writes, use.size)
        return AccessShadow(where, made, read, write, number)

    def _check(self, met: MetAccess, where: LoadedAccess, means: Means, part: VariablePart) -> None:
        span = next((one for one in met.elements if one.advice is not None), met.elements[0])
        use, place = where.access.use, place_of(where)
        if means is not Means.EXCHANGED and met.replaces:
            raise self._refused_at("atomic-access", span, f"{place} needs the variable: {where.access.instruction}")
        if means is Means.OBSERVED and met.write and met.needs_value:
            raise self._refused_at(
                "atomic-access", span, f"nobody knows before what {place} writes: {where.access.instruction}"
            )
        partial = use.size < part.size if met.whole else use.size > 8
        if met.replaces and partial:
            why = f"{place} accesses {use.size} bytes: {where.access.instruction}"
            raise self._refused_at("split-access", span, why)

    def _refused(self, slug: str, point: CheckedGlobal, why: str, hint: str = "") -> UsageError:
        return UsageError(slug, f"{self._line(point)}: {why}", hint)

    def _refused_at(self, slug: str, one: MetElement, why: str) -> UsageError:
        source = self._file.source
        hint = "advice before and after can be had"
        return UsageError(slug, f"{source.name}, line {source.line(one.checked.span)}: {why}", hint)

    def _line(self, point: CheckedGlobal) -> str:
        return f"{self._file.source.name}, line {self._file.source.line(point.span)}"


def place_of(where: LoadedAccess) -> str:
    return place_at(where.loaded, where.access.function, where.access.instruction.ip)


def place_at(loaded: Loaded, function: Function, address: int) -> str:
    return f"{loaded.name}:{function.name}+{address - function.start:#x}"


def left_out(error: UsageError, aspects: Iterable[NumberedAspect]) -> str:
    """The message of an error about an access that is left out. Raises the error unless all the aspects are
    `partial`."""
    if not all(one.checked.partial for one in aspects):
        raise error
    return f"{error.message} ({error.slug})"


def access_advice(process: Code, one: AccessShadow, made: Callable[[MetAccess], Advice], bounds: int) -> AdvisedAccess:
    """The advice on an access, in the form that sessions take.

    ``made``: returns the advice for what matches. ``bounds``: the address in the process of the bounds of all watched
    memory, 0 if there is none yet.
    """
    function, address = one.where.access.function, one.where.access.instruction.ip
    point = Point(one.where.loaded.name, function.name, f"+{address - function.start:#x}", address, False)
    place = Place(process, one.where.loaded, function, point)
    read, write = (None if met is None else made(met) for met in (one.read, one.write))
    replaces = any(met is not None and met.replaces for met in (one.read, one.write))
    partial = one.by_address and all(
        each.aspect.checked.partial for met in (one.read, one.write) if met is not None for each in met.elements
    )
    return AdvisedAccess(
        place, one.instruction, read, write, replaces, one.number, bounds if one.by_address else 0, partial
    )
