# SPDX-License-Identifier: LGPL-2.1-or-later
"""A user's C instrument as a kernel module, made by the kernel's own build system."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gilk.errors import CompileError, UsageError
from gilk.lang.c.kernel_wrapper import BESIDE, ENTRY, INCLUDE, PLAIN, SOURCE, in_user_terms, kbuild, module
from gilk.lang.c.wrapper import FORM
from gilk.toolchain.compilers import NATIVE, directory, environment
from gilk.values import dataclass

#: Functions that compiled code calls by itself; all others that it calls are functions of the kernel.
_USUAL = re.compile(r"__x86_\w+|__stack_chk_fail|\w*_return_thunk|\..*")
_DIVIDES = re.compile(r"[\s:]")  # separators of names, to make and the kernel's Makefile
_UNDEFINED = re.compile(r'ERROR: modpost: "(\S+)" \[\S+\] undefined!')


@dataclass(frozen=True)
class KernelInstrument:
    """A compiled module. ``entry`` and ``plain`` are offsets in the module's .text (see toolchain.instrument.Linked),
    ``plain_size`` is in bytes. ``calls_out``: it calls functions of the kernel, by which it might be entered again."""

    name: str
    content: bytes
    entry: int
    plain: int
    plain_size: int
    takes_registers: bool
    calls_out: bool


@dataclass(frozen=True)
class ModuleFile:
    """A module, with the offsets of its functions from the start of its code."""

    name: str
    content: bytes
    functions: dict[str, int]


def compile_module(name: str, files: Mapping[str, str], kbuild_text: str, headers: Path) -> ModuleFile:
    """Compile module ``name`` from C files, given by their names without ``.c``. Raises CompileError
    `does-not-compile`, `undefined-symbol`, `driver-no-make`, `kbuild-path`."""
    with kbuild_directory() as place:
        (place / INCLUDE).symlink_to(NATIVE / "include" / "kernel")
        for each, text in files.items():
            (place / f"{each}.c").write_text(text)
        (place / "Kbuild").write_text(kbuild_text)
        done = run_kbuild(headers, place)
        if done.returncode:
            undefined = sorted(set(_UNDEFINED.findall(done.stderr)))
            if undefined:
                raise CompileError("undefined-symbol", f"the kernel does not export {', '.join(undefined)}")
            errors = [line for line in done.stderr.splitlines() if "error:" in line]
            said = "\n".join(errors or done.stderr.splitlines())
            raise CompileError("does-not-compile", f"the compiler does not accept it:\n{said}")
        path = place / f"{name}.ko"
        listing = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
        rows = [line.split() for line in listing.splitlines()]
        found = {row[2]: int(row[0], 16) for row in rows if len(row) == 3 and row[1] in "Tt"}
        return ModuleFile(name, path.read_bytes(), found)


def compile_for_kernel(
    source: Path, function: str, name: str, headers: Path, text: str | None = None
) -> KernelInstrument:  # fmt: skip
    """Compile an instrument to a module called ``name``. ``text``: the content of the file, which need not exist then.

    Raises UsageError `no-such-file`, `no-such-instrument`, CompileError `does-not-compile`, `undefined-symbol`,
    `driver-no-make`, `kbuild-path`.
    """
    if text is None and not source.is_file():
        raise UsageError("no-such-file", f"there is no instrument file {source}")
    with kbuild_directory() as place:
        if text is not None:
            (place / "written").mkdir()
            source = place / "written" / source.name
            source.write_text(text)
        _lay_out(place, name, source.resolve(), function)
        done = run_kbuild(headers, place)
        if done.returncode:
            raise _why_not(source, function, in_user_terms(done.stderr, place, source))
        return _described(name, place / f"{name}.ko")


def _lay_out(place: Path, name: str, source: Path, function: str) -> None:
    """Put everything into ``place`` from which kbuild makes module ``name``; files that lie elsewhere are linked."""
    for link, there in ((INCLUDE, NATIVE / "include" / "kernel"), (BESIDE, source.parent), (SOURCE, source)):
        (place / link).symlink_to(there)
    (place / f"{name}.c").write_text(module(place / SOURCE, function))
    (place / "Kbuild").write_text(kbuild(name))


@contextmanager
def kbuild_directory() -> Iterator[Path]:
    """A context with a directory for ``run_kbuild``, like compilers.directory(), whose path has no character that make
    cannot handle."""
    with directory(lambda place: not _DIVIDES.search(place)) as place:
        yield place


def run_kbuild(headers: Path, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run ``make modules`` in a directory; returns its result. Raises CompileError `driver-no-make`, `kbuild-path`."""
    divided = next((path for path in (headers.resolve(), directory) if _DIVIDES.search(str(path))), None)
    if divided is not None:
        hint = "put the kernel's headers elsewhere; those of the lab are in GILK_KERNELS"
        raise CompileError("kbuild-path", f"kbuild takes no path with a space or a colon: {divided}", hint)
    if shutil.which("make") is None:
        raise CompileError("driver-no-make", "make is not installed", "apt-get install make gcc")
    kept = {key: value for key, value in environment().items() if key not in ("MAKEFLAGS", "MFLAGS")}
    return subprocess.run(
        ["make", "-C", str(headers.resolve()), f"M={directory}", "modules"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
        env=kept,
    )  # fmt: skip


def _why_not(source: Path, function: str, said: str) -> CompileError | UsageError:
    if re.search(rf"['‘]{re.escape(function)}['’] undeclared", said):
        return UsageError("no-such-instrument", f"{source} has no function {function!r}")
    undefined = sorted(set(_UNDEFINED.findall(said)))
    if undefined:
        names = ", ".join(undefined)
        hint = "modules may only use what the kernel exports"
        return CompileError("undefined-symbol", f"the kernel does not export {names}, which the instrument uses", hint)
    lines = [line for line in said.splitlines() if not line.startswith(("make", "scripts/"))]
    return CompileError("does-not-compile", "the compiler does not accept the instrument:\n" + "\n".join(lines))


def _described(name: str, path: Path) -> KernelInstrument:
    listing = subprocess.run(["nm", "-S", path], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listing.splitlines()]
    at = {row[-1]: int(row[0], 16) for row in rows if len(row) > 2}
    sizes = {row[3]: int(row[1], 16) for row in rows if len(row) == 4}
    relocations = subprocess.run(["readelf", "-rW", path], capture_output=True, text=True, check=True).stdout
    called = {line.split()[4] for line in relocations.splitlines() if " R_X86_64_PLT32 " in line}
    others = {name for name in called - at.keys() if not _USUAL.fullmatch(name)}
    form = subprocess.run(
        ["objcopy", "-O", "binary", "--only-section=.rodata", str(path), "/dev/stdout"], capture_output=True, check=True
    ).stdout
    return KernelInstrument(
        name, path.read_bytes(), at[ENTRY], at[PLAIN], sizes[PLAIN], bool(form[at[FORM]]), bool(others)
    )
