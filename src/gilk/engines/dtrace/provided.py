# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files for building a program that has its own probes: the header of -h, and the object file of -G."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from gilk.engines.dtrace.called_probes import linked, types_of
from gilk.errors import StoreError, UsageError
from gilk.image.header import EHDR, EM_X86_64, SHDR
from gilk.lang.d.called import definitions
from gilk.lang.d.header import header
from gilk.lang.d.tree import Interface
from gilk.outputs import replaceable, replacing

#: Section names. Without .note.GNU-stack, the linker would make stacks executable.
_NAMES = b"\0.shstrtab\0.note.GNU-stack\0".ljust(32, b"\0")
_IDENT = b"\x7fELF\2\1\1".ljust(16, b"\0")


def write_header(interfaces: Sequence[Interface], scripts: Sequence[str], output: Path | None) -> None:
    """Write the header of -h. ``scripts``: the scripts that were compiled. Raises UsageError `no-output-file`,
    `not-for-a-header`, StoreError."""
    if output is None:
        if len(scripts) != 1 or not scripts[0].endswith(".d"):
            raise UsageError("no-output-file", "-h requires an output file unless one script is given", "say -o FILE")
        output = _beside(scripts[0], ".h")
    _write(output, header(interfaces, output.name).encode("utf-8", "surrogateescape"))


def write_objects(
    scripts: Sequence[str], objects: Sequence[str], output: Path | None, interfaces: Sequence[Interface] = ()
) -> None:
    """Write an object file for each of ``scripts``, or a single ``output``. ``objects``: the files to link with; those
    that call probes as functions are changed. The object files are empty if there are none such.

    Raises UsageError `foreign-dtrace-object`, `not-for-a-header`, StoreError, CompileError.
    """
    types = types_of(interfaces)
    given = {name: _read(name) for name in dict.fromkeys(objects)}
    made = {name: linked(name, content, types) for name, content in given.items()}
    probes = {probe for _, found in made.values() for probe in found}
    content = _compiled(definitions(probes)) if probes else _empty_object()
    for name, (changed, _) in made.items():
        if changed != given[name]:
            _write(Path(name), changed)
    named = (_beside(name, ".o") if name.endswith(".d") else Path("d.out") for name in scripts)
    for path in [output] if output is not None else dict.fromkeys(named):
        _write(path, content)


def _beside(script: str, suffix: str) -> Path:
    """The script's name with another suffix, in the current directory, as DTrace does it."""
    return Path(Path(script).name).with_suffix(suffix)


def _read(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise UsageError("foreign-dtrace-object", f"cannot read {name}: {error.strerror}") from None


def _compiled(text: str) -> bytes:
    from gilk.toolchain import compilers  # here: most object files need no compiler

    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "probes.S"), Path(folder, "probes.o")
        source.write_text(text)
        compilers.compile_object(source, made, [])
        return made.read_bytes()


def _empty_object() -> bytes:
    """An ELF file of type ET_REL for x86-64 without content (System V gABI, chapter 4)."""
    relocatable, size, count = 1, EHDR.size, 3
    start = size + len(_NAMES)
    rows = (
        (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (_NAMES.index(b".shstrtab"), 3, 0, 0, size, len(_NAMES), 0, 0, 1, 0),  # SHT_STRTAB
        (_NAMES.index(b".note.GNU-stack"), 1, 0, 0, start, 0, 0, 0, 1, 0),  # SHT_PROGBITS
    )
    head = EHDR.pack(*(relocatable, EM_X86_64, 1, 0, 0, start, 0), *(size, 0, 0, SHDR.size, count, 1))
    return _IDENT + head[len(_IDENT) :] + _NAMES + b"".join(SHDR.pack(*row) for row in rows)


def _write(path: Path, content: bytes) -> None:
    try:
        with replacing(path) if replaceable(path) else path.open("wb") as file:
            file.write(content)
    except OSError as error:
        raise StoreError("cannot-write", f"{path}: {error.strerror}") from None
