# SPDX-License-Identifier: LGPL-2.1-or-later
"""Places of members in variables: the file's own C declares the variable, and the compiler tells offset and size."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from gilk.engines.aspect.variables import VariablePart
from gilk.errors import CompileError, UsageError
from gilk.lang.aspect.checked import CheckedFile, CheckedGlobal, last_of
from gilk.lang.aspect.code.matching import process_text
from gilk.toolchain import relocatable
from gilk.toolchain.compilers import NATIVE, compile_object, directory

_NUMBERS = "gilk_parts"
_PAIR = struct.Struct("<QQ")


def member_parts(file: CheckedFile) -> dict[str, VariablePart]:
    """The offset and size of each member that elements name, by its path. Raises UsageError `cannot-weave`."""
    points = {one.path: one for one in _variables(file) if "." in one.path}
    if not points:
        return {}
    try:
        numbers = _compiled(_text(file, list(points)))
    except CompileError as error:
        first = next(iter(points.values()))
        where = f"{file.source.name}, line {file.source.line(first.span)}"
        raise UsageError(
            "cannot-weave", f"{where}: the compiler does not know {first.path}: {error.message}",
            f"declare the variable in %{{ %}}, as the program does: extern struct some {first.path.split('.')[0]};",
        ) from None  # fmt: skip
    pairs = _PAIR.iter_unpack(numbers[: _PAIR.size * len(points)])
    return {path: VariablePart(*pair) for path, pair in zip(points, pairs, strict=True)}


def _variables(file: CheckedFile) -> Iterator[CheckedGlobal]:
    elements = (one for aspect in file.aspects for one in (*aspect.elements, *aspect.until))
    lasts = (last_of(alternative.point) for element in elements for alternative in element.alternatives)
    yield from (one for one in lasts if isinstance(one, CheckedGlobal))


def _text(file: CheckedFile, paths: Sequence[str]) -> str:
    declared = process_text(file)
    rows = "".join(f"{{ __builtin_offsetof({_of(path)}), sizeof({_value(path)}) }},\n" for path in paths)
    return f"{declared}\n__attribute__((used)) const unsigned long {_NUMBERS}[][2] = {{\n{rows}}};\n"


def _of(path: str) -> str:
    variable, _, members = path.partition(".")
    return f"__typeof__({variable}), {members}"


def _value(path: str) -> str:
    variable, _, members = path.partition(".")
    return f"((__typeof__({variable}) *)0)->{members}"


def _compiled(text: str) -> bytes:
    """The content of the array of numbers in the compiled object file."""
    with directory() as place:
        source, output = place / "members.c", place / "members.o"
        source.write_text(text)
        compile_object(source, output, ["-I", str(NATIVE / "include"), "-fPIC"])
        made = relocatable.parse(output.read_bytes())
        symbol = made.symbols[_NUMBERS]
        return made.content[symbol.offset :][: symbol.size]
