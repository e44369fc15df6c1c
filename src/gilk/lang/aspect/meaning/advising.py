# SPDX-License-Identifier: LGPL-2.1-or-later
"""The pass that checks advice: whether it can stand where it does, and its calls of functions that the language
defines.
"""

from __future__ import annotations

from gilk.analysis.noreturn import named_noreturn
from gilk.lang.aspect import ast, cnames
from gilk.lang.aspect.checked import KERNEL_GROUP
from gilk.lang.aspect.meaning.findings import Findings, NamedAspect, NamedFile, PlacedElement, PlainMatch
from gilk.lang.aspect.meaning.points import last_call
from gilk.lang.aspect.tags import AspectTag
from gilk.lang.syntax.source import Span
from gilk.values import dataclass

_IN_KERNEL = frozenset(
    ["panic", "do_exit", "make_task_dead", "do_group_exit", "kthread_exit", "kthread_complete_and_exit"]
)


@dataclass(frozen=True, slots=True)
class _Names:
    groups: frozenset[str]
    tables: dict[str, int]
    aspects: frozenset[str]


def run(file: NamedFile, findings: Findings) -> NamedFile:
    names = _Names(
        frozenset([*(one.name for one in file.groups), KERNEL_GROUP]),
        {one.name.text: len(one.key) for one in file.tables},
        frozenset(one.item.name.text for one in file.aspects if one.item.name is not None),
    )
    for aspect in file.aspects:
        _returns(aspect, findings)
        for element in aspect.elements:
            if isinstance(element.item, ast.ElementItem) and element.item.advice is not None:
                _proceeds(element, element.item.advice, findings)
                _calls(element.item.advice.body, names, findings)
    return file


def _returns(aspect: NamedAspect, findings: Findings) -> None:
    """Check that returned values and advice after a call are used only where there is a return."""
    for element in (*aspect.elements, *aspect.until):
        advice = element.item.advice if isinstance(element.item, ast.ElementItem) else None
        for match in element.matches:
            wanted = [one for one in match.qualifiers if isinstance(one, ast.GivesQualifier) and one.what == "return"]
            if wanted and advice is not None and advice.when != "after":
                where = "in place of" if advice.when == "inplace" else "before"
                why = f"advice {where} the call runs when nothing has been returned yet"
                findings.say(AspectTag.A_AFTER, wanted[0].span, why, "then after { ... }; then alone is before")
            if wanted or (advice is not None and advice.when == "after"):
                _comes_back(match, wanted[0].span if wanted else match.span, findings)


def _comes_back(match: PlainMatch, span: Span, findings: Findings) -> None:
    call = last_call(match.term)
    if call is None:
        return
    name = call.function.name
    if call.noreturn or (not call.function.glob and (named_noreturn(name) or name in _IN_KERNEL)):
        findings.say(AspectTag.A_NORETURN, span, f"{name} does not return", "then before { ... }")


def _proceeds(element: PlacedElement, advice: ast.AdviceItem, findings: Findings) -> None:
    for offset, given in cnames.calls(advice.body.text, "proceed"):
        at = advice.body.span.start + offset
        span = Span(at, at + len("proceed"))
        if advice.when != "inplace":
            why = f"advice {advice.when} does not stand in the place of anything"
            findings.say(AspectTag.A_PROCEED, span, why, "then inplace { ... }")
        elif KERNEL_GROUP in element.places:
            hint = "before and after can be woven into the kernel, and inplace without proceed"
            findings.say(AspectTag.A_PROCEED, span, "nothing can proceed in the kernel", hint)
        elif given:
            _fits(element, len(given), span, findings)


def _fits(element: PlacedElement, given: int, span: Span, findings: Findings) -> None:
    """Check that proceed gets as many arguments as the advised call or access has."""
    for match in element.matches:
        call = last_call(match.term)
        if call is None:
            wanted = 1
        elif call.parameters is None or call.variadic:
            why = "other arguments can be given only where all of their types are declared"
            findings.say(AspectTag.A_PROCEED, span, why, "proceed() passes what came")
            continue
        else:
            wanted = len(call.parameters)
        if given != wanted:
            why = f"proceed is given {given} arguments, and {wanted} are passed there"
            findings.say(AspectTag.A_PROCEED, span, why, "proceed() passes what came")


def _calls(body: ast.CText, names: _Names, findings: Findings) -> None:
    """Check that the tables, groups and aspects that advice names exist."""
    for function in ("join", "leave", "add", "aspect_on", "aspect_off"):
        for offset, given in cnames.calls(body.text, function):
            name = given[0] if given else ""
            span = Span(body.span.start + offset, body.span.start + offset + len(function))
            if function in ("join", "leave"):
                if len(given) == 2 and name not in names.groups:
                    findings.say(AspectTag.A_GROUP, span, f"there is no group {name}", f"group {name};")
            elif function == "add":
                _adds(given, span, names, findings)
            elif name not in names.aspects:
                findings.say(AspectTag.A_UNBOUND, span, f"no aspect has the name {name}", "aspect name: ...")


def _adds(given: tuple[str, ...], span: Span, names: _Names, findings: Findings) -> None:
    name = given[0] if given else ""
    if name not in names.tables:
        findings.say(AspectTag.A_UNBOUND, span, f"there is no table {name}", "table name key(int) sum;")
    elif len(given) != names.tables[name] + 2:
        wanted = names.tables[name]
        why = f"{name} has {wanted} key{'s' * (wanted != 1)}, and {max(len(given) - 2, 0)} are given"
        findings.say(AspectTag.A_TYPE, span, why, "add(table, key, n)")
