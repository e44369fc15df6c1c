# SPDX-License-Identifier: LGPL-2.1-or-later
"""The programs for random commands: some end by themselves, others make rounds until they are told to end.

For each the names of functions are known, also of libc's, as a user would find them with ``gilk scan --list``.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.behaviour.harness import run_gilk
from tests.programs.build import build

LIBC = (
    "malloc",
    "free",
    "strlen",
    "memcpy",
    "write",
    "read",
    "getenv",
    "fwrite",
    "vfprintf",
    "memset",
    "calloc",
    "qsort",
)
_WORDS = "\n".join(f"{n * 7919 % 1009} word{n % 37} {n * n % 101}" for n in range(400)) + "\n"


@dataclass(frozen=True)
class Subject:
    """A program. ``functions`` are those of the main program ``image``. ``command`` reads ``stdin``, and does the same
    each time.

    If ``exact``, each of its functions runs equally often in each run. ``lines`` are places in its source.
    """

    name: str
    command: tuple[str, ...]
    image: str
    functions: tuple[str, ...]
    stdin: bytes = b""
    exact: bool = True
    lines: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ("libc", "ld-linux*")


_SCRIPTS: dict[str, tuple[str, ...]] = {
    "dash": ("dash", "-c", 'f() { echo "f $1"; }; i=0; while [ $i -lt 60 ]; do f $i; i=$((i+1)); done; (exit 3); echo $?; exit 4'),
    "bash": ("bash", "-c", 'f() { echo "f $1"; }; for i in {1..60}; do f $i; done; x=$(f 7); echo ${x^^} | cat; exit 5'),
    "sqlite3": ("sqlite3", ":memory:", "create table t(a, b); with recursive n(i) as (select 1 union all select i+1 from n where i<300) insert into t select i, i*7%13 from n; select b, count(*) from t group by b;"),
    "perl": ("perl", "-e", 'my %h; $h{$_ * 7 % 13} += $_ for 1..500; print "$_ $h{$_}\\n" for sort keys %h; eval { die "x\\n" }; print $@; exit 6'),
    "python": ("/usr/bin/python3", "-S", "-c", "import threading\nfor n in range(3):\n    t = threading.Thread(target=lambda: print(sum(range(999))))\n    t.start(); t.join()\nraise SystemExit(7)"),
    "gzip": ("gzip", "-nc"), "xz": ("xz", "-0", "-T1", "-c"), "sort": ("sort", "-n", "--parallel=1"), "grep": ("grep", "-E", "(word3|7$)"),
    "sed": ("sed", "-e", "s/word/W/; /9/d"), "mawk": ("mawk", "{ n[$2] += $1 } END { for (k in n) m += n[k]; print m }"),
    "bc": ("bc", "-lq"), "ls": ("ls", "-d", "/"), "false": ("false",), "expr": ("expr", "6", "*", "7"), "cmake": ("cmake", "--version"),
    "ninja": ("ninja", "--version"), "openssl": ("openssl", "dgst", "-md5"), "env": ("env", "-i", "echo", "x"),
    "pipe": ("sh", "-c", "sort -n | head -3; kill -TERM $$"),
}  # fmt: skip
_INPUTS = {"bc": b"for (i = 0; i < 40; i++) s(i)\n2^200\n", "cmake": b""}
_BUILT = ("calls", "work", "tailcall", "recursion", "setjmp", "exceptions", "jumptable", "signals", "threads", "fork", "dense", "unwind",
          "backtrace", "ifunc", "redzone", "rounds")  # fmt: skip
_ROUND = ("hot8", "signals", "threads", "exceptions", "recursion", "setjmp", "tailcall", "jumptable", "ucontext", "unwind", "syscalls", "work",
          "redzone", "ifunc", "green", "smallstack")  # fmt: skip
_VARIANTS = ("O0", "O1", "O3", "Os", "default", "static", "nopie", "stripped", "ibt")
_INEXACT = {"python", "perl", "signals", "threads", "calls", "pipe", "env", "ls", "cmake", "xz", "openssl"}

#: Their output is that of the tests' programs in loop mode: "ready", rounds until the end of input, "ok ".
_LOOPS = {
    "bash": ("bash", "-c", 'f() { echo "$1" | { read x; [ "$x" = "$1" ]; } || echo bad; }; echo ready; while ! read -t 0; do f $((i++)); done; echo ok rounds'),
    "perl": ("perl", "-e", '$| = 1; print "ready\\n"; my $v = ""; vec($v, 0, 1) = 1; while (!select(my $r = $v, undef, undef, 0)) { my %h; $h{$_ % 13} += $_ for 1..200; die "bad" if $h{3} != 1608; } print "ok rounds\\n"'),
    "python": ("/usr/bin/python3", "-S", "-c", "import select, sys, threading\nprint('ready', flush=True)\nwhile not select.select([0], [], [], 0)[0]:\n    t = threading.Thread(target=lambda: sum(range(99)))\n    t.start(); t.join()\n    assert sum(map(int, str(2**300).split('0')[0:1])) >= 2\nprint('ok rounds')"),
    "dash": ("dash", "-c", "echo ready; exec 3<&0; (cat <&3 >/dev/null; kill -USR1 $$) & trap 's=1' USR1; while [ -z \"$s\" ]; do x=$(echo 6); [ $x = 6 ] || echo bad; done; echo ok rounds"),
}  # fmt: skip


@cache
def functions_of(path: Path) -> tuple[str, ...]:
    """The names of all functions of a program; raises AssertionError if gilk finds none."""
    done = run_gilk("scan", "--json", "--list", path)
    assert done.returncode == 0, (path, done.stderr)
    names = [row["function"] for row in json.loads(done.stdout.splitlines()[-1])["list"]]
    assert names, path
    return tuple(dict.fromkeys(name for name in names if "(" not in name and " " not in name and ":" not in name))


def launched(chance: random.Random) -> Subject:
    """A random program that ends by itself."""
    kinds = [*(name for name in _SCRIPTS if shutil.which(_SCRIPTS[name][0])), *_BUILT, *_BUILT]
    name = chance.choice(kinds)
    if name in _SCRIPTS:
        command = _SCRIPTS[name]
        path = Path(str(shutil.which(command[0]))).resolve()
        return Subject(
            name, command, path.name, functions_of(path), _INPUTS.get(name, _WORDS.encode()), name not in _INEXACT
        )
    variant = chance.choice(_VARIANTS)
    path = build(name, variant)
    return _of_tests(f"{name}+{variant}", path, (str(path), "40"), name not in _INEXACT)


def rounds(chance: random.Random) -> Subject:
    """A random program for harness.Loop."""
    name = chance.choice([*_LOOPS, *_ROUND])
    if name in _LOOPS:
        command = _LOOPS[name]
        path = Path(str(shutil.which(command[0]))).resolve()
        return Subject(f"{name} loop", command, path.name, functions_of(path), exact=False)
    variant = chance.choice(_VARIANTS[2:] if name == "tailcall" else _VARIANTS)  # it wants its tail calls
    path = build(name, variant)
    return _of_tests(f"{name}+{variant} loop", path, (str(path),), False)


def _of_tests(name: str, path: Path, command: Sequence[str], exact: bool) -> Subject:
    libraries = () if "static" in name else ("libc", "ld-linux*")
    source = Path(__file__).parent.parent / "programs" / f"{path.name}.c"
    number = len(source.read_text().splitlines()) if source.exists() and "stripped" not in name else 0
    lines = tuple(f"{source.name}:{n}" for n in range(20, number, 3))
    return Subject(name, tuple(command), path.name, functions_of(path), exact=exact, lines=lines, libraries=libraries)
