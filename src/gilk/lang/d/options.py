# SPDX-License-Identifier: LGPL-2.1-or-later
"""Options: what -x, ``#pragma D option`` and setopt() set. A row each."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field
from enum import Enum, auto

from gilk.lang.d import stability
from gilk.values import dataclass

_DIGITS = re.compile(r"[0-9]{1,18}")
_SIZE = re.compile(r"([0-9]{1,18})([kmgt]?)\Z", re.IGNORECASE)
_SHORTEST_STRING = 2  # bytes: what marks a string that is none, in DTrace
#: Versions of D that programs may ask for.
_VERSION = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})(?:\.([0-9]{1,3}))?\Z")
_NEWEST = (2, 0, 1)
_LONGEST_STRING = 1 << 20
_TIME = re.compile(r"([0-9]{1,18})(ns|nsec|us|usec|ms|msec|s|sec|m|min|h|hour|d|day|hz)?\Z", re.IGNORECASE)
NANOSECONDS = {
    **dict.fromkeys(("ns", "nsec"), 1),
    **dict.fromkeys(("us", "usec"), 10**3),
    **dict.fromkeys(("ms", "msec"), 10**6),
    **dict.fromkeys(("s", "sec"), 10**9),
    **dict.fromkeys(("m", "min"), 60 * 10**9),
    **dict.fromkeys(("h", "hour"), 3600 * 10**9),
    **dict.fromkeys(("d", "day"), 86400 * 10**9),
}
#: The words of which an option may be one.
_CHOICES = {
    "bufpolicy": ("switch", "fill", "ring"),
    "bufresize": ("auto", "manual"),
    "evaltime": ("exec", "preinit", "postinit", "main"),
    "stdc": ("a", "c", "s", "t"),
}
#: Options that have their effect before a program is read, and are not for programs.
_NOT_IN_PROGRAMS = frozenset(("cppargs", "cpphdrs", "cpppath", "ldpath", "libdir", "modpath", "stdc"))
#: Options that setopt() can set; the others were decided when tracing began.
DYNAMIC = frozenset(
    (
        *("quiet", "flowindent", "stackindent", "rawbytes", "droptags", "temporal", "quietresize"),
        *("aggrate", "statusrate", "cleanrate", "switchrate"),
        *("aggsortkey", "aggsortkeypos", "aggsortpos", "aggsortrev"),
    )
)
_KERNEL, _BPF, _OWN = "it is about the kernel", "there is no BPF", "it is about the inside of DTrace"
_ELF, _JAVA = "no ELF files are made", "no virtual machine is asked for its stacks"
#: DTrace's options that mean nothing in a process: why.
REFUSED = {
    **dict.fromkeys(("grabanon", "modpath", "ctfpath", "linknommap", "procfspath", "kdefs", "knodefs"), _KERNEL),
    **dict.fromkeys(("bpflog", "bpflogsize", "lockmem"), _BPF),
    **dict.fromkeys(("core", "ctypes", "dtypes", "debug", "debugassert", "disasm", "tree", "pgmax"), _OWN),
    **dict.fromkeys(("iregs", "tregs", "late", "lazyload", "preallocate", "useruid", "pspec"), _OWN),
    **dict.fromkeys(("linkmode", "linktype", "strip", "sysslice"), _ELF),
    **dict.fromkeys(("jstackframes", "jstackstrsize"), _JAVA),
    "pcapsize": "there is no pcap()",
    "cpu": "clauses run wherever the process does",
}


class BadOption(Exception):
    """``str()`` is DTrace's reason."""


class Shape(Enum):
    FLAG = auto()
    NUMBER = auto()
    SIZE = auto()  # bytes, with k, m, g or t
    TIME = auto()  # ns; a bare number is a rate in Hz
    CHOICE = auto()
    TEXT = auto()
    WORDS = auto()  # one more each time, a line each
    ATTRIBUTES = auto()  # as Stable/Stable/Common
    VERSION = auto()  # of D


#: Name: shape, default. A flag is 0 or 1. What has an effect is said in docs/d/options.md.
ROWS: dict[str, tuple[Shape, int | str]] = {
    "quiet": (Shape.FLAG, 0),
    "flowindent": (Shape.FLAG, 0),
    "destructive": (Shape.FLAG, 0),
    "bufsize": (Shape.SIZE, 4 << 20),
    "aggsize": (Shape.SIZE, 4 << 20),
    "dynvarsize": (Shape.SIZE, 1 << 20),
    "specsize": (Shape.SIZE, 4 << 20),
    "nspec": (Shape.NUMBER, 1),
    "strsize": (Shape.SIZE, 256),
    "scratchsize": (Shape.SIZE, 64 << 10),
    "bufpolicy": (Shape.CHOICE, "switch"),
    "switchrate": (Shape.TIME, 10**9),
    "aggrate": (Shape.TIME, 10**9),
    "statusrate": (Shape.TIME, 10**9),
    "cleanrate": (Shape.TIME, 10**9),
    "stackframes": (Shape.NUMBER, 20),
    "ustackframes": (Shape.NUMBER, 100),
    "printsize": (Shape.SIZE, 1024),
    "maxframes": (Shape.NUMBER, 1000),
    "stackindent": (Shape.NUMBER, 14),
    "aggsortkey": (Shape.FLAG, 0),
    "aggsortkeypos": (Shape.NUMBER, 0),
    "aggsortpos": (Shape.NUMBER, 0),
    "aggsortrev": (Shape.FLAG, 0),
    "aggpercpu": (Shape.FLAG, 0),
    "rawbytes": (Shape.FLAG, 0),
    "errtags": (Shape.FLAG, 0),
    "droptags": (Shape.FLAG, 0),
    "defaultargs": (Shape.FLAG, 0),
    "argref": (Shape.FLAG, 0),
    "zdefs": (Shape.FLAG, 0),
    "cpp": (Shape.FLAG, 0),
    "define": (Shape.WORDS, ""),
    "undef": (Shape.WORDS, ""),
    "incdir": (Shape.WORDS, ""),
    "nolibs": (Shape.FLAG, 0),
    "libdir": (Shape.TEXT, ""),
    "evaltime": (Shape.CHOICE, "preinit"),
    "bufresize": (Shape.CHOICE, "auto"),
    "quietresize": (Shape.FLAG, 0),
    "temporal": (Shape.FLAG, 1),
    "noresolve": (Shape.FLAG, 0),
    "empty": (Shape.FLAG, 0),
    "amin": (Shape.ATTRIBUTES, ""),
    "cpppath": (Shape.TEXT, "cpp"),
    "cpphdrs": (Shape.FLAG, 0),
    "cppargs": (Shape.WORDS, ""),
    "stdc": (Shape.CHOICE, ""),
    "ldpath": (Shape.TEXT, "ld"),
    "version": (Shape.VERSION, ""),
}


@dataclass
class Options:
    values: dict[str, int | str] = field(default_factory=lambda: {name: default for name, (_, default) in ROWS.items()})

    def set(self, name: str, value: str | None, active: bool = False, program: bool = False) -> None:
        """``active``: tracing has begun. ``program``: it is a program that asks. Raises BadOption."""
        if program and name in _NOT_IN_PROGRAMS:
            raise BadOption("Option cannot be used from within a D program")
        if name in REFUSED:
            raise BadOption(f"Option has no meaning here: {REFUSED[name]}")
        if name not in ROWS:
            raise BadOption("Invalid option name")
        if active and name not in DYNAMIC:
            raise BadOption("Operation illegal when tracing is active")
        shape = ROWS[name][0]
        read = _choice(name, value) if shape is Shape.CHOICE else _READ[shape](value)
        if name == "strsize" and not _SHORTEST_STRING <= int(read) <= _LONGEST_STRING:
            raise BadOption("Invalid value for specified option")
        if shape is Shape.WORDS:
            read = f"{self.values[name]}{read}\n"
        self.values[name] = read

    def number(self, name: str) -> int:
        return int(self.values[name])

    def flag(self, name: str) -> bool:
        return bool(self.values[name])

    def text(self, name: str) -> str:
        return str(self.values[name])


def _flag(value: str | None) -> int:
    if value is None or value.lower() in ("1", "yes", "true", "enabled", "enable", "on", "set"):
        return 1
    if value.lower() in ("0", "no", "false", "disabled", "disable", "off", "unset"):
        return 0
    raise BadOption("Invalid value for specified option")


def _given(value: str | None) -> str:
    if value is None:
        raise BadOption("Option requires a value")
    return value


def _number(value: str | None) -> int:
    text = _given(value)
    if not _DIGITS.fullmatch(text):
        raise BadOption("Invalid value for specified option")
    return int(text)


def _size(value: str | None) -> int:
    found = _SIZE.match(_given(value))
    if found is None:
        raise BadOption("Invalid value for specified option")
    size = int(found[1]) << 10 * " kmgt".index(found[2].lower() or " ")
    if size > 1 << 40:
        raise BadOption("Invalid value for specified option")
    return size


def _time(value: str | None) -> int:
    found = _TIME.match(_given(value))
    if found is None or not int(found[1]):
        raise BadOption("Invalid value for specified option")
    unit = (found[2] or "hz").lower()
    return 10**9 // int(found[1]) if unit == "hz" else int(found[1]) * NANOSECONDS[unit]


def _choice(name: str, value: str | None) -> str:
    text = _given(value)
    if text not in _CHOICES[name]:
        raise BadOption("Invalid value for specified option")
    return text


def _version(value: str | None) -> str:
    found = _VERSION.match(_given(value))
    if found is None:
        raise BadOption("Invalid value for specified option")
    if tuple(int(part or 0) for part in found.groups()) > _NEWEST:
        raise BadOption("Requested version is not supported by compiler")
    return found[0]


def _attributes(value: str | None) -> str:
    text = _given(value)
    if stability.read(text) is None:
        raise BadOption("Invalid value for specified option")
    return text


_READ: dict[Shape, Callable[[str | None], int | str]] = {
    Shape.FLAG: _flag,
    Shape.NUMBER: _number,
    Shape.SIZE: _size,
    Shape.TIME: _time,
    Shape.TEXT: _given,
    Shape.WORDS: _given,
    Shape.ATTRIBUTES: _attributes,
    Shape.VERSION: _version,
}
