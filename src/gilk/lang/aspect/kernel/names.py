# SPDX-License-Identifier: LGPL-2.1-or-later
"""The names that confined C may use, and those that its place gives it; everything else is refused by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from gilk.lang.aspect.kernel.foreign import Foreign, ForeignNames
from gilk.lang.d import ast

#: Functions without effects, with their number of arguments, and below macros and inline functions of the kernel's
#: headers that only compute.
PURE = {"pid": 0, "tid": 0, "now": 0}
MACROS = frozenset(
    ["S_ISREG", "S_ISDIR", "S_ISLNK", "S_ISCHR", "S_ISBLK", "S_ISFIFO", "S_ISSOCK", "MAJOR", "MINOR", "MKDEV",
     "new_encode_dev", "IS_ERR", "IS_ERR_OR_NULL", "PTR_ERR", "ERR_PTR", "ntohs", "ntohl", "htons", "htonl"]
)  # fmt: skip
TEXTS = {"strcmp": 2, "strncmp": 3, "strlen": 1}
SWITCHES = frozenset(["aspect_on", "aspect_off"])
NEVER = {
    "proceed": "the kernel has no `proceed`",
    "deny": "functions of the kernel have no errno: advice in place returns -EACCES, say",
    "join": "the kernel does not change groups", "leave": "the kernel does not change groups",
}  # fmt: skip
#: Names that are known besides those that the file binds. Names in capital letters are constants of the kernel.
_KNOWN = frozenset(["current", "jp", "true", "false"])
_CONSTANT = re.compile(r"[A-Z][A-Z0-9_]*")
#: Names that the C around fragments consists of: a file must not define any of them.
_OURS = re.compile(r"(gilk|ilk|host)_\w*|__\w*|[us](8|16|32|64)|add|report|aspect_on|aspect_off", re.IGNORECASE)
_MACRO = "gilk_macro_"  # prefix of the names that the file defines
NO_MACROS: Mapping[str, int | None] = MappingProxyType({})
NOTHING_FOREIGN = Foreign()


class Confined(Exception):
    """The fragment has something that must not run in the kernel."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def check_name(name: str) -> None:
    """Raises Confined if the C around fragments uses the name itself."""
    if _OURS.fullmatch(name):
        raise Confined(f"{name} is a name of gilk's own")


def macro_name(name: str) -> str:
    """The name in C of a macro that the file defines; it differs from every name that the surrounding C uses."""
    return f"{_MACRO}{name}"


class FragmentNames:
    """The names that a fragment may use at its place. ``values``: those that have a value there. ``writable``: words of
    the instance among them. ``macros``: the macros of the file for the kernel, with their number of parameters, None
    for one without brackets. ``foreign``: the names that processes may have written. ``own``: the variables that the
    fragment itself has declared so far.
    """

    def __init__(
        self, values: Iterable[str], writable: Iterable[str] = (), macros: Mapping[str, int | None] = NO_MACROS,
        foreign: Foreign = NOTHING_FOREIGN,
    ) -> None:  # fmt: skip
        self._values, self._writable, self.macros = frozenset(values), frozenset(writable), macros
        self.own: set[str] = set()
        self.foreign = ForeignNames(foreign)

    def has_value(self, name: str) -> bool:
        """Whether the name has a value here, or is an own variable."""
        return name in self._values or name in self.own

    def may_assign(self, name: str) -> bool:
        """Whether the fragment may assign to the name."""
        return name in self._writable or name in self.own

    def named(self, name: str) -> str:
        """The name in C. Variables of the kernel are refused, since their address may not be in memory, as that of
        per-CPU variables. Raises Confined.
        """
        bare = name in self.macros and self.macros[name] is None
        if not (self.has_value(name) or name in _KNOWN or bare or _CONSTANT.fullmatch(name)):
            raise Confined(f"nothing here is called {name}: variables of the kernel are not read")
        return macro_name(name) if bare and not self.has_value(name) else name

    def check_leads(self, node: ast.Expr) -> None:
        """Raises Confined if memory would be read at an address that a process may have chosen."""
        if names := self.foreign.lead(node):
            raise Confined(f"where {', '.join(names)} leads is not read: a process may have written that")

    def declare(self, name: str, value: ast.Expr | None) -> None:
        """Note a variable of the fragment's own, with its first value."""
        self.own.add(name)
        self.foreign.declared(name, value)

    @contextmanager
    def block(self) -> Iterator[None]:
        """A block: variables that it declares end with it, and a name that was foreign before it is so after it."""
        before, foreign = set(self.own), set(self.foreign.names)
        yield
        self.own = before
        self.foreign.names |= foreign
