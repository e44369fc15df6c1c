# SPDX-License-Identifier: LGPL-2.1-or-later
"""D programs whose clauses run in this process as they would in a kernel: printed for that, checked, and linked."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

from gilk.engines.dtrace import tracing
from gilk.engines.dtrace.consumer import Consumer
from gilk.engines.dtrace.kernel_clauses import printed
from gilk.toolchain.dprogram import ClauseEvent
from gilk.trace.d.layout import LAYOUT_FIELDS
from tests.native.checked.library import Program


class _Checked:
    """A stand-in for natively compiled clauses (toolchain.dprogram.Native)."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def fire(self, group: int, memory: int, event: ClauseEvent, always: bool = False, looks: bool = False) -> None:
        self._program.fire(group, event, always)


class CheckedEngine(tracing.Engine):
    """An engine without a process, whose clauses are checked code."""

    def begin(self) -> None:
        made = printed(self.program, self.enabled, self._groups, self._options)
        layout = {name: int(getattr(self.memory.layout, name)) for name in LAYOUT_FIELDS}
        layout["scratch_size"] = -(-self._options.number("scratchsize") // 8) * 8  # strings of a kernel lie elsewhere
        self._attend(self.memory, made.parts, made.aggregations, self._gone)
        self._loaded = Program(made, list(layout.values()), self._address)
        checked = _Checked(self._loaded)
        with patch.object(tracing, "compiling", _nothing), patch.object(tracing, "Native", lambda _: checked):
            super().begin()

    def poll(self, final: bool = False) -> Iterator[tracing.Happening]:
        self._loaded.settle()
        yield from super().poll(final)

    def _fires_error(self, probe: object) -> bool:
        return True


class _nothing:
    """A stand-in for the compiler."""

    def __init__(self, text: str) -> None:
        pass

    def __enter__(self) -> object:
        return lambda: None

    def __exit__(self, *_: object) -> None:
        pass


class CheckedConsumer(Consumer):
    def _tracing(self) -> tracing.Engine:
        return CheckedEngine(self.compiled.program, self.enabled, self.options, None)
