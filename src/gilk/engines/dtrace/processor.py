# SPDX-License-Identifier: LGPL-2.1-or-later
"""The option cpu: the processor for clauses that the consumer fires itself. Clauses at other probes ask where they run
(lang/d/passes/processor.py)."""

from __future__ import annotations

import os

from gilk.errors import UsageError


class Processor:
    """The processor for the consumer's clauses. ``number``: the processor that they are told."""

    def __init__(self, asked: str) -> None:
        """``asked``: the value of the option; empty if it was not given."""
        self.number = int(asked or 0)
        self._asked = bool(asked)
        self._before: set[int] | None = None

    @property
    def asked(self) -> int | None:
        return self.number if self._asked else None

    def enter(self) -> None:
        """Have this thread run on the processor, if one was asked for. Raises UsageError `bad-d-option`."""
        if not self._asked:
            return
        before = os.sched_getaffinity(0)
        try:
            os.sched_setaffinity(0, {self.number})
        except (OSError, ValueError, OverflowError):
            what = f"failed to set -x cpu: no processor {self.number} to run on"
            raise UsageError("bad-d-option", what, f"there are {', '.join(map(str, sorted(before)))}") from None
        self._before = before

    def leave(self) -> None:
        """Have this thread run on the processors that it had before."""
        if self._before is not None:
            os.sched_setaffinity(0, self._before)
        self._before = None
