# SPDX-License-Identifier: LGPL-2.1-or-later
"""The options that change the form of the output."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gilk.lang.d.options import Options
from gilk.render.d.stacks import INDENT
from gilk.values import dataclass

#: Options that setopt() can change, with the name of their field.
_CHANGING = {
    "quiet": "quiet",
    "flowindent": "flow",
    "stackindent": "indent",
    "droptags": "droptags",
    "quietresize": "quietresize",
    "printsize": "printsize",
}


@dataclass(frozen=True, slots=True)
class Style:
    """``testing``: _DTRACE_TESTING is in the environment: nothing that differs from run to run. ``flow``: -F.

    ``indent``: of stacks, in columns. ``printsize``, ``strsize``: bytes.
    """

    quiet: bool = False
    testing: bool = False
    flow: bool = False
    indent: int = INDENT
    droptags: bool = False
    quietresize: bool = False
    printsize: int = 1024
    strsize: int = 256

    @classmethod
    def of(cls, options: Options, testing: bool = False) -> Style:
        sizes = options.number("printsize"), options.string_bytes
        flags = options.flag("quiet"), testing, options.flag("flowindent")
        told = options.flag("droptags"), options.flag("quietresize")
        return cls(*flags, options.number("stackindent"), *told, *sizes)

    def changed(self, option: str, value: int | str) -> Style:
        """With an option set. Most have nothing to do with it."""
        if option not in _CHANGING:
            return self
        made: Any = int(value) if option in ("stackindent", "printsize") else bool(value)
        return replace(self, **{_CHANGING[option]: made})
