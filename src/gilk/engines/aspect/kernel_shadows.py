# SPDX-License-Identifier: LGPL-2.1-or-later
"""Shadows in a kernel: the functions at whose calls elements of aspects match, and the points where their calls
return."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gilk.analysis.model import Function
from gilk.arch import decode as x86
from gilk.engines.aspect.shadows import Shadow, Shadows
from gilk.engines.aspect.state import CodeRanges
from gilk.errors import UsageError
from gilk.lang.aspect.checked import KERNEL_GROUP, CheckedFile
from gilk.lang.aspect.code.meeting import NumberedAspect
from gilk.session.places import FunctionView, Place
from gilk.splice.points import returns
from gilk.targets.kernel.target import KernelTarget

_MOST_FUNCTIONS = 64  # how many functions the jumps at a function's end may lead to
_LONGEST = 15  # bytes of an instruction
_IMAGE = "kernel"


def kernel_shadows(target: KernelTarget, file: CheckedFile, aspects: Sequence[NumberedAspect]) -> tuple[Shadow, ...]:
    """The functions of the kernel that elements of the aspects match. Raises UsageError `no-such-function`,
    `cannot-weave`."""
    return Shadows(target, file, (KERNEL_GROUP,), CodeRanges(), kernel=True).found(of_kernel(aspects))


def of_kernel(aspects: Sequence[NumberedAspect]) -> tuple[NumberedAspect, ...]:
    """The aspects that have elements in the kernel."""
    return tuple(one for one in aspects if any(element.kernel for element in one.elements))


def leaving(view: FunctionView) -> list[Place]:
    """All points where a call of the function returns, also those of functions that it jumps to at its end: they return
    to its caller.

    Raises UsageError `cannot-weave` if these are not known.
    """
    found: list[Place] = []
    seen, waiting = {view.address}, [view]
    while waiting:
        one = waiting.pop()
        for part, place, target in _ways_out(one):
            if target is None:
                found.append(place)
                continue
            other = _function_at(one, target)
            if other is None or len(seen) > _MOST_FUNCTIONS:
                where = f"{part.name}+{place.point.address - part.start:#x}"
                raise UsageError(
                    "cannot-weave", f"{view.name} ends in a jump at {where}, and nobody knows where that returns",
                    "advice before it needs no return",
                )  # fmt: skip
            if other.address not in seen:
                seen.add(other.address)
                waiting.append(other)
    return found


def _ways_out(view: FunctionView) -> Iterator[tuple[Function, Place, int | None]]:
    """The points where a function ends: its part, the place, and the address that it jumps to there; None at a return,
    0 if the target is not known."""
    image, analysis = view.process.image(view.loaded.path), view.process.analysis(view.loaded)
    for part, point in returns(image, analysis, view.function):
        instruction = next(iter(x86.decode(image.read(point.address, _LONGEST), point.address)))
        target = instruction.near_branch_target
        place = Place(view.process, view.loaded, part, point)
        if instruction.flow_control == x86.RETURN or target in image.returns:
            yield part, place, None
        else:
            yield part, place, target if instruction.flow_control == x86.JUMP else 0


def _function_at(view: FunctionView, address: int) -> FunctionView | None:
    """The function that begins at the link-time address; None if none does."""
    analysis = view.process.analysis(view.loaded)
    span = analysis.image.span_at(address) if address else None
    if span is None or span.start != address:
        return None
    function = analysis.function(span)
    return FunctionView(view.process, view.loaded, function) if function.blocks else None
