# SPDX-License-Identifier: LGPL-2.1-or-later
"""Probes that live in a kernel, and the places where they fire."""

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
from gilk.targets.processor_samples import Counted
from gilk.values import dataclass


class ReadsFiles(Protocol):
    """The part of a link that providers use."""

    def read_file(self, path: str) -> bytes: ...


class HasUsers(Protocol):
    """Processes, and the files from which they execute code; see UserProcesses."""

    def meant(self, provider: str) -> Iterator[tuple[str, tuple[int, ...]]]: ...
    def files(self, pids: tuple[int, ...]) -> tuple[UserFile, ...]: ...
    def image(self, file: UserFile) -> Image: ...
    def analysis(self, file: UserFile) -> Analysis: ...
    def marks(self, file: UserFile) -> tuple[UsdtMarker, ...]: ...


class HasKernel(Protocol):
    """A target that is a kernel. ``users``: the processes that are traced there."""

    @property
    def kernel(self) -> KernelImage: ...
    @property
    def link(self) -> ReadsFiles: ...
    @property
    def users(self) -> HasUsers: ...
    def counts(self, event: Counted) -> bool: ...


@dataclass(frozen=True, slots=True)
class ProviderRow:
    """A line of a provider's table, in D. ``at`` describes the underlying probe, to whose ``arg0`` and ``args[]`` the
    other fields refer. ``condition``: the probe fires if it is not 0; "" means always. ``arguments``: those of the
    probe, from arg0 on."""

    name: str
    at: str
    condition: str = ""
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelProbe:
    """A probe in a kernel. ``function`` is where it fires, at the ``edge`` "entry", "return" or "done", which is a
    return that is no tail call. ``call``: the number of the system call that the probe is about; all system calls go
    through ``function``. ``point``: a tracepoint where it fires, instead of a function. ``user``: places in files that
    processes map, instead of either. ``row``: the table row of a probe that is made of an underlying one; ``number``
    tells several of one name apart. ``bios``: the probe fires for each bio that ends at the tracepoint. ``event``: an
    event of tracefs, GROUP/NAME, whose record has the arguments, instead of a function. ``early``: the reasons why it
    fires at jumps of a function in ``user`` after which a call may go on."""

    key: Key
    function: FunctionSpan | None
    edge: str = "entry"
    call: int | None = None
    point: str = ""
    row: ProviderRow | None = None
    number: int = 0
    bios: bool = False
    user: tuple[UserFire, ...] = ()
    event: str = ""
    early: tuple[str, ...] = ()


#: Makes the probes that a description means; none if it is about another provider.
KernelProvider = Callable[[HasKernel, Description], Iterator[KernelProbe]]
