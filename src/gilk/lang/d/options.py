# SPDX-License-Identifier: LGPL-2.1-or-later
"""The options that -x, ``#pragma D option`` and setopt() set: one row for each."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field
from enum import Enum, auto

from gilk.lang.d import stability
from gilk.values import dataclass

_DIGITS = re.compile(r"[0-9]{1,18}")
_SIZE = re.compile(r"([0-9]{1,18})([kmgt]?)\Z", re.IGNORECASE)
_SHORTEST_STRING = 2  # bytes, as many as DTrace needs to mark a missing string
#: The form of a version of D that a program may ask for.
_VERSION = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})(?:\.([0-9]{1,3}))?\Z")
_NEWEST = (2, 0, 1)
_LONGEST_STRING = 1 << 20
_REGISTERS = range(1, 9)  # as many as the compiler of DTrace has
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
#: The words that an option of shape CHOICE may have.
_CHOICES = {
    "bufpolicy": ("switch", "fill", "ring"),
    "bufresize": ("auto", "manual"),
    "evaltime": ("exec", "preinit", "postinit", "main"),
    "stdc": ("a", "c", "s", "t"),
    "linktype": ("elf",),
}
#: Options that take effect before a program is read, so programs cannot set them.
_NOT_IN_PROGRAMS = frozenset(
    ("cppargs", "cpphdrs", "cpppath", "ctfpath", "ldpath", "libdir", "lockmem", "modpath", "procfspath", "stdc")
)
#: Options that setopt() can set; the others are fixed when tracing begins.
DYNAMIC = frozenset(
    (
        *("quiet", "flowindent", "stackindent", "rawbytes", "droptags", "temporal", "quietresize"),
        "printsize",
        *("aggrate", "statusrate", "cleanrate", "switchrate"),
        *("aggsortkey", "aggsortkeypos", "aggsortpos", "aggsortrev"),
    )
)
_KERNEL, _BPF, _OWN = "it is about the kernel", "there is no BPF", "it is about the inside of DTrace"
_LINKING, _DOF = "-G makes one kind of object file", "-G makes no files of DTrace's own format"
#: DTrace's options that mean nothing in a process, with the reasons.
REFUSED = {
    **dict.fromkeys(("grabanon", "modpath", "ctfpath", "linknommap", "procfspath", "kdefs", "knodefs"), _KERNEL),
    **dict.fromkeys(("bpflog",), _BPF),
    **dict.fromkeys(("core", "ctypes", "dtypes", "debug", "debugassert", "disasm", "tree", "pgmax"), _OWN),
    **dict.fromkeys(("tregs", "late", "lazyload", "useruid"), _OWN),
    **dict.fromkeys(("linkmode", "sysslice"), _LINKING),
}


class BadOption(Exception):
    """An option cannot be set; ``str()`` is DTrace's reason."""


class OptionShape(Enum):
    FLAG = auto()
    NUMBER = auto()
    SIZE = auto()  # bytes, with k, m, g or t
    LIMIT = auto()  # a size, or "unlimited"
    TIME = auto()  # ns; a bare number is a rate in Hz
    CHOICE = auto()
    TEXT = auto()
    WORDS = auto()  # a list; each setting adds a line
    ATTRIBUTES = auto()  # as Stable/Stable/Common
    VERSION = auto()  # of D


#: The shape and the default of each option. A flag is 0 or 1. docs/d/options.md says which options have an effect.
ROWS: dict[str, tuple[OptionShape, int | str]] = {
    "quiet": (OptionShape.FLAG, 0),
    "flowindent": (OptionShape.FLAG, 0),
    "destructive": (OptionShape.FLAG, 0),
    "bufsize": (OptionShape.SIZE, 4 << 20),
    "aggsize": (OptionShape.SIZE, 4 << 20),
    "dynvarsize": (OptionShape.SIZE, 1 << 20),
    "specsize": (OptionShape.SIZE, 4 << 20),
    "nspec": (OptionShape.NUMBER, 1),
    "strsize": (OptionShape.SIZE, 256),
    "scratchsize": (OptionShape.SIZE, 64 << 10),
    "clausetime": (OptionShape.NUMBER, 50_000),
    "bufpolicy": (OptionShape.CHOICE, "switch"),
    "switchrate": (OptionShape.TIME, 10**9),
    "aggrate": (OptionShape.TIME, 10**9),
    "statusrate": (OptionShape.TIME, 10**9),
    "cleanrate": (OptionShape.TIME, 10**9),
    "stackframes": (OptionShape.NUMBER, 20),
    "ustackframes": (OptionShape.NUMBER, 100),
    "jstackframes": (OptionShape.NUMBER, 50),
    "jstackstrsize": (OptionShape.NUMBER, 512),
    "printsize": (OptionShape.SIZE, 1024),
    "pcapsize": (OptionShape.SIZE, 1514),
    "maxframes": (OptionShape.NUMBER, 1000),
    "stackindent": (OptionShape.NUMBER, 14),
    "aggsortkey": (OptionShape.FLAG, 0),
    "aggsortkeypos": (OptionShape.NUMBER, 0),
    "aggsortpos": (OptionShape.NUMBER, 0),
    "aggsortrev": (OptionShape.FLAG, 0),
    "aggpercpu": (OptionShape.FLAG, 0),
    "rawbytes": (OptionShape.FLAG, 0),
    "errtags": (OptionShape.FLAG, 0),
    "droptags": (OptionShape.FLAG, 0),
    "defaultargs": (OptionShape.FLAG, 0),
    "argref": (OptionShape.FLAG, 0),
    "pspec": (OptionShape.FLAG, 0),
    "zdefs": (OptionShape.FLAG, 0),
    "cpp": (OptionShape.FLAG, 0),
    "define": (OptionShape.WORDS, ""),
    "undef": (OptionShape.WORDS, ""),
    "incdir": (OptionShape.WORDS, ""),
    "nolibs": (OptionShape.FLAG, 0),
    "libdir": (OptionShape.TEXT, ""),
    "opened": (OptionShape.WORDS, ""),
    "evaltime": (OptionShape.CHOICE, "preinit"),
    "bufresize": (OptionShape.CHOICE, "auto"),
    "quietresize": (OptionShape.FLAG, 0),
    "temporal": (OptionShape.FLAG, 1),
    "noresolve": (OptionShape.FLAG, 0),
    "sourcelines": (OptionShape.FLAG, 0),
    "empty": (OptionShape.FLAG, 0),
    "amin": (OptionShape.ATTRIBUTES, ""),
    "cpppath": (OptionShape.TEXT, "cpp"),
    "cpphdrs": (OptionShape.FLAG, 0),
    "cppargs": (OptionShape.WORDS, ""),
    "stdc": (OptionShape.CHOICE, "a"),
    "ldpath": (OptionShape.TEXT, "ld"),
    "version": (OptionShape.VERSION, ""),
    "cpu": (OptionShape.NUMBER, ""),
    "iregs": (OptionShape.NUMBER, 8),
    "preallocate": (OptionShape.SIZE, ""),
    "lockmem": (OptionShape.LIMIT, ""),
    "bpflogsize": (OptionShape.SIZE, ""),
    "linktype": (OptionShape.CHOICE, "elf"),
    "strip": (OptionShape.FLAG, 0),
}


@dataclass
class Options:
    values: dict[str, int | str] = field(default_factory=lambda: {name: default for name, (_, default) in ROWS.items()})

    def set(self, name: str, value: str | None, active: bool = False, program: bool = False) -> None:
        """Set an option. ``active``: tracing has begun. ``program``: a program sets it. Raises BadOption."""
        if program and name in _NOT_IN_PROGRAMS:
            raise BadOption("Option cannot be used from within a D program")
        if name in REFUSED:
            raise BadOption(f"Option has no meaning here: {REFUSED[name]}")
        if name not in ROWS:
            raise BadOption("Invalid option name")
        if active and name not in DYNAMIC:
            raise BadOption("Operation illegal when tracing is active")
        shape = ROWS[name][0]
        read = _choice(name, value) if shape is OptionShape.CHOICE else _READ[shape](value)
        if name == "strsize" and not _SHORTEST_STRING <= int(read) <= _LONGEST_STRING:
            raise BadOption("Invalid value for specified option")
        if name == "iregs" and read not in _REGISTERS:
            raise BadOption("Invalid value for specified option")
        if shape is OptionShape.WORDS:
            read = f"{self.values[name]}{read}\n"
        self.values[name] = read

    def number(self, name: str) -> int:
        return int(self.values[name])

    @property
    def string_bytes(self) -> int:
        """The bytes that a string takes, with its NUL, which strsize does not count."""
        return self.number("strsize") + 1

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
    if size >= 1 << 63:
        raise BadOption("Invalid value for specified option")
    return size


def _limit(value: str | None) -> int | str:
    return "unlimited" if value == "unlimited" else _size(value)


def _time(value: str | None) -> int:
    found = _TIME.match(_given(value))
    if found is None or not int(found[1]):
        raise BadOption("Invalid value for specified option")
    unit = (found[2] or "hz").lower()
    return 10**9 // int(found[1]) if unit == "hz" else int(found[1]) * NANOSECONDS[unit]


def _choice(name: str, value: str | None) -> str:
    text = _given(value)
    if (name, text) == ("linktype", "dof"):
        raise BadOption(f"Option has no meaning here: {_DOF}")
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


_READ: dict[OptionShape, Callable[[str | None], int | str]] = {
    OptionShape.FLAG: _flag,
    OptionShape.NUMBER: _number,
    OptionShape.SIZE: _size,
    OptionShape.LIMIT: _limit,
    OptionShape.TIME: _time,
    OptionShape.TEXT: _given,
    OptionShape.WORDS: _given,
    OptionShape.ATTRIBUTES: _attributes,
    OptionShape.VERSION: _version,
}
