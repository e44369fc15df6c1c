# SPDX-License-Identifier: LGPL-2.1-or-later
"""Kernels, of this machine and of others, and sessions in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from gilk.errors import UsageError
from gilk.runs.elsewhere import Elsewhere
from gilk.runs.kernels import kernel_at
from gilk.session import places
from gilk.session.kernel_session import KernelSession
from gilk.session.places import FunctionView
from gilk.targets.kernel.target import KernelTarget

if TYPE_CHECKING:
    from gilk import lab

__all__ = ["Kernel", "KernelSession", "kernel"]


class Kernel:
    """A kernel to put probes in. Use it as a context manager, or call close()."""

    def __init__(self, target: KernelTarget, elsewhere: Elsewhere | None) -> None:
        self.target = target
        self._elsewhere = elsewhere

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def functions(self, glob: str = "*") -> tuple[FunctionView, ...]:
        """The functions of the kernel and its modules whose names match. Raises UsageError."""
        return tuple(places.functions(self.target, glob, "kernel"))

    def function(self, name: str) -> FunctionView:
        """The first function of that name. Raises UsageError `no-such-function`."""
        return self.functions(name)[0]

    def session(
        self, points: int = 1 << 16, ring: int = 1 << 20, mode: Literal["drop", "flight"] = "drop"
    ) -> KernelSession:
        """A session: probes that stay in the kernel until it is closed.

        At most four sessions can be in a kernel at a time. ``points``: how many probes there can be in all. ``ring``:
        bytes of a CPU's buffer per record class, a power of two. ``mode``: a full buffer loses its newest record
        (``drop``) or, as a flight recorder does, its oldest (``flight``); lost records are counted. A flight recorder's
        records stay in the kernel until close() or newest(). Raises TargetError, also when the driver is not loaded.
        """
        return KernelSession(self.target, points, ring, mode == "flight")

    def start(self, command: Sequence[str]) -> None:
        """Run a command on the other machine, with its output on ours. Raises UsageError `no-machine`, TargetError."""
        if self._elsewhere is None:
            raise UsageError("no-machine", "this is the local kernel: start the command yourself, with subprocess")
        self._elsewhere.start(command)

    @property
    def status(self) -> int | None:
        """The exit status of that command, None before it has ended. The end is noticed when a session is polled."""
        return self._elsewhere.status if self._elsewhere is not None else None

    def close(self) -> None:
        """Let go of the machine; a virtual machine of the lab ends then."""
        self.target.link.close()
        if self._elsewhere is not None:
            self._elsewhere.close()


def kernel(machine: str | lab.Machine = "") -> Kernel:
    """The kernel of this machine for '', or that of another.

    ``machine``: ``ssh:HOST``, or, for a fresh virtual machine, ``lab`` or a ``gilk.lab.Machine``. Raises UsageError,
    TargetError.
    """
    return Kernel(*kernel_at(machine))
