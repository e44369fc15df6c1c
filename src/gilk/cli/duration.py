# SPDX-License-Identifier: LGPL-2.1-or-later
"""The click type of options that take a duration; spec/duration.py defines the notation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gilk.errors import UsageError
from gilk.spec import duration

if TYPE_CHECKING:
    _Type = click.ParamType[int]
else:
    _Type = click.ParamType  # generic only from click 8.2 on


class Duration(_Type):
    """A duration, converted to nanoseconds, of at least ``least`` ns. ``example`` appears in the hint of the error."""

    name = "time"

    def __init__(self, example: str, least: int = 0) -> None:
        self._example, self._least = example, least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The duration in nanoseconds. Raises UsageError `usage`."""
        found = value if isinstance(value, int) else duration.nanoseconds(value)
        if found is None or found < self._least:
            option = param.opts[0] if param is not None else self.name
            what = "is not a time" if found is None else "is too short"
            raise UsageError("usage", f"{option}: {value!r} {what}", f"for example {self._example}")
        return found
