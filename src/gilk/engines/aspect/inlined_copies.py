# SPDX-License-Identifier: LGPL-2.1-or-later
"""Copies of functions: where the compiler has inlined one, or made another of it, calls do not come by its entry, and
have no advice."""

from __future__ import annotations

from collections.abc import Iterable

from gilk.engines.aspect.shadows import Shadow
from gilk.errors import UsageError
from gilk.session.inlined import called_elsewhere, has_debug_information
from gilk.spec.image import is_glob


def copies_of(shadow: Shadow) -> str | None:
    """The places of copies of a function, in words; "" if it has none, None if nothing tells. Functions that the file
    names by a glob are not looked up, since there may be thousands."""
    view = shadow.view
    if is_glob(shadow.met.point.name) or not has_debug_information(view.loaded):
        return None
    return called_elsewhere(view.process, view.loaded, view.function.name, view.function.start)


def check_copies(shadow: Shadow) -> None:
    """Raises UsageError `inlined` if the function has copies, and the aspects are not `partial`."""
    if not shadow.met.partial and (found := copies_of(shadow)):
        hint = "`walk` finds control flows through copies" if shadow.met.tracked else "`partial` does without these"
        raise UsageError("inlined", _message(shadow, found), hint)


def left_out(shadows: Iterable[Shadow]) -> list[str]:
    """Messages about copies that have no advice, since the aspects are `partial`."""
    partial = (one for one in shadows if one.met.partial)
    return [_message(one, found) for one in partial if (found := copies_of(one))]


def _message(shadow: Shadow, found: str) -> str:
    return f"{shadow.view.name} is {found}, and has no advice there"
