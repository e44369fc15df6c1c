# SPDX-License-Identifier: LGPL-2.1-or-later
"""The test suites of Debian's source packages: how to find their tests and run them against the installed programs."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.behaviour.suites.cases import Case, Scrub

_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True)
class Suite:
    """A suite. ``prepare`` gets the source and the stand-in for the program, and returns the tests."""

    package: str
    program: str
    inserts: tuple[str, ...]
    prepare: Callable[[Path, Path], list[Case]]
    scrubs: tuple[Scrub, ...] = ()
    binary: bool = False  # the tests are in a binary package


def _gzip(source: Path, proxy: Path) -> list[Case]:
    makefile = (source / "tests" / "Makefile.am").read_text()
    listed = re.search(r"^TESTS =((?:.*\\\n)+.*)", makefile, re.MULTILINE)
    assert listed
    version = re.search(r"^ VERSION='(.*)'|PACKAGE_VERSION='(.*)'", (source / "configure").read_text(), re.MULTILINE)
    assert version
    number = next(filter(None, version.groups()))
    environment = {
        "PATH": f"{proxy.parent}:{_PATH}", "srcdir": ".", "top_srcdir": "..", "abs_srcdir": str(source / "tests"),
        "abs_top_srcdir": str(source), "abs_top_builddir": str(source), "built_programs": "gzip", "CC": "cc",
        "VERSION": number, "PACKAGE_VERSION": number, "PACKAGE_BUGREPORT": "bug-gzip@gnu.org", "GREP": "grep",
        "MAKE": "make", "PERL": "perl", "SHELL": "/bin/sh", "TMPDIR": str(source / "tests"),
    }  # fmt: skip
    names = listed.group(1).replace("\\\n", " ").split()
    return [
        Case(name, ("sh", "-c", f"exec sh ./{name} 9>&2"), source / "tests", {**environment, "GZIP_TEST_NAME": name})
        for name in names
    ]


_XZ_FEATURES = [
    "ENCODERS", "DECODERS", "LZIP_DECODER", "CHECK_CRC64", "CHECK_SHA256",
    *(f"{way}_{name}" for way in ("ENCODER", "DECODER")
      for name in ("DELTA", "X86", "POWERPC", "IA64", "ARM", "ARM64", "ARMTHUMB", "SPARC")),
]  # fmt: skip


def _xz(source: Path, proxy: Path) -> list[Case]:
    tests = source / "tests"
    config = "".join(f"#define HAVE_{name} 1\n" for name in _XZ_FEATURES)
    (source / "config.h").write_text(config + "#define HAVE_INTTYPES_H 1\n#define HAVE_STDBOOL_H 1\n")
    (source / "src" / "xz" / "xz").symlink_to(proxy)
    for script in ("xzdiff", "xzgrep"):
        (source / "src" / "scripts" / script).symlink_to(f"/usr/bin/{script}")
    _compile(tests / "create_compress_files", tests / "create_compress_files.c", f"-I{source}/src/common",
             f"-I{source}", "-DHAVE_CONFIG_H", f"-I{source}/src/liblzma/api")  # fmt: skip
    files = [("compress", re.sub("^test_", "", test.name)) for test in sorted(tests.glob("test_compress_*"))]
    commands = {"files": ("test_files.sh",), "scripts": ("test_scripts.sh",)}
    commands |= {name: (f"test_{kind}.sh", name) for kind, name in files}
    return [Case(name, ("sh", "-x", *words), tests, {"srcdir": ".", "PATH": _PATH}) for name, words in commands.items()]


def _bash(source: Path, proxy: Path) -> list[Case]:
    tests = source / "tests"
    for tool in ("recho", "zecho", "printenv", "xcase"):
        _compile(tests / tool, source / "support" / f"{tool}.c", f"-I{source}", f"-I{source}/include", "-w")
    output = tests / "suite.out"
    environment = {
        "THIS_SH": str(proxy), "PATH": f".:{_PATH}", "BASH_TSTOUT": str(output), "BUILD_DIR": str(source),
        "TMPDIR": str(tests), "HOME": str(tests), "LC_ALL": "",
    }  # fmt: skip
    names = sorted(p.name for p in tests.glob("run-*") if p.name not in ("run-all", "run-minimal", "run-gprof"))
    return [Case(name, ("sh", name), tests, environment, (output,)) for name in names]


#: Tests that take minutes even plainly, and the thread variants of tests that also run without threads.
_PERL_LONG = re.compile(
    r"^(anyof|regexp_.*_thr|user_prop_race_thr|fold_grind_.|uniprops\d+|(?!pat_)\w+_thr|pat_psycho_thr)$"
)


def _perl(source: Path, proxy: Path) -> list[Case]:
    top = source / "t"
    for library in (
        "/usr/share/perl/5.36",
        "/usr/lib/x86_64-linux-gnu/perl/5.36",
        "/usr/lib/x86_64-linux-gnu/perl-base",
    ):
        subprocess.run(["cp", "-rfsL", f"{library}/.", str(source / "lib")], check=True)
    environment = {"PERL_HASH_SEED": "0", "PERL_PERTURB_KEYS": "0", "PERL_CORE": "1", "PATH": f"{proxy.parent}:{_PATH}",
                   "TMPDIR": str(top)}  # fmt: skip
    found = [p for part in ("base", "cmd", "comp", "opbasic", "re", "op") for p in sorted((top / part).glob("*.t"))]
    return [
        Case(str(test.relative_to(top)), (str(proxy), *_switches(test), str(test.relative_to(top))), top, environment)
        for test in found
        if not _PERL_LONG.search(test.stem)
    ]


def _switches(test: Path) -> list[str]:
    """The switches in a test's first line, which perl must be given on the command line."""
    first = test.read_bytes().split(b"\n")[0].decode("latin-1")
    match = re.match(r"#!.*perl\s+(-.*)", first)
    return match.group(1).split() if match else []


_PYTHON_MODULES = [
    "test_dict", "test_set", "test_bytes", "test_unicode", "test_re", "test_struct", "test_generators", "test_coroutines",
    "test_exceptions", "test_descr", "test_math", "test_itertools", "test_zlib", "test_json", "test_pickle",
    "test_fork1", "test_threadsignals", "test_subprocess", "test_signal", "test_sort", "test_os",
]  # fmt: skip


def _python(unpacked: Path, proxy: Path) -> list[Case]:
    library = unpacked / "usr/lib/python3.11"
    # Debian leaves out of its package `test` the modules that it keeps with the interpreter.
    subprocess.run(["cp", "-r", "/usr/lib/python3.11/test", str(library)], check=True)
    overlay = unpacked / "overlay"
    overlay.mkdir()
    (library / "test").rename(overlay / "test")
    environment = {"PYTHONPATH": str(overlay), "PYTHONHASHSEED": "0", "HOME": str(overlay), "TMPDIR": str(overlay)}
    return [
        Case(name, (str(proxy), "-m", "test", "-v", name), overlay, environment)
        for name in _PYTHON_MODULES
        if (overlay / "test" / f"{name}.py").exists() or (overlay / "test" / name).is_dir()
    ]


def _compile(output: Path, source: Path, *flags: str) -> None:
    subprocess.run(["cc", "-O1", *flags, "-o", str(output), str(source)], check=True)


_LIBC = "libc.so.6:*:blocks=count"
_OWN = "*:blocks=count"

_GZIP_SCRUBS = (
    Scrub(r"gt-[\w-]+\.\w{4}\b", "TEMPORARY"),
    Scrub(r"^(\d+ bytes.* copied), .*", r"\1"),  # dd's times
)
_BASH_SCRUBS = (Scrub(r"process group \(\d+\)", "process group"),)
_PERL_SCRUBS = (
    Scrub(r"^ *#.*\n", ""),  # diagnostics: process ids, inodes, times, the order of threads
    Scrub(r"\b(0x)?[0-9a-f]{12}\b", "ADDRESS"),
    Scrub(r"\btmp_?[A-Z]+_?[A-Z]*\b", "TEMPORARY"),
)
_PYTHON_SCRUBS = (
    Scrub(r"^== .*\n", ""),  # the machine, the process number
    Scrub(r"\b(\d+ min )?\d+(\.\d+)?(e-\d+)? ?(ms|s|sec|seconds)\b", "TIME"),
    Scrub(r"^(\d+:)+\d+ (load avg: [\d.]+ )?", ""),
    Scrub(r"\b0x[0-9a-f]{6,16}\b", "ADDRESS"),
    # Process numbers: the parent of a child is its stand-in.
    Scrub(r"^(AssertionError:) \d{2,} (..) \d{2,}$", r"\1 ID \2 ID"),
    Scrub(r"^test_\w+ passed in TIME\n", ""),  # printed for slow tests only
    Scrub(r"^(test_\w+ failed .*) in TIME$", r"\1"),  # the time, printed for slow tests only
    Scrub(r"^ +complaining at .*\n", ""),  # test_sort: random numbers
    Scrub(r"^    checking .*\n", ""),
)

SUITES = {
    "gzip": Suite("gzip", "/usr/bin/gzip", (_OWN, _LIBC), _gzip, _GZIP_SCRUBS),
    "xz": Suite("xz-utils", "/usr/bin/xz", (_OWN, _LIBC, "liblzma.so*:*:blocks=count"), _xz),
    "bash": Suite("bash", "/usr/bin/bash", (_OWN, _LIBC), _bash, _BASH_SCRUBS),
    "perl": Suite("perl", "/usr/bin/perl", (_OWN, _LIBC), _perl, _PERL_SCRUBS),
    "python3": Suite("libpython3.11-testsuite", "/usr/bin/python3.11", (_OWN, _LIBC), _python, _PYTHON_SCRUBS, True),
}


def only(cases: Iterable[Case], pattern: str) -> list[Case]:
    """The cases whose names match, for work on a single test."""
    return [case for case in cases if re.search(pattern, case.name)]
