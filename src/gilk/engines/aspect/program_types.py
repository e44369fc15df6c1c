# SPDX-License-Identifier: LGPL-2.1-or-later
"""Types of the program for the C of a file that says ``types``: those that the file names, and all types that they
refer to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gilk.engines.dtrace.world import SymbolContext
from gilk.errors import CompileError, UsageError
from gilk.lang.aspect.checked import CheckedC, CheckedFile
from gilk.lang.aspect.code.matching import process_text
from gilk.lang.c.declarations import NamedType, TooManyTypes, TypeDeclarations
from gilk.lang.syntax.source import Span
from gilk.targets.base import Target
from gilk.toolchain.compilers import NATIVE, all_errors, compile_object, directory

_TAGGED = re.compile(r"\b(struct|union|enum)\s+([A-Za-z_]\w*)")
_WORD = re.compile(r"\b[A-Za-z_]\w*\b")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*(?:include|define|if|ifdef|ifndef|endif|else|undef)\b.*$", re.MULTILINE)
_PROBES = "gilk-types"


def with_types(file: CheckedFile, process: Target) -> CheckedFile:
    """The file with the program's types in its C, after the includes. Raises UsageError `no-debug-types`."""
    if not file.types:
        return file
    world = SymbolContext(process)
    for image in file.types:
        if not world.module(image):
            raise UsageError(
                "no-debug-types", f"{process.who} has no image {image} with debug information",
                "declare the types in %{ %}; Debian's programs have their debug information in packages of their own",
            )  # fmt: skip
    try:
        declarations = TypeDeclarations(list(_roots(file, world)), world.completed)
    except TooManyTypes:
        raise UsageError("no-debug-types", f"{', '.join(file.types)}: there are too many types", "") from None
    before, behind = _around_includes(file.process_c)
    text = declarations.text(_known(file, declarations.names()))
    return replace(file, process_c=(*before, CheckedC(f'#line 1 "{_PROBES}"\n{text}', Span(0, 0)), *behind))


def _roots(file: CheckedFile, world: SymbolContext) -> Iterator[NamedType]:
    """The types of the program whose names occur in the file."""
    text = _COMMENT.sub(" ", file.source.text)
    asked = [*_TAGGED.findall(text), *(("typedef", word) for word in _WORD.findall(text))]
    for kind, name in dict.fromkeys(asked):
        found = next((one for image in file.types if (one := world.type(image, kind, name)) is not None), None)
        if found is not None:
            yield NamedType(kind, name, found)


def _around_includes(parts: Sequence[CheckedC]) -> tuple[list[CheckedC], list[CheckedC]]:
    """Split the C after the last preprocessor directive of the last part that has any; returns what comes before and
    after."""
    last = max((n for n, one in enumerate(parts) if _INCLUDE.search(one.text)), default=-1)
    if last < 0:
        return [], list(parts)
    one = parts[last]
    cut = max(found.end() for found in _INCLUDE.finditer(one.text))
    first, second = one.text[:cut], one.text[cut:]
    start = Span(one.span.start + cut, one.span.end)
    return [*parts[:last], replace(one, text=first)], [CheckedC(second, start, one.names), *parts[last + 1 :]]


def _known(file: CheckedFile, names: Sequence[str]) -> set[str]:
    """The names that the file's own C declares, headers included: those whose size the compiler accepts."""
    before = process_text(file)
    probes = "".join(f'_Static_assert(sizeof({name}) > 0 || 1, "");\n' for name in names)
    with directory() as place:
        source = place / "types.c"
        source.write_text(f'{before}\n#line 1 "{_PROBES}"\n{probes}')
        include = ["-I", str(NATIVE / "include"), "-fPIC", *all_errors()]
        try:
            compile_object(source, place / "types.o", include)
        except CompileError as error:
            wrong = {int(found) for found in re.findall(rf"^{_PROBES}:(\d+):\d+: error", error.message, re.MULTILINE)}
            return {name for number, name in enumerate(names, 1) if number not in wrong}
    return set(names)
