# SPDX-License-Identifier: LGPL-2.1-or-later
"""The options that change the form of the output."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gilk.lang.d.options import Options
from gilk.render.d.stacks import INDENT
from gilk.values import dataclass

#: Options that setopt() can change, with the names of their fields.
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
    """The form of the output. ``testing``: _DTRACE_TESTING is in the environment, and nothing that differs from run to
    run is printed. ``flow``: the option -F. ``indent`` is that of stacks, in columns. ``printsize`` and ``strsize`` are
    in bytes.
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
        """The style after an option was set. Most options do not change it."""
        if option not in _CHANGING:
            return self
        made: Any = int(value) if option in ("stackindent", "printsize") else bool(value)
        return replace(self, **{_CHANGING[option]: made})
