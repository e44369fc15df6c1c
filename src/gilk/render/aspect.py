# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files of aspects, and the errors and warnings about them, as lines of text and as one JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gilk.lang.aspect.checked import AspectCheck, CheckedAspect
from gilk.lang.syntax.source import Diagnostic, Source
from gilk.render.text import message, plural


def complaints(source: Source, check: AspectCheck) -> Iterator[str]:
    """The errors, then the warnings, each in the order of the file; a hint has a line of its own."""
    for kind, diagnostics in (("failed to compile", check.errors), ("warning:", check.warnings)):
        for one in diagnostics:
            where = f"{source.name}: [{one.tag}] line {source.line(one.span)}"
            yield message(f"gilk: {kind} {where}: {one.message}")
            if one.hint:
                yield message(f"  {one.hint}")


def summary(source: Source, check: AspectCheck) -> str:
    """A line with the number of aspects and elements; '' if there are errors."""
    if check.file is None:
        return ""
    elements = sum(len(one.elements) for one in check.file.aspects)
    return message(f"{source.name}: {plural(len(check.file.aspects), 'aspect')}, {plural(elements, 'element')}")


def as_json(source: Source, check: AspectCheck) -> str:
    """The file as a JSON object. Lines and columns count from 1; ``start`` and ``end`` are characters of the file, from
    0.
    """
    aspects = check.file.aspects if check.file is not None else ()
    return json.dumps(
        {
            "file": source.name,
            "accepted": check.file is not None,
            "aspects": [_aspect(source, one) for one in aspects],
            "errors": [_diagnostic(source, one) for one in check.errors],
            "warnings": [_diagnostic(source, one) for one in check.warnings],
        }
    )


def _diagnostic(source: Source, one: Diagnostic) -> dict[str, Any]:
    start = source.text.rfind("\n", 0, one.span.start) + 1
    return {
        "tag": one.tag,
        "line": source.line(one.span),
        "column": one.span.start - start + 1,
        "start": one.span.start,
        "end": one.span.end,
        "message": one.message,
        "hint": one.hint,
    }


def _aspect(source: Source, aspect: CheckedAspect) -> dict[str, Any]:
    return {
        "name": aspect.name,
        "line": source.line(aspect.span),
        "elements": len(aspect.elements),
        "sequence": aspect.sequence,
        "keeps": [{"name": one.name, "type": one.type.text, "size": one.type.size} for one in aspect.kept],
    }
