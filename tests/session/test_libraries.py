# SPDX-License-Identifier: LGPL-2.1-or-later
"""Libraries of a program in which no thread can be held."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gilk.errors import TargetError
from gilk.session.libraries import HoldsThreads, Libraries
from gilk.targets.base import Loaded

PROGRAM = Loaded(Path("/bin/program"), 0x1000, 0x1000, 0x2000, True)
LIBRARY = Loaded(Path("/lib/library.so"), 0x5000, 0x5000, 0x6000, False)


class Code:
    """A program without a dynamic linker that can be watched. ``why``: the slug of the error that its images give."""

    def __init__(self) -> None:
        self.images: tuple[Loaded, ...] = (PROGRAM,)
        self.why = ""

    def loaded(self) -> tuple[Loaded, ...]:
        if self.why:
            raise TargetError(self.why, "for a test")
        return self.images

    def image(self, path: Path) -> Any:
        return SimpleNamespace(spans=(), static=False)


def libraries_of(code: Code) -> Libraries:
    holder = cast("HoldsThreads", SimpleNamespace(code=code))
    return Libraries(holder, 0, lambda images: None, (PROGRAM,))


def test_the_last_look_at_a_process_that_has_ended_finds_what_was_found_before() -> None:
    """Its exit may be collected between two looks at it; then /proc does not know it any more."""
    code = Code()
    libraries = libraries_of(code)
    code.images = (PROGRAM, LIBRARY)
    libraries.look_last()
    code.why = "no-such-process"
    libraries.look_last()
    assert list(libraries.arrivals.unseen) == [LIBRARY] and "_dl_debug_state" in libraries.hindrance


def test_the_last_look_tells_other_errors() -> None:
    code = Code()
    libraries = libraries_of(code)
    code.why = "no-permission"
    with pytest.raises(TargetError, match="for a test"):
        libraries.look_last()
