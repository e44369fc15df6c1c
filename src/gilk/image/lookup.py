# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds functions of an image by the names that people type.

A function can be named as the linker names it, and, if that name is mangled, as its source does:
``ns::Engine::update(int)``, ``ns::Engine::update``, the same without arguments of templates, and, if no function has
that as its whole name, ``Engine::update`` or ``update``. Arguments of templates that have defaults can be left out.
"""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Iterable, Iterator

from gilk.errors import UsageError
from gilk.image import demangle
from gilk.image.abbreviated import OPERATOR, abbreviates
from gilk.image.model import FunctionSpan, Image
from gilk.image.stripped import remark, without_functions
from gilk.values import dataclass

_WILD = frozenset("*?[")
_OPENING, _CLOSING = "<({[", ">)}]"
_CLONE = re.compile(r" \[clone (\.[^\]]+)\]")
_SPECIAL = re.compile(r"[a-zA-Z -]+ (?:to|for) ")  # virtual thunk to, guard variable for
_NEAR = 3
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*$", re.ASCII)
#: Classes whose constructors and destructors need not be spelled out (Itanium C++ ABI, 5.1.8: Sa, Sb, Si, So, Sd).
_ABBREVIATED = frozenset({"allocator", "basic_string", "basic_istream", "basic_ostream", "basic_iostream"})


@dataclass(frozen=True, slots=True)
class SourceName:
    """The name of a function in its source: ``whole`` with its parameters, ``plain`` without them."""

    whole: str
    plain: str

    @property
    def forms(self) -> tuple[str, ...]:
        """The complete names of the function; Rust's ``<a::Type as Trait>::f`` is also ``a::Type::f``."""
        of_type = _of_type(self.plain)
        return (self.whole, self.plain, of_type, without_arguments(of_type))

    @property
    def ends(self) -> Iterator[str]:
        """The name from each of its parts but the first on: ``Engine::update`` and ``update``."""
        if _SPECIAL.match(self.plain) is None:
            for name in dict.fromkeys(self.forms[1:]):
                yield from (name[at:] for at in _parts(name))


def written_name(typed: str) -> str:
    """The last part of a qualified name, as it is written in the source where the function is defined."""
    return without_arguments(typed).partition("(")[0].rpartition("::")[2]


def _spelled(typed: str) -> str:
    """A word that the mangled name of a function which goes by ``typed`` has in it; '' if there may be none: operators
    have codes, and names in other letters are encoded."""
    written = written_name(typed).strip()
    found = _IDENTIFIER.search(written)
    if found is None or not written.isascii() or "operator" in written or found[0] in _ABBREVIATED:
        return ""
    return found[0]


def goes_by(linked: str, typed: str) -> bool:
    """Whether ``typed`` is the name in the source, or the end of that name, of the function that the linker calls
    ``linked``.
    """
    if _spelled(typed) not in linked or not demangle.is_mangled(linked):
        return False
    name = SourceName(demangle.demangled((linked,))[0], demangle.without_parameters((linked,))[0])
    return typed in name.forms or typed in name.ends or _is_abbreviated(name, typed)


def spans(image: Image, glob: str) -> list[FunctionSpan]:
    """The functions that have a name which matches ``glob``. Raises UsageError `no-such-function` if there is none."""
    found = matching(image, glob)
    if not found:
        raise unknown(image, glob)
    return found


def matching(image: Image, glob: str) -> list[FunctionSpan]:
    """The functions that have a name which matches ``glob``; [] if there is none."""
    if glob == "*":
        return list(image.spans)
    linked = [span for span in image.spans if _any(_linked(span), glob)]
    if linked and is_exact(glob):
        return linked
    starts = {span.start for span in (*linked, *_in_source(image, glob))}
    return [span for span in image.spans if span.start in starts]


def is_exact(glob: str) -> bool:
    """Whether ``glob`` names a function and is no pattern."""
    return not _WILD & set(glob)


def _linked(span: FunctionSpan) -> tuple[str, ...]:
    return (span.name, *span.aliases)


def _in_source(image: Image, glob: str) -> list[FunctionSpan]:
    names = list(_source_names(image, _spelled(glob) if is_exact(glob) else ""))
    found = [span for span, name in names if _any(name.forms, glob)]
    found = found or [span for span, name in names if _any(name.ends, glob)]
    return found or [span for span, name in names if _is_abbreviated(name, glob)]


def _source_names(image: Image, word: str = "") -> Iterator[tuple[FunctionSpan, SourceName]]:
    """The functions whose names are mangled, and have ``word`` in them, with the name in the source, once for each
    mangled name."""
    linked_names = ((span, name) for span in image.spans for name in _linked(span) if word in name)
    mangled = [(span, name) for span, name in linked_names if demangle.is_mangled(name)]
    linked = [name for _, name in mangled]
    whole, plain = demangle.demangled(linked), demangle.without_parameters(linked)
    for (span, name), known, short in zip(mangled, whole, plain, strict=True):
        if known != name:
            yield span, SourceName(known, short + "".join(_CLONE.findall(known)))


def _any(names: Iterable[str], glob: str) -> bool:
    """Whether one of the names is or matches ``glob``; a name may have brackets and asterisks itself."""
    return any(name == glob or fnmatch.fnmatchcase(name, glob) for name in names)


def _is_abbreviated(name: SourceName, glob: str) -> bool:
    """Whether ``glob`` is the name, or the end of it, without arguments of templates that have defaults."""
    if "<" not in glob or not is_exact(glob) or written_name(glob) not in name.plain:
        return False
    return any(abbreviates(glob, one) for one in (*name.forms, *name.ends))


def _of_type(name: str) -> str:
    if not name.startswith("<"):
        return name
    end = next((at for at, (_, depth) in enumerate(_depths(name, "<")) if at and depth == 0), len(name))
    return name[1 : end - 1].partition(" as ")[0] + name[end:]


def without_arguments(name: str) -> str:
    """The name without arguments of templates, and without [abi:...]."""
    return "".join(letter for letter, depth in _depths(name, "<[") if not depth)


def _parts(name: str) -> Iterator[int]:
    """The offsets at which the parts of a qualified name begin, but for the first."""
    outside = [depth == 0 for _, depth in _depths(name, _OPENING)]
    for found in re.finditer("::", name):
        if outside[found.start()]:
            yield found.end()


def _depths(name: str, opening: str) -> Iterator[tuple[str, int]]:
    """Each letter of the name, with the number of brackets around it whose kind is in ``opening``; those of operators
    do not count.
    """
    closing = "".join(_CLOSING[_OPENING.index(each)] for each in opening)
    operators = {at for found in OPERATOR.finditer(name) for at in range(*found.span())}
    depth = 0
    for at, letter in enumerate(name):
        if at in operators:
            yield letter, depth
            continue
        depth += letter in opening
        yield letter, depth
        depth = max(0, depth - (letter in closing))


def unknown(image: Image, glob: str) -> UsageError:
    """The error `no-such-function`, with functions of similar names, which takes a while in a large image."""
    near = ", ".join(_near(image, glob))
    hints = [f"near names: {near}"] if near else []
    hints += remark({image.name: [span.name for span in image.spans]})
    hints += [] if image.spans else [without_functions(image.name)]
    hint = "; ".join(hints)
    if "::" in glob and not demangle.available():
        hint = "names of C++ and Rust are read by c++filt, which is not installed: apt install binutils"
    if glob in image.got.values() or glob in image.plt.values():
        hint = f"{image.name} imports {glob}; name the library that has it, as in LIBRARY:{glob}:entry"
    return UsageError("no-such-function", f"{image.name} has no function {glob!r}", hint)


def _near(image: Image, glob: str) -> list[str]:
    """Functions with names like ``glob``. A mangled function is among them if the last part of its name in the source
    is near; so is one of Go, which is called PACKAGE.FUNCTION.
    """
    called = {name: name for span in image.spans for name in _linked(span) if not demangle.is_mangled(name)}
    if image.is_go:
        for linked in sorted(called, key=lambda one: not one.startswith("main.")):
            called.setdefault(linked.rpartition(".")[2], linked)
    for _, name in _source_names(image):
        plain = name.forms[-1]
        called[plain] = plain
        called.setdefault(plain.rpartition("::")[2], plain)
    return list(dict.fromkeys(called[name] for name in difflib.get_close_matches(glob, called, _NEAR)))
