# SPDX-License-Identifier: LGPL-2.1-or-later
"""Probes that live in a kernel, and what makes them fire."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from gilk.image.kernel.build import KernelImage
from gilk.image.model import FunctionSpan
from gilk.lang.d.probes import Description, Key
from gilk.values import dataclass


class HasKernel(Protocol):
    """A target that is a kernel."""

    @property
    def kernel(self) -> KernelImage: ...


@dataclass(frozen=True, slots=True)
class KernelProbe:
    """``function``: where ``edge``, "entry" or "return", makes it fire. ``call``: it is about the system call of that
    number, which all go by that function."""

    key: Key
    function: FunctionSpan
    edge: str
    call: int | None = None


#: Makes the probes that a description means: none when it is about something else.
KernelProvider = Callable[[HasKernel, Description], Iterator[KernelProbe]]
