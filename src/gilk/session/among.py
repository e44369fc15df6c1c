# SPDX-License-Identifier: LGPL-2.1-or-later
"""A view of a process that has only some of its images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from gilk.targets.base import Loaded
from gilk.targets.process import Process


class _Among:
    def __init__(self, process: Process, images: Sequence[Loaded]) -> None:
        self._process, self._images = process, tuple(images)

    def loaded(self) -> tuple[Loaded, ...]:
        return self._images

    def __getattr__(self, name: str) -> Any:
        return getattr(self._process, name)


def among(process: Process, images: Sequence[Loaded]) -> Process:
    """A view of the process with no other images than ``images``, to look points up in. It cannot have sessions."""
    return cast(Process, _Among(process, images))
