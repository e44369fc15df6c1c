# SPDX-License-Identifier: LGPL-2.1-or-later
"""The clauses of a D program as native code: compiled once and cached, and run in this process."""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

from gilk.arch import processor
from gilk.cache import key as keys
from gilk.cache.blobs import load_blob, store_blob
from gilk.errors import CompileError
from gilk.toolchain import compilers, relocatable
from gilk.toolchain.compilers import FLAGS as COMMON
from gilk.toolchain.compilers import NATIVE, identity
from gilk.toolchain.relocatable import Relocatable

#: D's arithmetic wraps around, and its variables are bytes that are read as their declared types.
FLAGS = (*("-I", str(NATIVE), "-fwrapv", "-fno-strict-aliasing", "-Wno-unused-function", "-Wno-unused-value"),)
ARGUMENTS = 10
_KIND = "d-programs"
_READ = ("runtime/d", "runtime/shared", "host", "include/gilk.h", "abi")


class ClauseEvent(ctypes.Structure):
    """struct gd_event, native/runtime/d/context.h."""

    _fields_ = [
        ("arg", ctypes.c_uint64 * ARGUMENTS),
        *((name, ctypes.c_uint64) for name in ("time", "thread")),
        *((name, ctypes.c_uint32) for name in ("probe", "cpu", "pid", "tid")),
        ("edge", ctypes.c_uint64),
        ("regs", ctypes.c_void_p),
        *((name, ctypes.c_uint32) for name in ("error", "copied")),
        ("local", ctypes.c_void_p),
    ]


def program_flags() -> tuple[str, ...]:
    """The compiler's flags for this processor."""
    return (*FLAGS, "-DHOST_RDPID") if _has_rdpid() else FLAGS


@contextmanager
def compiling(text: str) -> Iterator[Callable[[], Relocatable]]:
    """A context in which a program is compiled, or taken from the cache. It yields a function that waits for the end
    and returns the program, or raises CompileError `does-not-compile`, which is a fault of gilk."""
    key = made_of() + text.encode("utf-8", "surrogateescape")
    kept = _kept(key)
    if kept is not None:
        yield lambda: kept
        return
    with compilers.directory() as place:
        source, output = place / "program.c", place / "program.o"
        source.write_text(text)
        with compilers.compiling(source, output, ["-fPIC", *program_flags()]) as finish:

            def made() -> Relocatable:
                finish()
                content = output.read_bytes()
                store_blob(_KIND, key, content)
                return relocatable.parse(content)

            yield made


def _kept(key: bytes) -> Relocatable | None:
    content = load_blob(_KIND, key)
    with suppress(CompileError):
        return relocatable.parse(content) if content is not None else None
    return None


def made_of() -> bytes:
    """A digest of everything besides its text on which a program's code depends: the compiler, its flags, and the
    runtime."""
    return keys.made_of((identity(), COMMON, FLAGS, _has_rdpid()), read_files())


def read_files() -> list[Path]:
    """All files of gilk that the compiler may read."""
    return [file for name in _READ for file in keys.files_of(NATIVE / name)]


@functools.cache
def _has_rdpid() -> bool:
    """Whether the processor has the instruction rdpid, which gives the processor's number."""
    return "rdpid" in processor.flags()


class Native:
    """A program that is loaded into this process; its code is never both writable and executable."""

    def __init__(self, program: Relocatable, tables: Mapping[str, bytes] = MappingProxyType({})) -> None:
        """``tables``: the data that the code refers to, by name; they are put behind the code. Raises CompileError
        `does-not-link`."""
        self._program = program
        size = len(program.content) + 8 + sum(len(table) + 8 for table in tables.values())
        self._memory = mmap.mmap(-1, max(size, 1))
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        code = with_tables(program, tables, self._address)
        self._memory[: len(code)] = code
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        if protect(ctypes.c_void_p(self._address), ctypes.c_size_t(len(self._memory)), mmap.PROT_READ | mmap.PROT_EXEC):
            raise CompileError("does-not-link", f"the system forbids to execute it: {os.strerror(ctypes.get_errno())}")

    def fire(self, group: int, memory: int, event: ClauseEvent, always: bool = False, looks: bool = False) -> None:
        """Run the clauses of a group. ``memory``: the address here of the program's memory. ``always``: run them even
        if the program is not active. ``looks``: they may read the memory of the event's process."""
        at = self._address + self._program.symbols[f"d_group_{group}"].offset
        _FUNCTION(at)(memory, ctypes.byref(event), 1 | always << 1 | looks << 2)


_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ClauseEvent), ctypes.c_uint)


def with_tables(program: Relocatable, tables: Mapping[str, bytes], address: int) -> bytes:
    """The code, relocated for ``address``, with the tables that it names behind it. Raises CompileError
    `does-not-link`."""
    data, places = bytes(-len(program.content) % 8), {}
    for name, table in tables.items():
        places[name] = address + len(program.content) + len(data)
        data += table + bytes(-len(table) % 8)
    wanted = program.undefined & places.keys()
    return program.placed(address, {name: places[name] for name in wanted}) + data
