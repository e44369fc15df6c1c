# SPDX-License-Identifier: LGPL-2.1-or-later
"""Probes that live in a kernel, and what makes them fire."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from gilk.analysis.analysis import Analysis
from gilk.image.kernel.build import KernelImage
from gilk.image.model import FunctionSpan, Image
from gilk.image.stapsdt import UsdtMarker
from gilk.lang.d.probes import Description, Key
from gilk.targets.kernel.d_messages import UserFire
from gilk.targets.kernel.users import UserFile
from gilk.values import dataclass


class ReadsFiles(Protocol):
    """The part of a link that providers use."""

    def read_file(self, path: str) -> bytes: ...


class HasUsers(Protocol):
    """Processes, and the files that they execute code of."""

    def meant(self, provider: str) -> Iterator[tuple[str, tuple[int, ...]]]: ...
    def files(self, pids: tuple[int, ...]) -> tuple[UserFile, ...]: ...
    def image(self, file: UserFile) -> Image: ...
    def analysis(self, file: UserFile) -> Analysis: ...
    def marks(self, file: UserFile) -> tuple[UsdtMarker, ...]: ...


class HasKernel(Protocol):
    """A target that is a kernel. ``users``: processes that are traced there."""

    @property
    def kernel(self) -> KernelImage: ...
    @property
    def link(self) -> ReadsFiles: ...
    @property
    def users(self) -> HasUsers: ...


@dataclass(frozen=True, slots=True)
class ProviderRow:
    """A line of a provider's table, in D: ``at`` describes the probe behind it, whose ``arg0`` and ``args[]`` the rest
    is about. ``condition``: the probe fires where it is not 0; "" is always. ``arguments``: arg0 and on of the probe.
    """

    name: str
    at: str
    condition: str = ""
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelProbe:
    """``function``: where ``edge``, "entry" or "return", makes it fire. ``call``: it is about the system call of that
    number, which all go by that function. ``point``: instead of a function, a tracepoint. ``user``: instead of either,
    places in files that processes map. ``row``: the table's, of a
    probe that another one is behind; several of one name differ by ``number``. ``bios``: it fires for each that ends at
    that tracepoint."""

    key: Key
    function: FunctionSpan | None
    edge: str = "entry"
    call: int | None = None
    point: str = ""
    row: ProviderRow | None = None
    number: int = 0
    bios: bool = False
    user: tuple[UserFire, ...] = ()


#: Makes the probes that a description means: none when it is about something else.
KernelProvider = Callable[[HasKernel, Description], Iterator[KernelProbe]]
