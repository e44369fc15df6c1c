# SPDX-License-Identifier: LGPL-2.1-or-later
"""Links the runtime with which every arena begins to a file. A package that was built where there is a compiler has
that file in it, so machines on which it is installed need none.

The build of a package imports this module, without the libraries that gilk needs when it runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gilk.toolchain.compilers import NATIVE, compile_object, directory, link

SHIPPED: Final = NATIVE / "runtime.elf"  #: the runtime of a package; there is none in a tree of sources
_SOURCES = (
    *("runtime/claim.c", "runtime/dispatch.c", "runtime/gate.c", "runtime/signal.c", "runtime/advice.c"),
    *("runtime/copies.c", "runtime/places.c", "runtime/whole_state.c", "runtime/context_exchange.c"),
    *("runtime/work_size.c", "runtime/onward.c"),
    *("host/process.S", "host/advice.S", "host/access.S"),
)
_READ = (
    *(*_SOURCES, "runtime/runtime.h", "runtime/runtime.ld", "include/gilk.h", "abi/gilk_abi.h", "abi/gilk_regs.h"),
    *("abi/gilk_atomic.h", "host/host.h", "host/process.h", "host/block.h", "host/own.h", "runtime/advice.h"),
    *("host/segments.h", "host/advising.h", "abi/gilk_access.h", "include/gilk_copies.h"),
    *("runtime/places.h", "runtime/whole_state.h", "runtime/context_words.h", "runtime/work_size.h"),
    *("abi/gilk_onward.h", "runtime/shared/onward.h"),
)


def read_files() -> list[Path]:
    """All files of gilk that the compiler and the linker may read."""
    return [NATIVE / name for name in _READ]


def build(output: Path) -> None:
    """Compile the runtime, and link it to the file ``output``. Raises CompileError."""
    with directory() as place:
        objects = []
        for source in _SOURCES:
            objects.append(place / (Path(source).name + ".o"))
            compile_object(NATIVE / source, objects[-1], ["-fPIE", "-Werror"])
        link(objects, NATIVE / "runtime" / "runtime.ld", output, {})
