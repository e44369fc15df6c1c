# SPDX-License-Identifier: LGPL-2.1-or-later
"""The pass that finds groups, tables, pointcuts and aspects by their names, and expands matches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gilk.lang.aspect import ast
from gilk.lang.aspect.checked import KERNEL_GROUP, CheckedGroup
from gilk.lang.aspect.meaning.expand import plain_matches
from gilk.lang.aspect.meaning.findings import Findings, NamedAspect, NamedFile, PlacedElement
from gilk.lang.aspect.tags import AspectTag
from gilk.lang.syntax.source import Rejected

_Named = ast.GroupItem | ast.TableItem | ast.PointcutItem | ast.AspectItem


def run(file: ast.AspectFile, findings: Findings) -> NamedFile:
    items = file.items
    groups = _groups([one for one in items if isinstance(one, ast.GroupItem)], findings)
    tables = tuple(one for one in items if isinstance(one, ast.TableItem))
    pointcuts = [one for one in items if isinstance(one, ast.PointcutItem)]
    aspects = [one for one in items if isinstance(one, ast.AspectItem)]
    for kind, named in (("table", tables), ("pointcut", pointcuts), ("aspect", aspects)):
        _once(kind, named, findings)
    known = {one.name.text: one for one in pointcuts}
    expanded = (_aspect(one, groups, known, findings) for one in aspects)
    shown = tuple(
        CheckedGroup(name, of if of != (name,) else ()) for name, of in groups.items() if name != KERNEL_GROUP
    )
    return NamedFile(file, shown, tables, tuple(one for one in expanded if one is not None))


def _once(kind: str, items: Iterable[_Named], findings: Findings) -> None:
    seen = set[str]()
    for one in items:
        if one.name is not None and one.name.text in seen:
            findings.say(AspectTag.A_SYNTAX, one.name.span, f"there is a {kind} {one.name.text} already")
        seen.add(one.name.text if one.name is not None else "")


def _groups(items: list[ast.GroupItem], findings: Findings) -> dict[str, tuple[str, ...]]:
    """The groups of which each group consists, resolved; a group of processes consists of itself."""
    found: dict[str, tuple[str, ...]] = {KERNEL_GROUP: (KERNEL_GROUP,)}
    for item in items:
        name = item.name
        if name.text == KERNEL_GROUP:
            findings.say(AspectTag.A_GROUP, name.span, "K is the kernel, and cannot be declared")
        elif name.text in found:
            findings.say(AspectTag.A_GROUP, name.span, f"there is a group {name.text} already")
        else:
            found[name.text] = _resolved(item.of, found, findings) if item.of else (name.text,)
    return found


def _resolved(names: Iterable[ast.Ident], groups: Mapping[str, tuple[str, ...]], findings: Findings) -> tuple[str, ...]:
    members = dict[str, None]()
    for name in names:
        if name.text not in groups:
            hint = f"group {name.text}; in front of its first use"
            findings.say(AspectTag.A_GROUP, name.span, f"there is no group {name.text}", hint)
        members.update(dict.fromkeys(groups.get(name.text, ())))
    return tuple(members)


def _aspect(
    item: ast.AspectItem,
    groups: Mapping[str, tuple[str, ...]],
    pointcuts: Mapping[str, ast.PointcutItem],
    findings: Findings,
) -> NamedAspect | None:
    body = item.body
    elements = body.elements if isinstance(body, ast.SequenceItem) else (body,)
    items: list[ast.ElementItem | ast.UntilItem] = [*elements]
    items += body.until if isinstance(body, ast.SequenceItem) else ()
    found = [_element(one, groups, pointcuts, findings) for one in items]
    placed = [one for one in found if one is not None]
    if len(placed) < len(found):
        return None
    return NamedAspect(item, tuple(placed[: len(elements)]), tuple(placed[len(elements) :]))


def _element(
    item: ast.ElementItem | ast.UntilItem,
    groups: Mapping[str, tuple[str, ...]],
    pointcuts: Mapping[str, ast.PointcutItem],
    findings: Findings,
) -> PlacedElement | None:
    places = _resolved(item.place.groups, groups, findings) if item.place is not None else ()
    try:
        return PlacedElement(item, places, plain_matches(item.match, pointcuts))
    except Rejected as error:
        findings.take(error)
        return None
