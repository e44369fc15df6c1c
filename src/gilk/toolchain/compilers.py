# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs the system's C compiler and linker, from files to files."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gilk import private
from gilk.errors import CompileError

NATIVE = Path(__file__).resolve().parent.parent / "native"

#: Flags for code that runs at a probe: it touches no SIMD state, has no canary and no string instructions (the
#: direction flag may be set), and uses addresses relative to rip.
FLAGS = (
    *("-std=gnu11", "-O2", "-Wall", "-Wextra", "-ffreestanding", "-fno-stack-protector", "-mgeneral-regs-only"),
    *("-mfsgsbase", "-mstringop-strategy=unrolled_loop", "-fvisibility=hidden", "-fno-asynchronous-unwind-tables"),
    *("-fno-ident", "-fno-jump-tables", "-ffunction-sections", "-fdata-sections"),
)
_INSTALL = "install gcc, or `pip install ziglang`"
_ALONE = ("-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none")  # for the linker: no library, and fixed addresses
_GCC_ONLY = {"-mstringop-strategy=unrolled_loop"}


@contextmanager
def directory(suits: Callable[[str], bool] = bool) -> Iterator[Path]:
    """A context with a new directory for compiling, in a place that ``suits``; it is removed at the end. Nobody else
    can replace it.

    Raises OSError.
    """
    import tempfile  # late imports, here and below: they take time, and are not needed if everything is cached

    with tempfile.TemporaryDirectory(prefix="gilk-", dir=private.temporary(suits)) as name:
        yield Path(name)


def environment() -> dict[str, str]:
    """The environment for compilers, with a safe directory for their temporary files, and messages in English. Raises
    OSError."""
    return dict(os.environ, LC_ALL="C", TMPDIR=str(private.temporary()))


@functools.cache
def compiler() -> tuple[str, ...]:
    """The command of the compiler: $CC, cc, gcc, clang, or the ziglang wheel. Raises CompileError `no-compiler`."""
    named = os.environ.get("CC")
    if named:
        import shlex

        words: tuple[str, ...] = ()
        with suppress(ValueError):  # an unterminated quotation
            words = tuple(shlex.split(named))
        if not words or not _found(words[0]):
            raise CompileError("no-compiler", f"CC is {named!r}, which cannot be run", _INSTALL)
        return words
    for name in ("cc", "gcc", "clang"):
        if found := _found(name):
            return (found,)
    import subprocess

    probe = subprocess.run([sys.executable, "-m", "ziglang", "version"], capture_output=True, check=False)
    if probe.returncode == 0:
        return (sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-linux-gnu")
    raise CompileError("no-compiler", "there is no C compiler", _INSTALL)


def identity() -> tuple[object, ...]:
    """The compiler's command and the state of its file, so that a replaced compiler counts as another one. Raises
    CompileError `no-compiler`."""
    command = compiler()
    status = os.stat(command[0]) if os.path.isabs(command[0]) else None
    return command, (status.st_size, status.st_mtime_ns, status.st_ino) if status else None


def _found(name: str) -> str:
    """The path of a program; empty when it is not there."""
    places = [name] if os.path.dirname(name) else [os.path.join(place, name) for place in os.get_exec_path()]
    return next((place for place in places if os.path.isfile(place) and os.access(place, os.X_OK)), "")


@functools.cache
def _is_gcc() -> bool:
    """Whether the compiler is gcc; mostly told by its file name, since running it to ask would take as long as
    everything else."""
    command = compiler()
    name = os.path.basename(os.path.realpath(command[0]))
    if len(command) == 1 and ("gcc" in name) != ("clang" in name):
        return "gcc" in name
    import subprocess

    answer = subprocess.run([*command, "-v"], capture_output=True, text=True, check=False)
    return "gcc version" in answer.stderr


def all_errors() -> list[str]:
    """The options by which the compiler reports all errors, without a limit."""
    return ["-fmax-errors=0"] if _is_gcc() else ["-ferror-limit=0"]


def columns_in_bytes() -> list[str]:
    """The options by which the compiler counts columns in bytes."""
    return ["-fdiagnostics-column-unit=byte"] if _is_gcc() else []


def flags() -> list[str]:
    return [flag for flag in FLAGS if _is_gcc() or flag not in _GCC_ONLY]


def compile_object(source: Path, output: Path, extra: list[str]) -> None:
    """Compile a source file to an object file. Raises CompileError `does-not-compile` with the compiler's own
    message."""
    with compiling(source, output, extra) as finish:
        finish()


@contextmanager
def compiling(source: Path, output: Path, extra: list[str]) -> Iterator[Callable[[], None]]:
    """A context in which the compiler runs; it yields a function that waits for its end, and raises CompileError. The
    compiler is killed if the context is left before that."""
    kind = [] if source.suffix == ".S" else flags()
    with _running([*compiler(), *kind, *extra, "-c", str(source), "-o", str(output)]) as wait:

        def finish() -> None:
            if wrong := wait():
                raise CompileError("does-not-compile", wrong)

        yield finish


def link(objects: list[Path], script: Path, output: Path, symbols: dict[str, int]) -> None:
    """Link a static executable laid out by ``script``; ``symbols`` have absolute addresses. Raises CompileError
    `does-not-link`."""
    defined = [f"-Wl,--defsym,{name}={value:#x}" for name, value in symbols.items()]
    options = [*_ALONE, "-Wl,--no-relax", "-Wl,--no-warn-rwx-segments"]
    _run([*compiler(), *options, f"-Wl,-T,{script}", *defined, *map(str, objects), "-o", str(output)], "does-not-link")


def link_program(objects: list[Path], output: Path) -> None:
    """Link a program that needs no library, and begins at ``_start``. Raises CompileError `does-not-link`."""
    _run([*compiler(), *_ALONE, *map(str, objects), "-o", str(output)], "does-not-link")


def prune(source: Path, output: Path, entry: str, *keep: str) -> None:
    """Copy an object file without the code and data that ``entry`` and ``keep`` do not need."""
    options = ["-nostdlib", "-r", f"-Wl,--gc-sections,-e,{entry}", *(f"-Wl,-u,{name}" for name in keep)]
    _run([*compiler(), *options, str(source), "-o", str(output)], "does-not-link")


def _run(command: list[str], slug: str) -> None:
    with _running(command) as wait:
        if wrong := wait():
            raise CompileError(slug, wrong)


@contextmanager
def _running(command: list[str]) -> Iterator[Callable[[], str]]:
    """A context in which ``command`` runs; it yields a function that waits for its end and returns its error output, or
    '' on success."""
    import subprocess

    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, errors="replace", env=environment()) as process:

        def wait() -> str:
            said = process.communicate()[1].strip()
            return (said or f"{command[0]} failed with status {process.returncode}") if process.returncode else ""

        try:
            yield wait
        finally:
            process.terminate()  # on SIGTERM the compiler removes its unfinished output
