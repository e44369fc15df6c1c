# SPDX-License-Identifier: LGPL-2.1-or-later
"""Libraries of D: files ``*.d`` that are compiled before the program, each after those that it depends on.

Libraries in a user's directories (-L) always are; gilk's own only if the program has one of their words.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from gilk.engines.dtrace import chips, mounts
from gilk.errors import UsageError
from gilk.inputs import read_text
from gilk.lang.d import literals
from gilk.lang.syntax.source import Source
from gilk.targets.program import words_of

if TYPE_CHECKING:
    from gilk.lang.d.meaning.world import World
    from gilk.targets.base import Target

OWN = Path(__file__).parents[2] / "lang" / "d" / "library"
OF_KERNELS = OWN / "kernel"
_SHARED = OWN / "shared"
_DEPENDS = re.compile(r"^\s*#\s*pragma\s+D\s+depends_on\s+(\w+)\s+(\S+)\s*$", re.MULTILINE)
_DEFINING = re.compile(r"^(?:inline|typedef|struct|provider|\})[^=\n]*", re.MULTILINE)
_INLINE = re.compile(r"^inline\s[^=\[\n]*?(\w+)\s*[=\[]", re.MULTILINE | re.ASCII)
_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_COMMON = frozenset(
    ("char", "id_t", "inline", "int", "long", "pid_t", "processorid_t", "provider", "string", "struct", "typedef")
)


def wanted(
    programs: Sequence[str], directories: Sequence[str], process: Target | None, own: Path = OWN,
    world: World | None = None,
) -> list[Source]:  # fmt: skip
    """The libraries for the texts ``programs``. ``own``: the directory of gilk's own libraries. ``world``: what those
    about a kernel are compiled with.

    Raises UsageError `no-d-library`, `d-library-cycle`.
    """
    found = {path.name: _read(path) for directory in directories for path in _files(Path(directory))}
    words = {
        word for program in (*programs, *(each.text for each in found.values())) for word in _WORD.findall(program)
    }
    known = {path.name: _read(path) for path in (*_files(_SHARED), *_files(own))}
    found = {**{name: one for name, one in known.items() if words & _defined(one.text)}, **found}
    open_ = list(found.values())
    while open_:
        more = {name: known[name] for name in _needs(open_.pop().text) if name in known and name not in found}
        found.update(more)
        open_ += more.values()
    for name, facts in _MADE.items():
        if any(name in _needs(each.text) for each in found.values()):
            found[name] = Source(name, facts(None if process is None else process.pid, world))
    return _ordered(found)


@lru_cache(maxsize=2)
def inlines(own: Path) -> tuple[str, ...]:
    """The names of inlines in gilk's libraries; a program that has one gets the library. Raises UsageError
    `no-d-library`."""
    texts = (_read(path).text for path in (*_files(_SHARED), *_files(own)))
    return tuple(sorted({name for text in texts for name in _INLINE.findall(text)}))


def _files(directory: Path) -> list[Path]:
    try:
        return sorted(path for path in directory.iterdir() if path.suffix == ".d")
    except OSError as error:
        raise UsageError("no-d-library", f"cannot read the libraries in {directory}: {error.strerror}") from None


def _read(path: Path) -> Source:
    try:
        return Source(str(path), read_text(path))
    except OSError as error:
        raise UsageError("no-d-library", f"cannot read the library {path}: {error.strerror}") from None


def _defined(text: str) -> set[str]:
    """The words that may be names which the library defines."""
    return {word for line in _DEFINING.findall(text) for word in _WORD.findall(line)} - _COMMON


def _needs(text: str) -> list[str]:
    return [name for kind, name in _DEPENDS.findall(text) if kind == "library"]


def _ordered(found: dict[str, Source]) -> list[Source]:
    """The libraries, each after those that it depends on. A missing one is an error of the compiler, at the line that
    names it."""
    needed = {name: [other for other in _needs(each.text) if other in found] for name, each in found.items()}
    done: dict[str, Source] = {}
    for first in found:
        waiting = {} if first in done else {first: iter(needed[first])}  # a stack: each library needs the one after it
        while waiting:
            name, others = next(reversed(waiting.items()))
            other = next((each for each in others if each not in done), None)
            if other is None:
                done[name] = found[name]
                del waiting[name]
            elif other in waiting:
                raise UsageError("d-library-cycle", f"the library {other} depends on itself through other libraries")
            else:
                waiting[other] = iter(needed[other])
    return list(done.values())


def _facts(pid: int | None, _world: World | None) -> str:
    """Inlines with facts about the process that are known at the beginning. Without one they are gilk's own facts, and
    nothing is known of other processes, which samples of the processors are of."""
    if pid is not None:
        return "".join(f"inline {type_} {name} = {value};\n" for type_, name, value in _lines(pid))
    own = os.getpid()
    nothing = {"string": '""'}
    return "".join(
        f"inline {type_} {name} = pid == {own} ? {value} : {nothing.get(type_, 0)};\n"
        for type_, name, value in _lines(own)
    )


def _lines(pid: int) -> Iterator[tuple[str, str, str]]:
    """The type, the name and the value of each inline."""
    words: list[bytes] = []
    with suppress(OSError):
        words = words_of(pid)
    text = b" ".join(words)[:4096].decode("utf-8", "surrogateescape")
    yield "string", "process_arguments", literals.quoted(text)
    yield "int", "process_argc", str(len(words))
    for name, ask in (("group", os.getpgid), ("session", os.getsid)):
        number = 0
        with suppress(OSError):
            number = ask(pid)
        yield "pid_t", f"process_{name}", str(number)


def _mounts(pid: int | None, _world: World | None) -> str:
    return mounts.library(mounts.mounts(os.getpid() if pid is None else pid))


def _processors(_pid: int | None, _world: World | None) -> str:
    return chips.library()


def _nodes(_pid: int | None, world: World | None) -> str:
    """An inline with the memory node of the processor. A kernel that was configured without NUMA has no variable for
    it, and one node."""
    return f"inline int own_node = {'`numa_node' if world is not None and world.symbol('', 'numa_node') else '0'};\n"


#: Libraries about the process, its machine or the kernel, which are made when they are needed.
_MADE = {"process.d": _facts, "mounts.d": _mounts, "processors.d": _processors, "nodes.d": _nodes}
