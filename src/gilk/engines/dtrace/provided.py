# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files for building a program that has its own probes: the header of -h, and the object file of -G."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from gilk.errors import StoreError, UsageError
from gilk.image.header import EHDR, EM_X86_64, SHDR
from gilk.lang.d.header import header
from gilk.lang.d.tree import Interface
from gilk.outputs import replaceable, replacing

#: Functions that probes in headers by DTrace call; DTrace's -G takes these calls out.
_THEIRS = re.compile(rb"__dtrace(?:enabled)?_\w+___\w+", re.ASCII)
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


def write_objects(scripts: Sequence[str], objects: Sequence[str], output: Path | None) -> None:
    """Write an empty object file for each of ``scripts``, or a single ``output``. ``objects``: the files to link with.

    Raises UsageError `foreign-dtrace-object`, StoreError.
    """
    for name in objects:
        _check(name)
    named = (_beside(name, ".o") if name.endswith(".d") else Path("d.out") for name in scripts)
    for path in [output] if output is not None else dict.fromkeys(named):
        _write(path, _empty_object())


def _beside(script: str, suffix: str) -> Path:
    """The script's name with another suffix, in the current directory, as DTrace does it."""
    return Path(Path(script).name).with_suffix(suffix)


def _check(name: str) -> None:
    """Check that an object file was not compiled with another dtrace's header. With gilk's header, it has its probes
    already.

    Raises UsageError `foreign-dtrace-object`.
    """
    try:
        found = _THEIRS.search(Path(name).read_bytes())
    except OSError as error:
        raise UsageError("foreign-dtrace-object", f"cannot read {name}: {error.strerror}") from None
    if found is not None:
        what = f"{name} calls {found[0].decode()}, which a header that another dtrace made has declared"
        raise UsageError("foreign-dtrace-object", what, "make the header with gilk dtrace -h, and compile again")


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
