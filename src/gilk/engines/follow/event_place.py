# SPDX-License-Identifier: LGPL-2.1-or-later
"""The lookup of the function that an event of a trace names, in the images of a process."""

from __future__ import annotations

from gilk.errors import UsageError
from gilk.image import lookup
from gilk.image.model import FunctionSpan
from gilk.session import inlined
from gilk.session.request import with_hint
from gilk.spec.event import Reach
from gilk.targets.base import Loaded, Target


def place_of(process: Target, event: Reach) -> tuple[Loaded, FunctionSpan]:
    """The image and the function: in the main program, or else in the first library that has it.

    Raises UsageError `no-such-image`, `no-such-function`.
    """
    spec = event.function
    images = [loaded for loaded in process.loaded() if loaded.is_meant(spec.image)]
    for loaded in images:
        if found := lookup.matching(process.image(loaded.path), spec.function):
            return loaded, found[0]
    if not images:
        raise UsageError("no-such-image", f"no image matches {spec.image!r}")
    unknown = lookup.unknown(process.image(images[0].path), spec.function)
    raise with_hint(unknown, inlined.hint(process, images, spec.function))
