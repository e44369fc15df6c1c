# SPDX-License-Identifier: LGPL-2.1-or-later
"""The functions that a process uses for an IFUNC, such as one memcpy of several."""

from __future__ import annotations

from collections.abc import Iterator

from gilk.arch import decode as x86
from gilk.session.places import FunctionView
from gilk.targets.base import Loaded
from gilk.targets.process import Process

_STUB = 16  # bytes of a PLT stub at most


def chosen(process: Process, view: FunctionView) -> Iterator[FunctionView]:
    """The functions that the stubs for an IFUNC, in the IFUNC's own image, lead to; none if the function is not an
    IFUNC."""
    image = process.image(view.loaded.path)
    span = image.span_at(view.function.start)
    if span is None or not span.ifunc:
        return
    names = {span.name, *span.aliases}
    for stub in sorted(at for at, name in image.plt.items() if name.partition("@")[0] in names):
        for instruction in x86.decode(image.read(stub, _STUB), stub):
            if instruction.is_ip_rel_memory_operand:
                slot = instruction.ip_rel_memory_address + view.loaded.bias
                yield from _at(process, int.from_bytes(process.keeper.peek(slot, 8), "little"))
                break


def _at(process: Process, address: int) -> Iterator[FunctionView]:
    for loaded in process.loaded():
        found = _span(process, loaded, address) if loaded.start <= address < loaded.end else None
        if found is not None:
            yield found


def _span(process: Process, loaded: Loaded, address: int) -> FunctionView | None:
    analysis = process.analysis(loaded)
    span = analysis.image.span_at(address - loaded.bias)
    return None if span is None else FunctionView(process, loaded, analysis.function(span))
