# SPDX-License-Identifier: LGPL-2.1-or-later
"""``args[n]``, with the type that the probe's provider states in its definition, or that is known of the process.

If nothing is known it is ``argn``. After its colon, a definition states the types to which arguments are translated.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import field

from gilk.lang import ir
from gilk.lang.d import ast, items, tree
from gilk.lang.d.meaning import constants, operands
from gilk.lang.d.meaning.declarations import Declarations
from gilk.lang.d.meaning.scope import Scope
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.d.meaning.translators import Translators, is_fit
from gilk.lang.d.probes import described
from gilk.lang.syntax.source import Rejected, Span
from gilk.lang.types import CHAR, INT64, STRING, Pointer, String, Type, Void, is_scalar, text
from gilk.values import dataclass

_MOST, _GIVEN = 128, 10
_WITHOUT = ("BEGIN", "END")  # probes without arguments
_LONGEST = 64  # characters of a name, with its NUL


@dataclass(frozen=True)
class Argument:
    """An element of ``args[]``: the probe gives it as ``argn``, of type ``native``; a clause sees it as ``type``.

    ``number``: the n of ``argn``; None if it is passed in another way. ``spelled``: the type as a definition has it.
    """

    number: int | None
    native: Type
    type: Type
    spelled: str = field(default="", compare=False)


@dataclass(frozen=True)
class Defined:
    """A provider: the arguments of its probes by name, and its interface for programs that contain the probes."""

    name: str
    probes: dict[str, tuple[Argument, ...]]
    interface: tree.Interface


class Arguments:
    def __init__(self, scope: Scope, declarations: Declarations, translators: Translators) -> None:
        self._scope = scope
        self._declarations = declarations
        self._translators = translators
        self._defined: dict[str, Defined] = {}
        self._probes: tuple[str, ...] = ()

    # Definitions of providers.

    def define(self, item: items.ProviderDefinition) -> None:
        """Take note of the definition of a provider. Raises Rejected."""
        if not re.fullmatch(r"[A-Za-z_]\w*[A-Za-z_]|[A-Za-z_]", item.name) or len(item.name) >= _LONGEST:
            what = f"a provider's name may not end in a digit, nor be longer than {_LONGEST - 1}: {item.name[:80]}"
            raise Rejected(Tag.D_PROV_BADNAME, item.span, what)
        probes: dict[str, tuple[Argument, ...]] = {}
        given: list[tuple[str, tuple[Type, ...]]] = []
        for probe in item.probes:
            name = probe.name.replace("__", "-")
            if name in probes:
                raise Rejected(Tag.D_PROV_PRDUP, probe.span, f"probe redeclared: {item.name}:{name}")
            native = self._types(probe.parameters)
            probes[name] = self._of(item.name, probe, native)
            given.append((probe.name, tuple(native)))
        known = self._defined.get(item.name)
        if known is not None and known.probes != probes:
            raise Rejected(Tag.D_PROV_INCOMPAT, item.span, f"provider interface mismatch: {item.name}")
        self._defined[item.name] = Defined(item.name, probes, tree.Interface(item.name, tuple(given)))

    def has(self, provider: str) -> bool:
        return provider in self._defined

    @property
    def interfaces(self) -> tuple[tree.Interface, ...]:
        """The interfaces of all defined providers, in the order of the text."""
        return tuple(each.interface for each in self._defined.values())

    def _of(self, provider: str, probe: items.ProbeDefinition, native: list[Type]) -> tuple[Argument, ...]:
        if probe.translated is None:
            pairs = enumerate(zip(native, probe.parameters.parameters, strict=False))
            return tuple(Argument(number, type_, type_, _spelled(given, type_)) for number, (type_, given) in pairs)
        found = []
        for number, (given, type_) in enumerate(
            zip(probe.translated.parameters, self._types(probe.translated), strict=False)
        ):
            formal = self._formal(probe, given, number, len(native))
            argument = Argument(formal, native[formal], type_, _spelled(given, type_))
            if not _goes(type_, native[formal]) and not self._translators.known(type_, native[formal]):
                what = f"translator for {provider}:{probe.name} output argument #{number + 1} from "
                what += f"{text(native[formal])} to {text(type_)} is not defined"
                raise Rejected(Tag.D_PROV_PRXLATOR, given.span, what)
            found.append(argument)
        return tuple(found)

    def _types(self, parameters: ast.FunctionOf) -> list[Type]:
        types = [self._declarations.resolved(each) for each in parameters.parameters]
        if len(types) > _MOST:
            raise Rejected(Tag.D_PROV_PRARGLEN, parameters.span, f"probe has more than {_MOST} arguments")
        for type_, each in zip(types, parameters.parameters, strict=True):
            if not isinstance(type_, Void):
                continue
            if len(types) > 1:
                raise Rejected(Tag.D_DECL_PROTO_VOID, each.span, "void must be sole parameter")
            if each.declarator.name is not None:
                what = f"void parameter may not have a name: {each.declarator.name}"
                raise Rejected(Tag.D_DECL_PROTO_NAME, each.span, what)
            return []
        return types

    def _formal(self, probe: items.ProbeDefinition, given: ast.TypeName, number: int, count: int) -> int:
        """The number of the native argument that a translated one is made of: the one with the same name, if they have
        names, otherwise the one at the same place. Raises Rejected.
        """
        names = [each.declarator.name for each in probe.parameters.parameters]
        name = given.declarator.name
        if name is not None and any(names):
            if name in names:
                return names.index(name)
            what = f"probe {probe.name} has no parameter {name} to translate"
            raise Rejected(Tag.D_DECL_PROTO_FORM, given.span, what)
        if number < count:
            return number
        what = f"probe {probe.name} gives fewer arguments than it translates"
        raise Rejected(Tag.D_DECL_PROTO_FORM, given.span, what)

    # The use of arguments.

    def begin(self, probes: tuple[str, ...]) -> None:
        """Begin a clause at these probes, whose types ``args[]`` has from now on."""
        self._probes = probes

    def types(self, probe: str) -> tuple[str, ...]:
        """The names of the types of ``args[]`` at the probes of that description; () if nothing is known."""
        return tuple(each.spelled or text(each.type) for each in self._known(probe) or ())

    def argument(self, number: int, span: Span) -> ir.Expression:
        """The expression for ``args[number]``. Raises Rejected."""
        found = [self._known(probe) for probe in self._probes]
        if any(each != found[0] for each in found):
            what = "args[ ] may not be referenced because probe description matches probes with different arguments"
            raise Rejected(Tag.D_ARGS_MULTI, span, what)
        for probe, one in zip(self._probes, found, strict=True):
            language = self._scope.world.foreign(probe) if one is None else ""
            if language:
                what = f"args[ ] of functions in {language} are not where C's are; arg0 and on are what C's would be"
                raise Rejected(Tag.D_ARGS_LANG, span, what)
        known = found[0] if found else None
        if known is None and self._probes and described(self._probes[0]).name in _WITHOUT:
            known = ()
        if known is None:
            known = tuple(Argument(each, INT64, INT64) for each in range(_GIVEN))
        if not 0 <= number < len(known):
            raise Rejected(Tag.D_ARGS_IDX, span, f"index {number} is out of range for {self._probes[0]} args[ ]")
        return self._value(known[number], number, span)

    def _known(self, text_: str) -> tuple[Argument, ...] | None:
        description = described(text_)
        number = r"(\d+|\d*\*)?" if self._scope.world.in_kernel else r"(\d+|\d*\*)"  # the number of a process
        for provider in self._defined.values():
            if not re.fullmatch(re.escape(provider.name) + number, description.provider):
                continue
            matching = [found for name, found in provider.probes.items() if fnmatch.fnmatchcase(name, description.name)]
            if matching and all(each == matching[0] for each in matching):
                return matching[0]
        given = self._scope.world.arguments(text_)
        if given is None:
            return None
        return tuple(Argument(number, type_, type_) for type_, number in given)

    def _value(self, argument: Argument, number: int, span: Span) -> ir.Expression:
        if argument.number is None:
            what = f"args[{number}] is not in one integer register, as far as is known: {text(argument.type)}"
            raise Rejected(Tag.D_ARGS_TYPE, span, what)
        if argument.number >= _GIVEN:
            raise Rejected(Tag.D_ARGS_IDX, span, f"args[{number}] is not among the first {_GIVEN} that a probe gives")
        raw = ir.Argument(INT64, argument.number)
        native = self._declarations.complete(argument.native)
        if isinstance(native, String):
            found: ir.Expression = ir.Convert(STRING, ir.Convert(Pointer(CHAR), raw))
        elif is_scalar(native):
            found = constants.convert(native, raw)
        else:
            raise Rejected(Tag.D_ARGS_TYPE, span, f"args[{number}] is not an integer, nor a pointer: {text(native)}")
        if argument.type == argument.native:
            return found
        if _goes(argument.type, found.type):
            return operands.converted(argument.type, found, span)
        return self._translators.translated(argument.type, found, span)


def _spelled(given: ast.TypeName, type_: Type) -> str:
    """A type with the name that a typedef has given it, if it is that name or a pointer to that."""
    words = given.base.words if isinstance(given.base, ast.BasicType) else ()
    stars = len(given.declarator.shape)
    if len(words) != 1 or not all(isinstance(each, ast.Pointer) for each in given.declarator.shape):
        return text(type_)
    return f"{words[0]} {'*' * stars}".rstrip()


def _goes(type_: Type, native: Type) -> bool:
    """Whether a value of ``native`` can be used as one of ``type_`` without translation."""
    if isinstance(type_, Pointer) and isinstance(native, Pointer):
        return type_ == native or isinstance(type_.to, Void) or isinstance(native.to, Void)
    return is_fit(type_, native) and isinstance(type_, Pointer) == (isinstance(native, Pointer) and is_scalar(type_))
