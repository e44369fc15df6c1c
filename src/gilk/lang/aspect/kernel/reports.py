# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reports of confined C: the format is a text that is known, and each of its conversions has a value of its kind."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gilk.lang.aspect.kernel.expressions import ConfinedExpressions
from gilk.lang.aspect.kernel.names import Confined
from gilk.lang.c.literals import quoted
from gilk.lang.d import ast

_CONVERSION = re.compile(r"%([-+ #0]*)(\d*)(?:\.(\d*))?(hh|h|ll|l|z|j|t)?(.?)", re.DOTALL)
_MOST_TEXTS = 4  # in a report
_LONG = frozenset(["l", "ll", "z", "j", "t"])
_C_OF = {False: "int", True: "long"}


def report_call(given: Sequence[ast.Expr], expressions: ConfinedExpressions) -> str:
    """The C of a call of report(), with the format and the values that are given. Raises Confined."""
    if not given or not isinstance(given[0], ast.Text):
        raise Confined("the format of a report in the kernel is a text in quotes")
    values = list(given[1:])
    texts = 0
    format_, parts = list[str](), list[str]()
    last, said = 0, given[0].value
    for found in _CONVERSION.finditer(said):
        format_.append(said[last : found.start()])
        last = found.end()
        if found[5] == "%":
            format_.append("%%")
            continue
        if not values:
            raise Confined("a report has fewer values than its format")
        texts += found[5] == "s"
        written, part = _conversion(found, values.pop(0), texts - 1, expressions)
        format_.append(written)
        parts.append(part)
    if values or texts > _MOST_TEXTS:
        raise Confined(f"a report has more values than its format, or more than {_MOST_TEXTS} texts")
    return f"report({', '.join((quoted(''.join((*format_, said[last:]))), *parts))})"


def _conversion(
    found: re.Match[str], value: ast.Expr, number: int, expressions: ConfinedExpressions
) -> tuple[str, str]:
    """The conversion as the kernel knows it, and the C of its value; texts have a ``number``, from 0."""
    flags, width, precision, letter = found[1], found[2], found[3], found[5]
    shape = f"%{flags}{width[:3]}{'' if precision is None else f'.{precision[:3]}'}"
    if letter == "s":
        return f"{shape}s", f"gilk_text({number}, {expressions.characters(value)})"
    if letter == "p":
        return "%#lx", f"(unsigned long)({expressions.of(value)})"
    if letter == "c":
        return f"%{flags}{width[:3]}c", f"(int)({expressions.of(value)})"
    if letter in "di":
        return f"{shape}{'l' if found[4] in _LONG else ''}d", f"({_C_OF[found[4] in _LONG]})({expressions.of(value)})"
    if letter in "ouxX" and letter:
        long = found[4] in _LONG
        return f"{shape}{'l' if long else ''}{letter}", f"(unsigned {_C_OF[long]})({expressions.of(value)})"
    raise Confined(f"a report in the kernel has no conversion %{letter}")
