# SPDX-License-Identifier: LGPL-2.1-or-later
"""Variables of functions at probes: where debug information places them at the instruction, or why they cannot be had.

Nothing is assumed that debug information does not say: at -O0 it places a variable in a frame that the function has yet
to make, so there the code is looked at, too (analysis/first_stores.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from iced_x86 import Instruction

from gilk.analysis.first_stores import Written, frame_written, register_written
from gilk.analysis.graph import REGISTERS
from gilk.engines.dtrace.image_debug import ImageDebug, image_debug
from gilk.engines.dtrace.local_expressions import PlacedLocal, Unplaced, Why, placed, pointer_to
from gilk.engines.dtrace.local_frame import LocalFrame
from gilk.errors import ImageError
from gilk.image.dwarf.arguments import arguments
from gilk.image.dwarf.locations import AT_LOCATION, constant, expression
from gilk.image.dwarf.variables import FunctionScope, ScopedVariable
from gilk.image.value_place import RBP, RSP
from gilk.lang.facts import CALL_ARGUMENTS
from gilk.lang.ir import Constant
from gilk.lang.machine import Reg
from gilk.lang.types import UINT64, Record, Type, size_of
from gilk.providers.probe import ProbeSite
from gilk.targets import lines
from gilk.targets.base import Code
from gilk.values import dataclass

_PASSED_IN = frozenset(REGISTERS.index(name) for name in CALL_ARGUMENTS)
_WORD = 8
_LATEST = 1 << 31  # of several statements that begin at one instruction, the view of the last


#: Parts of a variable, each with its offset and its size in bytes.
Parts = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class LocalPlace:
    """A variable at a probe: its type and its place; without a place the reason."""

    type: Type | None
    placed: PlacedLocal | None
    why: Why | None = None

    @property
    def is_declared(self) -> bool:
        return self.why not in (Why.NO_DEBUG_INFORMATION, Why.NOT_IN_SCOPE)


class Whereabouts:
    """The instruction of a probe, and the variables in scope there."""

    def __init__(self, code: Code, site: ProbeSite) -> None:
        self._code, self._loaded, self.address = code, site.loaded, site.point.address
        self._is_after = site.point.after

    @cached_property
    def _debug(self) -> ImageDebug | None:
        return image_debug(self._loaded.path)

    @cached_property
    def scope(self) -> FunctionScope | None:
        try:
            return self._debug.variables.scope(self.address) if self._debug is not None else None
        except ImageError:
            return None

    def named(self) -> list[tuple[str, str]]:
        """The variables in scope, each by the function inlined here whose it is, "" for the one around, and by its
        name."""
        found = self.scope.variables if self.scope is not None else ()
        return list(dict.fromkeys((each.inlined, each.name) for each in found))

    def names(self, function: str) -> list[str]:
        """The names of the variables in scope."""
        return [name for inlined, name in self.named() if inlined == function]

    def inlined_with(self, name: str) -> list[str]:
        """The functions inlined here that have a variable of that name."""
        return [inlined for inlined, each in self.named() if inlined and each == name]

    def local(self, function: str, name: str) -> LocalPlace:
        """The variable ``name`` of the function around, or of ``function``, which is inlined here."""
        if self.scope is None or self._debug is None:
            return LocalPlace(None, None, Why.NO_DEBUG_INFORMATION)
        type_: Type | None = None
        try:
            variable = self._chosen(self.scope, function, name)
            type_ = self._debug.types.of(variable.declared)
            return LocalPlace(type_, self._placed(self.scope, variable, type_))
        except Unplaced as error:
            return LocalPlace(type_, None, error.why)
        except ImageError:
            return LocalPlace(type_, None, Why.COMPUTED)

    def _chosen(self, scope: FunctionScope, function: str, name: str) -> ScopedVariable:
        """The variable that is meant: the innermost one that has been declared by then. Raises Unplaced."""
        named = [each for each in scope.variables if (each.inlined, each.name) == (function, name)]
        found = [each for each in named if self._is_declared(each)]
        if not found:
            raise Unplaced(Why.NOT_DECLARED_YET if named else Why.NOT_IN_SCOPE)
        deepest = max(each.depth for each in found)
        innermost = [each for each in found if each.depth == deepest]
        if len(innermost) > 1:
            raise Unplaced(Why.DECLARED_TWICE)
        return innermost[0]

    def _is_declared(self, variable: ScopedVariable) -> bool:
        """Whether the instruction belongs to a line behind the declaration of a variable that has one place for the
        whole block; what has a list of places has none before it."""
        if variable.is_parameter or not isinstance(variable.entry.attributes.get(AT_LOCATION), bytes):
            return True
        line = lines.line_of(self._loaded.path, self.address)
        return line is None or not line.line or line.line >= variable.line

    def _placed(self, scope: FunctionScope, variable: ScopedVariable, type_: Type) -> PlacedLocal:
        """The place of a variable. Raises Unplaced, ImageError."""
        if self._is_after:
            raise Unplaced(Why.AFTER)
        value = constant(variable.entry)
        if value is not None:
            return PlacedLocal(value=Constant(UINT64, value))
        root = variable.entry.file.entry(scope.unit.first)
        view = 0 if self.address == scope.entry else _LATEST
        told = expression(variable.entry, root, scope.unit.version, self.address, view)
        if not told:
            raise Unplaced(Why.OPTIMIZED_OUT if told is None else Why.NOT_HERE)
        frame = LocalFrame(self._code.image(self._loaded.path), scope, self.address)
        found = placed(told, frame, self._loaded.bias)
        if isinstance(variable.entry.attributes.get(AT_LOCATION), bytes):
            return self._once_written(scope, variable, found, frame, tuple(_parts(type_)))
        return found

    def _once_written(
        self, scope: FunctionScope, variable: ScopedVariable, found: PlacedLocal, frame: LocalFrame, parts: Parts
    ) -> PlacedLocal:
        """The place, which debug information tells for the whole function, if something has been written there by
        now, to each of the ``parts`` of the variable. Raises Unplaced."""
        if variable.is_parameter and found.register in _PASSED_IN:
            return found  # it is left where it was passed
        for number in found.by:
            self._check_set(scope, variable, number, frame)
        written = self._written(scope, found, frame, parts)
        if written is None or written.surely or (written.perhaps and not variable.is_parameter):
            return found
        if variable.is_parameter and not variable.inlined and self.address == scope.entry:
            return self._given(scope, variable)
        raise Unplaced(Why.NOT_STORED_YET)

    def _check_set(self, scope: FunctionScope, variable: ScopedVariable, number: int, frame: LocalFrame) -> None:
        """Check that the function has set a register by which debug information finds a variable in all of the
        function. Raises Unplaced."""
        made = frame.is_made(number) if number in (RSP, RBP) else None
        if made is None:
            passed = variable.is_parameter and number in _PASSED_IN
            block, goes_on = self._run(scope)
            made = passed or goes_on or register_written(block, number).perhaps
        if not made:
            raise Unplaced(Why.NOT_STORED_YET)

    def _written(self, scope: FunctionScope, found: PlacedLocal, frame: LocalFrame, parts: Parts) -> Written | None:
        """Whether a place has been written; None if it has been before the function began, or has its value from
        elsewhere."""
        if found.register is not None:
            block, goes_on = self._run(scope)
            done = register_written(block, found.register)
            return Written(done.surely, done.perhaps or goes_on)
        offset = None if found.address is None else frame.offset(found.address)
        pointer = pointer_to(found.address) if found.address is not None and offset is None else None
        if pointer is not None:
            offset, parts = frame.offset(pointer), ((0, _WORD),)
        if offset is None or offset >= 0:
            return None
        block, goes_on = self._run(scope)
        each = [frame_written(block, frame.found_by, offset + start, size) for start, size in parts]
        return Written(all(done.surely for done in each), any(done.perhaps for done in each) or goes_on)

    def _run(self, scope: FunctionScope) -> tuple[list[Instruction], bool]:
        """The instructions of the function's first block that have surely run by now, and whether others may have."""
        analysis = self._code.analysis(self._loaded)
        span = self._code.image(self._loaded.path).span_at(scope.entry)
        function = analysis.function(span) if span is not None and span.start == scope.entry else None
        block = function.block_at(scope.entry) if function is not None else None
        if function is None or block is None:
            return [], False
        steps = [each.instruction for each in analysis.steps(function, block)]
        inside = block.start <= self.address < block.end
        return [each for each in steps if not inside or each.ip < self.address], not inside

    def _given(self, scope: FunctionScope, variable: ScopedVariable) -> PlacedLocal:
        """A parameter in the register in which it is passed. Raises Unplaced, ImageError."""
        for each in arguments(scope.function, scope.unit, scope.function, self.address, 0):
            if each.name == variable.name and each.number is not None:
                return PlacedLocal(value=Reg(CALL_ARGUMENTS[each.number]))
        raise Unplaced(Why.NOT_STORED_YET)


def _parts(type_: Type, offset: int = 0) -> Iterator[tuple[int, int]]:
    """The parts of a variable between which there may be padding, which nobody writes."""
    if isinstance(type_, Record) and type_.kind == "struct" and type_.members:
        for member in type_.members:
            yield from _parts(member.type, offset + member.offset)
    else:
        yield offset, max(size_of(type_, 1), 1)
