# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds mistakes in a description of probes of ``pidN``, by DTrace's names for them (dtrace_errtags.h of libdtrace)."""

from __future__ import annotations

import re
from enum import StrEnum

from gilk.image import lookup
from gilk.lang.d.probes import Description, is_glob
from gilk.targets.base import Target
from gilk.values import dataclass

_OFFSET = re.compile(r"[0-9a-f]{1,16}\Z")
_OF_PROCESS = re.compile(r"pid[0-9]+\Z")
_EDGES = ("entry", "return")


class PidTag(StrEnum):
    """DTrace's names for the mistakes."""

    D_PROC_BADPID = "D_PROC_BADPID"  # no process has that number
    D_PROC_LIB = "D_PROC_LIB"  # the function "-", which stands for addresses, in another image than the program
    D_PROC_FUNC = "D_PROC_FUNC"  # that image has no function of that name
    D_PROC_NAME = "D_PROC_NAME"  # a name that is neither entry nor return nor an offset
    D_PROC_OFF = "D_PROC_OFF"  # an offset that lies outside of the function
    D_PROC_CREATEFAIL = "D_PROC_CREATEFAIL"  # an offset at which no instruction begins


@dataclass(frozen=True)
class PidMistake:
    """The reason why a description means no probe."""

    tag: PidTag
    message: str


def mistake(process: Target | None, description: Description) -> PidMistake | None:
    """The mistake in a description; None if there is none in the description itself, or if it is not about functions of
    a process."""
    if description.provider == "pid0":
        return PidMistake(PidTag.D_PROC_BADPID, "pid0 does not contain a valid pid")
    if process is None or not _OF_PROCESS.match(description.provider) or description.provider != f"pid{process.pid}":
        return None
    if description.function == "-":
        return _of_addresses(description)
    return _of_functions(process, description)


def _of_addresses(description: Description) -> PidMistake | None:
    if description.module not in ("", "a.out"):
        return PidMistake(PidTag.D_PROC_LIB, "only the a.out module is valid with the '-' function")
    if not description.name or is_glob(description.name):
        what = "only individual addresses may be specified with the '-' function"
        return PidMistake(PidTag.D_PROC_NAME, what)
    where = f"failed to create probes at '-+0x{description.name}': no instruction of the program begins there"
    return _of_name(description.name) or PidMistake(PidTag.D_PROC_CREATEFAIL, where)


def _of_functions(process: Target, description: Description) -> PidMistake | None:
    images = [process.image(loaded.path) for loaded in process.loaded() if loaded.is_meant(description.module)]
    spans = [span for image in images for span in lookup.matching(image, description.function or "*")]
    if not spans:
        if not images or not description.module or is_glob(description.module + description.function):
            return None
        what = f"failed to lookup '{description.function}' in module '{description.module}'"
        return PidMistake(PidTag.D_PROC_FUNC, what)
    if not description.name or is_glob(description.name) or description.name in _EDGES:
        return None
    wrong = _of_name(description.name)
    if wrong is not None:
        return wrong
    offset, span = int(description.name, 16), spans[0]
    named = span.name if is_glob(description.function) else description.function
    if offset >= span.end - span.start:
        return PidMistake(PidTag.D_PROC_OFF, f"offset {offset:#x} outside of function '{named}'")
    what = f"failed to create probes at '{named}+{offset:#x}': no instruction begins there"
    return PidMistake(PidTag.D_PROC_CREATEFAIL, what)


def _of_name(name: str) -> PidMistake | None:
    return None if _OFFSET.match(name) else PidMistake(PidTag.D_PROC_NAME, f"'{name}' is an invalid probe name")
