# SPDX-License-Identifier: LGPL-2.1-or-later
"""Functions that have no code of their own, since they are inlined wherever they are called; debug information tells of
them. Aspects are woven at their copies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gilk.analysis.model import Function
from gilk.errors import UsageError
from gilk.session.places import FunctionView
from gilk.session.request import having_instances
from gilk.spec.image import is_glob
from gilk.spec.point import Spec
from gilk.targets.base import Code, Loaded
from gilk.values import dataclass


@dataclass(frozen=True)
class OnlyInlined(FunctionView):
    """A function without code of its own. It has no entry; its address is a negative number that no other such function
    has."""


class OnlyInlinedFunctions:
    """Finds such functions of a process; each is found once."""

    def __init__(self, process: Code) -> None:
        self._process = process
        self._found: dict[tuple[Path, str], OnlyInlined] = {}

    def named(self, name: str, image: str) -> Iterator[OnlyInlined]:
        """The functions of that name in the images meant; none for a glob."""
        if is_glob(name):
            return
        try:
            meant = having_instances(self._process, Spec(image, name, "entry"))
        except UsageError:
            return
        yield from (self._one(loaded, name) for loaded, spans in meant if not spans)

    def _one(self, loaded: Loaded, name: str) -> OnlyInlined:
        key = loaded.path, name
        if key not in self._found:
            start = -1 - len(self._found) - loaded.bias
            function = Function(name, start, start, (), (), (), (), False, frozenset(), b"")
            self._found[key] = OnlyInlined(self._process, loaded, function)
        return self._found[key]
