# SPDX-License-Identifier: LGPL-2.1-or-later
"""The passes in their order, each with the reason for its place.

A pass is a function from a frozen value and the findings so far to the value that the next pass takes. A new pass is a
module with ``run``, and a row here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gilk.lang.aspect.checked import AspectCheck
from gilk.lang.aspect.meaning import advising, binding, choices, keys, names, shape, sides
from gilk.lang.aspect.meaning.findings import Findings
from gilk.lang.aspect.parser import read_aspects
from gilk.lang.syntax.source import Rejected, Source
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class AspectPass:
    """A pass. ``alone``: it is left out after errors, because it would only repeat them."""

    name: str
    run: Callable[[Any, Findings], Any]
    reason: str
    alone: bool = False


PASSES = (
    AspectPass("names", names.run, "Nothing is known of a use before it is known what it is a use of."),
    AspectPass("shape", shape.run, "The first element and the stars are told of all ways to match, once expanded."),
    AspectPass("options", choices.written, "They name what the first element binds, and ask for no types."),
    AspectPass("advice", advising.run, "It asks for what is written, and no more."),
    AspectPass("binding", binding.run, "Types are those of declarations; tests are known by what was bound before."),
    AspectPass("places", sides.run, "Sizes are compared where all names have types."),
    AspectPass("keys", keys.run, "Only tests that make sense are keys; what is kept are names with types.", True),
    AspectPass("leaks", choices.leaks, "A warning is of use for what could be woven.", True),
)


def check_aspects(source: Source) -> AspectCheck:
    """The checked form of a file, or all errors in it."""
    findings = Findings()
    value: Any
    try:
        value = read_aspects(source)
    except Rejected as error:
        return AspectCheck(None, (error.diagnostic,))
    for each in PASSES:
        if each.alone and findings.has_errors():
            continue
        value = each.run(value, findings)
    errors = findings.errors()
    return AspectCheck(None if errors else value, errors, findings.warnings())
