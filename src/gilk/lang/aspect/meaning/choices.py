# SPDX-License-Identifier: LGPL-2.1-or-later
"""The passes that check options: whether they fit together and name what exists, and whether anything limits how many
instances live.
"""

from __future__ import annotations

from gilk.lang.aspect import ast
from gilk.lang.aspect.checked import CheckedAspect, CheckedFile
from gilk.lang.aspect.meaning.expand import bound_names
from gilk.lang.aspect.meaning.findings import Findings, NamedAspect, NamedFile
from gilk.lang.aspect.tags import AspectTag


def written(file: NamedFile, findings: Findings) -> NamedFile:
    for aspect in file.aspects:
        _together(aspect.item, findings)
        _unique(aspect, findings)
    return file


def _together(item: ast.AspectItem, findings: Findings) -> None:
    seen = set[str]()
    for option in item.options:
        name = option.name if isinstance(option, ast.FlagOption) else type(option).__name__
        if name in seen:
            findings.say(AspectTag.A_SYNTAX, option.span, "this option is there twice")
        elif name in ("perthread", "perprocess") and seen & {"perthread", "perprocess"}:
            findings.say(AspectTag.A_SYNTAX, option.span, "perthread and perprocess exclude each other")
        seen.add(name)


def _unique(aspect: NamedAspect, findings: Findings) -> None:
    always = set.intersection(*({one.text for one in bound_names(match)} for match in aspect.elements[0].matches))
    for option in aspect.item.options:
        for name in option.names if isinstance(option, ast.UniqueOption) else ():
            if name.text not in always:
                why = f"the first element does not bind {name.text}, or not always"
                findings.say(AspectTag.A_UNBOUND, name.span, why, "instances are compared when they begin")


def leaks(file: CheckedFile, findings: Findings) -> CheckedFile:
    for aspect in file.aspects:
        if aspect.sequence and not _bounded(aspect):
            why = "an instance whose last element does not come stays open"
            hint = "until, within, unique(...) or instances says what becomes of it"
            findings.say(AspectTag.A_LEAK, aspect.span, why, hint)
    return file


def _bounded(aspect: CheckedAspect) -> bool:
    ends = aspect.until or aspect.within is not None or aspect.unique
    return bool(ends or aspect.instances is not None or aspect.perthread)
