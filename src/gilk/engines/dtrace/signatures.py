# SPDX-License-Identifier: LGPL-2.1-or-later
"""Signatures of functions from debug information, of C and of languages that call functions as C does, such as C++.

C++ passes objects of some classes by reference, for which there is a hidden pointer. Debug information tells which ones
(DW_AT_calling_convention, DWARF 5, section 5.7.1); where it does not, the registers behind them are not known.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from gilk.engines.dtrace.debug_types import (
    AT_BYTE_SIZE,
    AT_DECLARATION,
    AT_TYPE,
    KINDS,
    TAG_PARAMETER,
    DebugTypes,
    type_entry,
)
from gilk.engines.dtrace.image_debug import ImageDebug
from gilk.engines.dtrace.parameters import CallSignature, PassedParameter, of_c, registers
from gilk.engines.dtrace.parameters import hidden as hidden_in_c
from gilk.image import demangle, lookup
from gilk.image.dwarf.entries import DebugEntry
from gilk.image.dwarf.languages import AT_LANGUAGE, foreign
from gilk.image.model import FunctionSpan, Image
from gilk.lang.types import Type, Void

_AT_CONVENTION, _BY_REFERENCE, _BY_VALUE = 0x36, 0x04, 0x05
_C: Final = frozenset((0x01, 0x02, 0x0C, 0x1D, 0x2C))  # C in its editions
_ARRAY, _UNSPECIFIED, _TO_MEMBER, _SUBROUTINE = 0x01, 0x3B, 0x1F, 0x15
_SAME = frozenset((0x16, 0x26, 0x35, 0x37, 0x47))  # typedefs, const, volatile, restrict, _Atomic
_HIDDEN = frozenset(("__in_chrg", "__vtt_parm"))  # parameters that a constructor has in some of its copies only
_DEEPEST = 16


class FunctionNames:
    """The functions of an image by their complete names, as the linker has them and as their source does."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._known = defaultdict[str, list[FunctionSpan]](list)
        linked = [(name, span) for span in image.spans for name in dict.fromkeys((span.name, *span.aliases))]
        mangled = [(name, span) for name, span in linked if demangle.is_mangled(name)]
        whole = demangle.demangled([name for name, _ in mangled])
        for name, span in (*linked, *((name, span) for name, (_, span) in zip(whole, mangled, strict=True))):
            if span not in self._known[name]:
                self._known[name].append(span)

    def meant(self, name: str) -> list[FunctionSpan]:
        """The functions that the name means in a description of a probe."""
        return self._known.get(name) or lookup.matching(self._image, name)


def signature(debug: ImageDebug, span: FunctionSpan) -> CallSignature | None:
    """The signature of a function; None if it is not known. Raises ImageError."""
    if "." not in span.name:  # else the compiler has made a copy of the function, which may have other parameters
        entry = debug.variables.function(span.start)
        if entry is not None:
            return _of_entry(debug.types, entry)
    for each in dict.fromkeys((span.name, *span.aliases)):
        found = debug.types.function(each)
        if found is not None:
            return of_c(*found)
    return None


def language(debug: ImageDebug, span: FunctionSpan, name: str) -> str:
    """The language of a function that goes by ``name``, if it does not call as C does, else ''. Raises ImageError."""
    entry = debug.variables.function(span.start)
    if entry is not None:
        return foreign(entry.file, entry.file.unit(entry.offset))
    return debug.types.foreign((name, span.name, *span.aliases))


def _of_entry(types: DebugTypes, function: DebugEntry) -> CallSignature | None:
    file = function.file
    in_c = file.entry(file.unit(function.offset).first).number(AT_LANGUAGE) in _C
    parameters = [each for each in file.children(function) if each.tag == TAG_PARAMETER]
    if any(one.name in _HIDDEN for each in parameters for one in each.chain()):
        return None
    found = tuple((types.of(each), _type_of(each)) for each in parameters)
    passed = tuple(PassedParameter(type_, _registers(kind, type_, in_c)) for type_, kind in found)
    result = types.of(function)
    return CallSignature(result, passed, _hidden(_type_of(function), result, in_c))


def _type_of(entry: DebugEntry) -> DebugEntry | None:
    """The entry of the type, without its other names and qualifiers; None for void."""
    kind = type_entry(entry)
    for _ in range(_DEEPEST):
        if kind is None or kind.tag not in _SAME:
            return kind
        kind = kind.referred(AT_TYPE)
    return None


def _registers(kind: DebugEntry | None, type_: Type, in_c: bool) -> int | None:
    """How many integer registers a parameter takes; None if that is not known."""
    if kind is None or AT_DECLARATION in kind.attributes:
        return None
    if kind.tag == _ARRAY:
        return 0  # a vector: C has no other arrays as parameters
    if kind.tag == _UNSPECIFIED:
        return 1  # std::nullptr_t
    if kind.tag == _TO_MEMBER:
        to = _type_of(kind)
        return 2 if to is not None and to.tag == _SUBROUTINE else 1
    if kind.tag in KINDS and not in_c:
        return {_BY_REFERENCE: 1, _BY_VALUE: registers(type_)}.get(kind.number(_AT_CONVENTION) or 0)
    return registers(type_)


def _hidden(kind: DebugEntry | None, type_: Type, in_c: bool) -> int | None:
    """How many registers the address for the result takes; None if that is not known."""
    if kind is None or isinstance(type_, Void) or kind.tag == _ARRAY:
        return 0
    if AT_DECLARATION in kind.attributes:
        return None
    if kind.tag in KINDS and not in_c and (kind.number(AT_BYTE_SIZE) or 0) <= 16:
        return {_BY_REFERENCE: 1, _BY_VALUE: hidden_in_c(type_)}.get(kind.number(_AT_CONVENTION) or 0)
    return hidden_in_c(type_)
