# SPDX-License-Identifier: LGPL-2.1-or-later
"""The pass that gives each name its type where it is bound; binding a name again is a test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gilk.lang.aspect import ast
from gilk.lang.aspect.checked import (
    KERNEL_GROUP,
    CheckedAdvice,
    CheckedAlternative,
    CheckedAspect,
    CheckedBinding,
    CheckedC,
    CheckedElement,
    CheckedFile,
    CheckedTable,
    CheckedType,
    CheckedWord,
)
from gilk.lang.aspect.cnames import names as names_in
from gilk.lang.aspect.ctypes import checked_type
from gilk.lang.aspect.meaning.expand import bound_names
from gilk.lang.aspect.meaning.findings import Findings, NamedAspect, NamedFile, PlacedElement, PlainMatch
from gilk.lang.aspect.meaning.points import parameters, point
from gilk.lang.aspect.meaning.qualifiers import QualifierReader
from gilk.lang.aspect.meaning.scope import AspectScope
from gilk.lang.aspect.tags import AspectTag

_Types = Mapping[str, CheckedType]


def run(file: NamedFile, findings: Findings) -> CheckedFile:
    """The checked file; later passes add keys and what instances keep."""
    items = file.written.items
    parts = [one for one in items if isinstance(one, ast.CPart)]
    tables = (CheckedTable(one.name.text, tuple(map(checked_type, one.key)), one.fold.text) for one in file.tables)
    return CheckedFile(
        source=file.written.source,
        groups=file.groups,
        tables=tuple(tables),
        types=tuple(one.text for item in items if isinstance(item, ast.TypesItem) for one in item.images),
        process_c=tuple(_part(one) for one in parts if not one.kernel),
        kernel_c=tuple(_part(one) for one in parts if one.kernel),
        aspects=tuple(_Binder(one, findings).aspect() for one in file.aspects),
    )


def _part(part: ast.CPart) -> CheckedC:
    return CheckedC(part.code.text, part.code.span, names_in(part.code.text))


class _Binder:
    """The checker of one aspect. ``_known``: the names that surely have a value after the elements so far."""

    def __init__(self, named: NamedAspect, findings: Findings) -> None:
        self._named, self._findings = named, findings
        self._options = named.item.options
        self._flags = {one.name for one in self._options if isinstance(one, ast.FlagOption)}
        self._words = tuple(self._checked_words())
        self._known: dict[str, CheckedType] = {one.name: one.type for one in self._words}
        everything = (*named.elements, *named.until)
        self._all = {one.text for element in everything for match in element.matches for one in bound_names(match)}
        self._why = dict.fromkeys(self._all, "only a later element binds it")

    def aspect(self) -> CheckedAspect:
        body, elements = self._named.item.body, list[CheckedElement]()
        first: _Types = {}
        for number, element in enumerate(self._named.elements):
            elements.append(self._element(element, number == len(self._named.elements) - 1, number == 0))
            first = first if number else dict(self._known)
        self._forget(first)
        until = tuple(self._element(one, True) for one in self._named.until)
        flags = self._flags
        sequence = body if isinstance(body, ast.SequenceItem) else None
        counts = [one.count for one in self._options if isinstance(one, ast.InstancesOption)]
        return CheckedAspect(
            name=self._named.item.name.text if self._named.item.name is not None else "",
            elements=tuple(elements),
            sequence=sequence is not None,
            until=until,
            within=sequence.within.nanoseconds if sequence is not None and sequence.within is not None else None,
            unique=self._unique(),
            instances=counts[-1] if counts else None,
            words=self._words,
            kept=(),
            perthread="perthread" in flags,
            perprocess="perprocess" in flags,
            partial="partial" in flags,
            verify="verify" in flags,
            walk="walk" in flags,
            debugreg="debugreg" in flags,
            span=self._named.item.span,
        )

    def _unique(self) -> tuple[str, ...] | None:
        found = [one for one in self._options if isinstance(one, ast.UniqueOption)]
        return tuple(name.text for one in found for name in one.names) if found else None

    def _checked_words(self) -> Iterable[CheckedWord]:
        for option in self._options:
            for one in option.words if isinstance(option, ast.VarOption) else ():
                assert one.name is not None
                type_, value = checked_type(one.type), one.value
                if type_.size is None:
                    why = f"{one.name.text} has no size that is known as {type_.text}"
                    self._findings.say(AspectTag.A_TYPE, one.span, why, "a word of an instance is a number or pointer")
                initial = CheckedC(value.text, value.span, names_in(value.text)) if value is not None else None
                yield CheckedWord(one.name.text, type_, initial, one.span)

    def _forget(self, first: _Types) -> None:
        """Forget the names that later elements bind: for ``until``, only those of the first element surely
        have values.
        """
        for name in self._known.keys() - first.keys():
            self._why[name] = "until may come before it is bound"
        self._known = dict(first)

    def _scope(self, match: PlainMatch, kernel: bool, first: bool) -> AspectScope:
        """The names that a match can use. For the first element, words have no value because no instance has begun."""
        words = {one.name for one in self._words}
        why = {**self._why, **dict.fromkeys(words if first else (), "an instance has its words once it has begun")}
        for one in bound_names(match):
            why[one.text] = "the match binds it further on"
            if one.text in words:
                text = f"{one.text} is a word of the instance, which a match cannot bind"
                self._findings.say(AspectTag.A_TYPE, one.span, text, "give one of the two another name")
        known = {name: type_ for name, type_ in self._known.items() if not (first and name in words)}
        return AspectScope(self._findings, known, why, kernel, "walk" in self._flags)

    def _element(self, element: PlacedElement, last: bool, first: bool = False) -> CheckedElement:
        kernel = KERNEL_GROUP in element.places
        scopes, alternatives = list[AspectScope](), list[CheckedAlternative]()
        for match in element.matches:
            scope = self._scope(match, kernel, first)
            alternatives.append(_alternative(match, scope))
            scopes.append(scope)
        item = element.item
        advice = self._advice(item.advice, scopes) if isinstance(item, ast.ElementItem) else None
        repeated = isinstance(item, ast.ElementItem) and item.star is not None
        fresh = tuple(dict.fromkeys(name for scope in scopes for name in scope.bound)) if repeated else ()
        if not last:
            self._learn(scopes, repeated)
        return CheckedElement(element.places, tuple(alternatives), advice, repeated, fresh, (), item.span)

    def _advice(self, item: ast.AdviceItem | None, scopes: list[AspectScope]) -> CheckedAdvice | None:
        if item is None:
            return None
        always = _in_all(scopes)
        why = dict(self._why)
        for scope in scopes:
            why |= {name: "not every way to match binds it" for name in scope.bound if name not in always}
        scope = AspectScope(self._findings, {**self._known, **always}, why)
        return CheckedAdvice(item.when, scope.c(item.body, declares=True), item.block)

    def _learn(self, scopes: list[AspectScope], repeated: bool) -> None:
        always = _in_all(scopes)
        for scope in scopes:
            for name in scope.bound:
                self._why[name] = "not every way to match the element before binds it"
                if repeated:
                    self._why[name] = "a repeated element binds it, which may not have matched"
        if not repeated:
            self._known |= always


def _in_all(scopes: list[AspectScope]) -> dict[str, CheckedType]:
    """The names that every alternative binds."""
    common = set.intersection(*(set(scope.bound) for scope in scopes)) if scopes else set()
    return {name: type_ for name, type_ in scopes[0].bound.items() if name in common} if scopes else {}


def _alternative(match: PlainMatch, scope: AspectScope) -> CheckedAlternative:
    found = point(match.term, scope)
    given = parameters(match.term, scope)
    reader = QualifierReader(match, found, scope)
    steps = (*given, *reader.steps())
    returns = any(isinstance(one, CheckedBinding) and one.source == "return" for one in steps)
    return CheckedAlternative(found, steps, reader.callers(), reader.within(), returns, match.span)
