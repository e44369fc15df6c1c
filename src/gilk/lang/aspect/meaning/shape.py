# SPDX-License-Identifier: LGPL-2.1-or-later
"""The pass that checks the shape of sequences: the first element, and the elements that may be repeated."""

from __future__ import annotations

from gilk.lang.aspect import ast
from gilk.lang.aspect.meaning.findings import Findings, NamedAspect, NamedFile, PlacedElement, PlainMatch
from gilk.lang.aspect.tags import AspectTag


def run(file: NamedFile, findings: Findings) -> NamedFile:
    for aspect in file.aspects:
        _first(aspect, findings)
        _stars(aspect.item.body, findings)
        _walk(aspect, findings)
        _debugreg(aspect, findings)
    return file


def _walk(aspect: NamedAspect, findings: Findings) -> None:
    walks = [one for one in aspect.item.options if isinstance(one, ast.FlagOption) and one.name == "walk"]
    matches = (match for each in (*aspect.elements, *aspect.until) for match in each.matches)
    if walks and not any(isinstance(one.term, ast.FlowPattern) for one in matches):
        why = "`walk` looks for control flows on the stack, and the aspect has none"
        findings.say(AspectTag.A_SYNTAX, walks[0].span, why, "leave it out")


def _debugreg(aspect: NamedAspect, findings: Findings) -> None:
    """Check an aspect whose accesses of variables are seen by debug registers: after they were made, whatever code has
    made them.
    """
    options = {one.name: one for one in aspect.item.options if isinstance(one, ast.FlagOption)}
    if "debugreg" not in options:
        return
    span, found = options["debugreg"].span, False
    for other in [name for name in ("walk", "verify") if name in options]:
        why = f"`{other}` walks the stack of the instruction, which a debug register does not have"
        findings.say(AspectTag.A_SYNTAX, span, why, "make two aspects of it")
    for element in (*aspect.elements, *aspect.until):
        for match in [one for one in element.matches if _is_of_variable(one)]:
            found = True
            _seen_late(element, match, findings)
    if not found:
        why = "`debugreg` is about readGlobal and writeGlobal, and the aspect has none"
        findings.say(AspectTag.A_SYNTAX, span, why, "leave it out")


def _is_of_variable(match: PlainMatch) -> bool:
    term = match.term.last if isinstance(match.term, ast.FlowPattern) else match.term
    return isinstance(term, ast.GlobalPattern)


def _seen_late(element: PlacedElement, match: PlainMatch, findings: Findings) -> None:
    advice = element.item.advice if isinstance(element.item, ast.ElementItem) else None
    if advice is not None and advice.when != "after":
        why = "a debug register shows an access when it has been made"
        findings.say(AspectTag.A_AFTER, match.span, why, "then after { ... }")
    for one in match.qualifiers:
        if isinstance(one, ast.InQualifier):
            why = "debug registers see the accesses of all code"
            findings.say(AspectTag.A_SYNTAX, one.span, why, "leave in(...) out")


def _first(aspect: NamedAspect, findings: Findings) -> None:
    for match in aspect.elements[0].matches:
        if isinstance(match.term, ast.AliasPattern):
            why = f"nothing has bound {match.term.name.text} when this is looked for"
            hint = "an element before it has to bind the address; readGlobal and writeGlobal need none"
            findings.say(AspectTag.A_FIRST_ACCESS, match.term.span, why, hint)


def _stars(body: ast.ElementItem | ast.SequenceItem, findings: Findings) -> None:
    if isinstance(body, ast.ElementItem):
        if body.star is not None:
            findings.say(AspectTag.A_REPEAT, body.star, "only elements of a sequence can be repeated")
        return
    if len(body.elements) < 2:
        findings.say(AspectTag.A_SYNTAX, body.span, "a sequence has two elements at the least")
    for number, which in ((0, "first"), (len(body.elements) - 1, "last")):
        star = body.elements[number].star
        if star is not None:
            hint = "the first begins an instance, the last ends it: each happens once"
            findings.say(AspectTag.A_REPEAT, star, f"the {which} element of a sequence cannot be repeated", hint)
