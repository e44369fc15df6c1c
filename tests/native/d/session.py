# SPDX-License-Identifier: LGPL-2.1-or-later
"""The C runtime of D, compiled for tests: as functions by ctypes, and as a program of many threads."""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gilk.lang.data import Aggregating, Aggregation, Function
from gilk.toolchain.compilers import NATIVE, flags
from gilk.trace.d.layout import MemoryLayout
from gilk.trace.d.memory import MemoryOptions, ProgramMemory
from tests.native.host import HOSTS, build

HERE = Path(__file__).parent
WORDS = ("t_index", "t_rindex", "t_strtoll", "t_speculation", "t_rand", "t_strlen", "t_fault_address", "t_session_size")
WORDS += ("t_signals", "t_vtimestamp", "t_fdoffset", "t_fdflags", "t_fdmount", "t_walk")
WORDS += ("t_threadnice", "t_threadpriority")
POINTERS = ("t_alloca", "t_strchr", "t_strrchr", "t_strstr", "t_strtok")
TRUTHS = ("t_reserve", "t_dynamic_load", "t_dynamic_store", "t_load", "t_store", "t_copyin_string", "t_store_string")
TRUTHS += ("t_ask_signal", "t_chill")


_host = "process"


@contextmanager
def on_host(name: str) -> Iterator[None]:
    """In the block, functions are those that were compiled for that host."""
    global _host
    before, _host = _host, name
    try:
        yield
    finally:
        _host = before


def library() -> ctypes.CDLL:
    """The library, compiled with the flags of clauses."""
    return _library(_host)


@functools.cache
def _library(host: str) -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(build([HERE / "harness.c"], "harness", *flags(), "-shared", "-fPIC", *HOSTS[host])))
    for name in WORDS:
        getattr(loaded, name).restype = ctypes.c_int64
    for name in POINTERS:
        getattr(loaded, name).restype = ctypes.c_void_p
    for name in TRUTHS:
        getattr(loaded, name).restype = ctypes.c_bool
    return loaded


@functools.cache
def storm(options: tuple[str, ...], native: Path = NATIVE) -> Path:
    hosted = [flag for flag in flags() if flag != "-ffreestanding"]
    macros = [option for option in options if option.startswith("-D")]
    return build([HERE / "storm.c"], "storm", *hosted, "-pthread", "-mno-red-zone", *macros, native=native)


class Shared:
    """A memory object: `memory` is the consumer's side."""

    def __init__(self, options: MemoryOptions) -> None:
        self.layout: MemoryLayout = options.layout()
        self.fd = os.memfd_create("gilk-test")
        os.ftruncate(self.fd, self.layout.size)
        self.map = mmap.mmap(self.fd, self.layout.size)
        self.memory = ProgramMemory(self.layout, self.map)
        self.memory.initialise()
        self.plan = bytes(self.memory.control.layout)  # before anything is scribbled on
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))

    def __del__(self) -> None:
        os.close(self.fd)

    def storm(self, *arguments: object, program: Path | None = None) -> subprocess.Popen[str]:
        """Start the storm, or another ``program`` like it, on this memory."""
        command = [str(program or storm(HOSTS[_host])), str(self.fd), *map(str, arguments)]
        return subprocess.Popen(command, pass_fds=[self.fd], stdout=subprocess.PIPE, text=True)

    def session(self, cpu: int = 0, tid: int = 1000, time: int = 1) -> Session:
        return Session(self, cpu, tid, time)


class Session:
    """The clauses of one hit. The methods are the functions that harness.c exports, without t_."""

    def __init__(self, shared: Shared, cpu: int, tid: int, time: int) -> None:
        self.shared = shared
        self._state = ctypes.create_string_buffer(library().t_session_size())
        self._strings: list[Any] = []
        library().t_open(self._state, ctypes.c_void_p(shared.address), shared.plan, cpu, tid, ctypes.c_uint64(time))

    def __getattr__(self, name: str) -> Any:
        function = getattr(library(), f"t_{name}")
        return lambda *arguments: function(self._state, *(_argument(value) for value in arguments))

    def text(self, name: str, *arguments: object, size: int = 0) -> bytes | None:
        """The string that a function makes."""
        room = ctypes.create_string_buffer(b"\xff" * ((size or self.shared.layout.strsize) + 8))
        function = getattr(library(), f"t_{name}")
        function.restype = ctypes.c_void_p
        if not function(self._state, room, *(_argument(value) for value in arguments)):
            return None
        assert room.raw[self.shared.layout.strsize :].strip(b"\xff\0") == b"", "written past its end"
        return room.value

    def record(self, epid: int, data: bytes) -> bool:
        made: bool = self.reserve(epid, data, len(data))
        self.commit()
        return made

    def aggregate(self, which: Aggregation, key: bytes, value: int, weight: int = 1) -> None:
        what = which.what
        low = (ctypes.c_int64 * 3)(what.low, what.high, what.step)
        edges = what.edges if what.function is Function.LLQUANTIZE else ()
        library().t_aggregate(
            *(self._state, list(Function).index(what.function), which.number, key, len(key)),
            *(ctypes.c_int64(value), ctypes.c_int64(weight), low, (ctypes.c_uint64 * len(edges))(*edges), len(edges)),
        )


def _argument(value: object) -> object:
    if isinstance(value, int):
        return ctypes.c_uint64(value & (1 << 64) - 1)
    return value


#: The aggregations of storm.c.
KNOWN = tuple(
    Aggregation(number, f"a{number}", what, (), 16)
    for number, what in enumerate(
        (
            *(Aggregating(Function.COUNT), Aggregating(Function.COUNT), Aggregating(Function.SUM)),
            *(Aggregating(Function.MIN), Aggregating(Function.MAX), Aggregating(Function.AVG)),
            *(Aggregating(Function.STDDEV), Aggregating(Function.QUANTIZE)),
            Aggregating(Function.LQUANTIZE, low=0, high=100, step=10),
            Aggregating(Function.LLQUANTIZE, low=0, high=1, factor=10, steps=10),
        ),
        start=1,
    )
)
