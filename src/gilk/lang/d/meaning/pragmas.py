# SPDX-License-Identifier: LGPL-2.1-or-later
"""Pragmas, in which a program states how stable its names are, and on what it depends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from gilk.lang.d import items
from gilk.lang.d.meaning.arguments import Arguments
from gilk.lang.d.meaning.builtins import BUILTINS, CONSTANTS
from gilk.lang.d.meaning.functions import FUNCTIONS
from gilk.lang.d.meaning.scope import Scope
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.d.stability import NOBODYS, Attributes, ProviderAttributes, read
from gilk.lang.syntax.source import Rejected
from gilk.values import dataclass


@dataclass
class Pragmas:
    """The pragmas of a program and its libraries. ``libraries``: the names of the libraries that were read.
    ``left_out``: for each library that was left out, what it lacks. ``stable`` and ``providers``: the attributes that
    pragmas gave to names and providers.
    """

    scope: Scope
    arguments: Arguments
    libraries: set[str] = field(default_factory=set)
    left_out: dict[str, str] = field(default_factory=dict)
    stable: dict[str, Attributes] = field(default_factory=dict)
    providers: dict[str, ProviderAttributes] = field(default_factory=dict)
    _pending: list[tuple[str, items.Pragma]] = field(default_factory=list)
    _theirs: set[str] = field(default_factory=set)

    def pragma(self, item: items.Pragma, library: bool) -> None:
        """Apply a pragma. Raises Rejected."""
        match item.kind:
            case "attributes" | "binding":
                self._about(item)
            case "depends_on":
                self._depends(item, item.words[0], item.words[1], library)

    def _about(self, item: items.Pragma) -> None:
        """Apply a pragma about a name; if the name is not declared yet, note the pragma until it is."""
        attributes = read(item.words[0]) if item.kind == "attributes" else None
        if item.words[1] == "provider":
            if attributes is not None:
                known = self.providers.get(item.words[2], NOBODYS)
                self.providers[item.words[2]] = replace(known, **{item.words[3]: attributes})
            if not self._has_provider(item.words[2]):
                self._pending.append((item.words[2], item))
            return
        name = item.words[1]
        if name in self._theirs or name in BUILTINS or name in CONSTANTS or name in FUNCTIONS:
            what = f"#pragma {item.kind} cannot modify entity defined outside program scope: {name}"
            raise Rejected(Tag.D_PRAGMA_SCOPE, item.span, what)
        if attributes is not None:
            self.stable[name] = attributes
        if not self._known(name):
            self._pending.append((name, item))

    def _known(self, name: str) -> bool:
        scope = self.scope
        declared = scope.variable("global", name) is not None or name in scope.inlines or name in scope.enumerators
        return declared or name in ("translator", "provider") or self.arguments.has(name)

    def _has_provider(self, name: str) -> bool:
        return self.scope.world.provider(name) or self.arguments.has(name)

    def _depends(self, item: items.Pragma, kind: str, name: str, library: bool) -> None:
        if kind == "library" and not library:
            what = "main program may not explicitly depend on a library"
            raise Rejected(Tag.D_PRAGMA_DEPEND, item.span, what, "libraries are read before it")
        if not self._is_there(kind, name):
            raise Rejected(Tag.D_PRAGMA_DEPEND, item.span, f"program requires {kind} {name}")

    def _is_there(self, kind: str, name: str) -> bool:
        if kind == "library":
            return name in self.libraries
        return self._has_provider(name) if kind == "provider" else self.scope.world.module(name)

    def leaves_out(self, name: str, found: Sequence[items.Item]) -> bool:
        """Whether the library ``name``, of which ``found`` are the items, depends on a provider or a module that does
        not exist here, or on a library that was left out. DTrace then reads nothing of the library. The reason is noted
        in ``left_out``.
        """
        for item in found:
            kind, wanted = item.words[:2] if isinstance(item, items.Pragma) and item.kind == "depends_on" else ("", "")
            given_up = wanted in self.left_out if kind == "library" else bool(kind) and not self._is_there(kind, wanted)
            if given_up:
                self.left_out[name] = f"{kind} {wanted}"
                return True
        return False

    def finish(self, library: str) -> None:
        """End a text; ``library``: its name if it is a library. Raises Rejected if a pragma is about a name that is not
        declared.
        """
        for name, item in self._pending:
            if not self._known(name) and not self._has_provider(name):
                raise Rejected(Tag.D_PRAGMA_UNUSED, item.span, f"unused #pragma {item.kind}")
        self._pending = []
        if library:
            self.libraries.add(library)
            self._theirs = {*self.scope.inlines, *(name for scope, name in self.scope.variables if scope == "global")}
