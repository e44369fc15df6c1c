# SPDX-License-Identifier: LGPL-2.1-or-later
"""A user's C instrument: compiled once, and linked into each arena in which it is used."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import field
from pathlib import Path

from gilk.arch.effects import CALLER_SAVED
from gilk.cache.blobs import load_blob, store_blob
from gilk.errors import CompileError, UsageError
from gilk.image.elf import load
from gilk.lang.c.wrapper import ENTRY, FORM, PLAIN, VALUES, Form, link_script, wrapper
from gilk.toolchain import relocatable
from gilk.toolchain.clobbers import of_function
from gilk.toolchain.compilers import NATIVE, compile_object, directory, link, prune
from gilk.values import dataclass

_KIND = "instruments"
_OURS = frozenset({"gilk_control", "_GLOBAL_OFFSET_TABLE_"})


@dataclass(frozen=True)
class CompiledObject:
    """An object file in memory; ``undefined`` are the names that the target must define."""

    source: Path
    function: str
    content: bytes
    undefined: tuple[str, ...]


@dataclass(frozen=True)
class Linked:
    """An instrument linked for one arena: its code, and initial data for the writable page below the arena.

    ``entry`` takes struct gilk_regs and an iid, whatever the user's function takes; ``plain`` takes only an iid, for
    functions that do; ``values`` takes the registers of a call as they are (splice/instrument.py, CallWithValues), for
    functions that do, else it is 0. ``takes_registers``: the function wants struct gilk_regs. ``clobbers``: the
    caller-saved registers that ``plain`` or ``values`` may change.
    """

    code: bytes
    data: bytes
    entry: int
    plain: int
    takes_registers: bool
    values: int = 0
    clobbers: int = field(default=CALLER_SAVED)


def compile_instrument(
    source: Path, function: str, flags: tuple[str, ...] = (), made_of: bytes = b"", text: str | None = None
) -> CompiledObject:
    """Compile an instrument. ``flags``: further compiler flags. ``made_of``: a digest of what the code depends on
    besides ``text``; if it is not empty, the result is cached. ``text``: the content of the file, which need not exist
    then.

    Raises UsageError `no-such-file`, `no-such-instrument`, CompileError `does-not-compile`.
    """
    if text is None and not source.is_file():
        raise UsageError("no-such-file", f"there is no instrument file {source}")
    key = repr((function, flags, len(made_of), text)).encode("utf-8", "surrogateescape") + made_of
    kept = load_blob(_KIND, key) if made_of else None
    if kept is not None:
        names, _, content = kept.partition(b"\0")
        return CompiledObject(source, function, content, tuple(names.decode().split()))
    made = _compiled(source, function, flags, text)
    if made_of:
        store_blob(_KIND, key, " ".join(made.undefined).encode() + b"\0" + made.content)
    return made


def _compiled(source: Path, function: str, flags: tuple[str, ...], text: str | None) -> CompiledObject:
    with directory() as place:
        if text is not None:
            source = place / source.name
            source.write_text(text)
        whole_source = place / "instrument.c"
        whole_source.write_text(wrapper(source.resolve(), function))
        whole, output = place / "whole.o", place / "instrument.o"
        include = ["-I", str(NATIVE / "include"), "-I", str(source.resolve().parent)]
        try:
            compile_object(whole_source, whole, [*include, "-fPIC", "-fno-plt", *flags])
        except CompileError as error:
            if f"'{function}' undeclared here" in error.message:
                raise UsageError("no-such-instrument", f"{source} has no function {function!r}") from None
            raise
        prune(whole, output, ENTRY, PLAIN, VALUES, FORM)
        content = output.read_bytes()
        return CompiledObject(source, function, content, undefined(content))


def undefined(content: bytes) -> tuple[str, ...]:
    """The names, sorted, to which a pruned object file refers, and that the target must define. Raises CompileError
    `does-not-link`."""
    return tuple(name for name in relocatable.undefined(content) if name not in _OURS)


def link_instrument(compiled: CompiledObject, code: int, data: int, symbols: dict[str, int]) -> Linked:
    """Link an instrument for the addresses ``code`` and ``data``; ``symbols`` are the addresses of all undefined names.

    The linker is run only for code that has variables, or that refers to something that may be far away. Raises
    CompileError `does-not-link`.
    """
    if code % relocatable.ALIGNED == 0:
        with suppress(CompileError):
            return _alone(compiled, code, symbols)
    return _by_linker(compiled, code, data, symbols)


def _alone(compiled: CompiledObject, code: int, symbols: dict[str, int]) -> Linked:
    """Link without a linker. Raises CompileError if the code needs one."""
    made = relocatable.parse(compiled.content)
    places = {name: (code + part.offset, part.size) for name, part in made.symbols.items()}
    return _linked(made.placed(code, symbols), code, b"", places)


def _by_linker(compiled: CompiledObject, code: int, data: int, symbols: dict[str, int]) -> Linked:
    with directory() as place:
        (place / "instrument.o").write_bytes(compiled.content)
        script = place / "instrument.ld"
        script.write_text(link_script(code, data))
        output = place / "instrument"
        link([place / "instrument.o"], script, output, symbols)
        image = load(output)
    body = next(s for s in image.sections if s.name == ".all")
    held = next((s for s in image.sections if s.name == ".held"), None)
    content = image.read(body.address, body.size)
    initial = image.read(held.address, held.size).ljust(held.size, b"\0") if held else b""
    return _linked(
        bytes(body.address - code) + content,  # the section may begin later, because of its alignment
        code,
        bytes(held.address - data) + initial if held else b"",
        {s.name: (s.address, s.size) for s in image.symbols},
    )


def _linked(content: bytes, code: int, data: bytes, places: dict[str, tuple[int, int]]) -> Linked:
    """The linked instrument. ``places``: addresses and sizes of all symbols."""
    form = Form(content[places[FORM][0] - code])
    return Linked(
        content,
        data,
        places[ENTRY][0],
        places[PLAIN][0],
        form is Form.REGISTERS,
        places[VALUES][0] if form is Form.VALUES else 0,
        of_function(content, code, VALUES if form is Form.VALUES else PLAIN, places),
    )
