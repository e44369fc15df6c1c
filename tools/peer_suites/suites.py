# SPDX-License-Identifier: LGPL-2.1-or-later
"""The programs of each suite, and how each is compiled. The sources are in a directory, or in a git directory."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

_SOURCES = (".c", ".cpp", ".cc", ".C", ".h", ".hpp", ".inc", ".def", ".asm", ".s", ".S")
_DG = re.compile(r"dg-(?:additional-)?options \"([^\"]*)\"(?! *\{)")
_OPTION = re.compile(r"-(f|std=|D|m(?!32|x32|arch))[\w=.+-]*\Z")
_THREADS = ("-pthread", "-ldl", "-lm", "-lrt")
#: dyninst's programs are parts of a larger one; this replaces the rest.
_DYNINST_MAIN = """#include <stdio.h>
#include "mutatee_util.h"
#include "mutatee_call_info.h"
int gargc; char **gargv; int debugPrint, signal_fd, unique_id; volatile int isAttached;
int pointerSize = sizeof(void *); int mutateeCplusplus; const char *Builder_id = "";
void handleAttach(void) {} int checkIfAttached(void) { return 1; }
extern mutatee_call_info_t mutatee_funcs[];
int main(int argc, char **argv)
{
	gargc = argc; gargv = argv;
	initOutputDriver();
	int result = mutatee_funcs[0].func();
	printf("%d\\n", result);
	return result != 0;
}
"""
#: The function of DynamoRIO's core that its tests call.
_DYNAMORIO_CALL = """#include <stdarg.h>
long dynamorio_syscall(unsigned number, unsigned count, ...)
{
	long word[6], result = number;
	va_list list;
	va_start(list, count);
	for (unsigned i = 0; i < 6; i++)
		word[i] = i < count ? va_arg(list, long) : 0;
	va_end(list);
	register long r10 asm("r10") = word[3], r8 asm("r8") = word[4], r9 asm("r9") = word[5];
	asm volatile("syscall" : "+a"(result) : "D"(word[0]), "S"(word[1]), "d"(word[2]), "r"(r10), "r"(r8), "r"(r9)
		: "rcx", "r11", "memory");
	return result;
}
"""


@dataclass(frozen=True)
class Program:
    """A program of a suite. ``flags`` come before the sources, ``libraries`` after them; ``texts`` are names and
    contents of files to write beside the program.

    ``assembled`` are sources that also contain assembler, for a preprocessor that defines ASM_CODE_ONLY.
    """

    name: str
    sources: tuple[Path, ...]
    flags: tuple[str, ...] = ()
    libraries: tuple[str, ...] = _THREADS
    texts: tuple[tuple[str, str], ...] = ()
    assembled: tuple[Path, ...] = ()

    @property
    def compiler(self) -> str:
        return "g++" if self.sources[0].suffix in (".cpp", ".cc", ".C") else "gcc"


@dataclass(frozen=True)
class Suite:
    """A suite of programs. ``folders`` are the parts of its repository that are needed."""

    folders: tuple[str, ...]
    programs: Callable[[Path], Iterator[Program]]


def _directory(root: Path) -> Iterator[Program]:
    """The programs of a suite in which every source file is a program."""
    for source in sorted(root.iterdir()):
        if source.suffix in (".c", ".cpp"):
            yield Program(source.stem, (source,))


def _uftrace(root: Path) -> Iterator[Program]:
    for source in sorted((root / "tests").glob("s-*.c*")):
        if not source.name.startswith("s-lib"):
            yield Program(source.name, (source,), (f"-I{source.parent}",))


def _torture(root: Path) -> Iterator[Program]:
    folder = root / "gcc/testsuite/gcc.c-torture/execute"
    for source in sorted(folder.rglob("*.c")):
        if source.parent.name != "builtins":  # each of those consists of several files
            named = " ".join(_DG.findall(source.read_text(errors="replace"))).split()
            flags = tuple(word for word in named if _OPTION.match(word))
            yield Program(str(source.relative_to(folder)), (source,), flags, ("-lm",))


def _llvm(root: Path) -> Iterator[Program]:
    folder = root / "SingleSource/UnitTests"
    others = ("AArch64", "Mips", "ObjC", "ObjC++", "PowerPC")
    for source in sorted(path for path in folder.rglob("*") if path.suffix in (".c", ".cpp")):
        name = source.relative_to(folder)
        if name.parts[0] not in others:
            yield Program(str(name), (source,), (f"-I{source.parent}", f"-I{source.parent.parent}"))


def _dynamorio(root: Path) -> Iterator[Program]:
    tests = root / "suite/tests"
    core = ("include", "lib", "unix", "arch", "ir", "drlibc")
    include = ("suite/tests", "common", "core", *(f"core/{name}" for name in core))
    defines = ("LINUX", "UNIX", "X64", "X86", "X86_64", "HAVE_UNISTD_H", "HAVE_TYPELIMITS_H")
    flags = ("-I.", *(f"-D{name}" for name in defines), *(f"-I{root / name}" for name in include))
    made = (("configure.h", ""), ("dr_mcxtx.h", '#include "mcxtx_api.h"\n'), ("call.c", _DYNAMORIO_CALL))
    for folder in ("common", "linux", "pthreads", "security-common", "security-linux"):
        for source in sorted((tests / folder).glob("*.c")):
            sources = (source, tests / "tools.c")
            assembled = tuple(each for each in sources if "ASM_CODE_ONLY" in each.read_text(errors="replace"))
            given = (*sources, Path("call.c"))
            yield Program(f"{folder}/{source.name}", given, flags, _THREADS, made, assembled)


def _dyninst(root: Path) -> Iterator[Program]:
    folder = root / "src"
    common = ("-I.", f"-I{folder}", f"-I{folder / 'dyninst'}", "-Dos_linux_test", "-Darch_x86_64_test", "-DGROUPABLE=0")
    for source in sorted((folder / "dyninst").glob("*_mutatee.c")):
        test = source.name.removesuffix("_mutatee.c")
        flags = (*common, f"-DTEST_NAME={test}", "-fcommon", "-fpermissive")
        sources = (source, folder / "mutatee_util.c", Path("main.c"))
        yield Program(source.name, sources, flags, _THREADS, (("main.c", _DYNINST_MAIN),))


SUITES = {
    "directory": Suite(("",), _directory),
    "uftrace": Suite(("tests",), _uftrace),
    "torture": Suite(("gcc/testsuite/gcc.c-torture/execute",), _torture),
    "llvm": Suite(("SingleSource/UnitTests",), _llvm),
    "dynamorio": Suite(("suite/tests", "core", "common"), _dynamorio),
    "dyninst": Suite(("src",), _dyninst),
}


def checked_out(place: Path, suite: Suite, into: Path) -> Path:
    """The directory with the suite's sources: ``place`` itself, or ``into``, filled from the HEAD of the git directory
    ``place``.

    A blob that a partial clone lacks is left out. Raises OSError, subprocess.CalledProcessError.
    """
    if not (place / "objects").is_dir():
        return place
    rows = _git(place, "ls-tree", "-r", "-z", "HEAD", "--", *suite.folders).split(b"\0")
    wanted = [row.split(b"\t", 1) for row in rows if row and row.startswith(b"100")]
    chosen = [(meta.split()[2], path.decode()) for meta, path in wanted if path.decode().endswith(_SOURCES)]
    _write_blobs(place, chosen, into)
    return into


def _git(place: Path, *command: str, given: bytes = b"") -> bytes:
    return subprocess.run(["git", f"--git-dir={place}", *command], input=given, capture_output=True, check=True).stdout


def _write_blobs(place: Path, chosen: list[tuple[bytes, str]], into: Path) -> None:
    content = _git(place, "cat-file", "--batch", given=b"".join(name + b"\n" for name, _ in chosen))
    at = 0
    for _, path in chosen:
        end = content.index(b"\n", at)
        words, at = content[at:end].split(), end + 1
        if words[-1] == b"missing":
            continue
        size = int(words[2])
        (into / path).parent.mkdir(parents=True, exist_ok=True)
        (into / path).write_bytes(content[at : at + size])
        at += size + 1
