# SPDX-License-Identifier: LGPL-2.1-or-later
"""The program by which gilk measures the cost of instruments (native/cost/busy.c): as it came with the package, or
built when it is needed.

The build of a package imports this module, without the libraries that gilk needs when it runs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gilk.toolchain.compilers import NATIVE, compile_object, directory, link_program

SHIPPED: Final = NATIVE / "busy.elf"  #: the program of a package; there is none in a tree of sources
SOURCE: Final = NATIVE / "cost" / "busy.c"


def build(output: Path) -> None:
    """Compile the program to the file ``output``. Raises CompileError."""
    with directory() as place:
        compile_object(SOURCE, place / "busy.o", ["-Werror"])
        link_program([place / "busy.o"], output)


@contextmanager
def cost_program() -> Iterator[Path]:
    """A context with the program, in a directory from which it can be executed. Raises CompileError, OSError."""
    with directory(_may_execute) as place:
        program = place / "busy"
        if SHIPPED.exists():
            shutil.copyfile(SHIPPED, program)
        else:
            build(program)
        program.chmod(0o700)
        yield program


def _may_execute(place: str) -> bool:
    """Whether programs in a directory can be executed: it is on no file system that forbids that."""
    return not os.statvfs(place).f_flag & os.ST_NOEXEC
