# SPDX-License-Identifier: LGPL-2.1-or-later
"""Kernels: this machine's and others', with sessions in them."""

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
    """A kernel to put probes in. Use as a context manager, or call close()."""

    def __init__(self, target: KernelTarget, elsewhere: Elsewhere | None) -> None:
        self.target = target
        self._elsewhere = elsewhere

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def functions(self, glob: str = "*") -> tuple[FunctionView, ...]:
        """Functions of the kernel and its modules by name. Raises UsageError."""
        return tuple(places.functions(self.target, glob, "kernel"))

    def function(self, name: str) -> FunctionView:
        """The first function of that name. Raises UsageError `no-such-function`."""
        return self.functions(name)[0]

    def session(
        self, points: int = 1 << 16, ring: int = 1 << 20, mode: Literal["drop", "flight"] = "drop"
    ) -> KernelSession:
        """Probes that live until the session is closed. Raises TargetError, when the driver is not loaded for one.

        ``mode``: where a buffer of ``ring`` bytes is full, ``drop`` the newest record or, as a flight recorder, the
        oldest. Either is counted. The latter keeps records in the kernel until close(), or newest().
        """
        return KernelSession(self.target, points, ring, mode == "flight")

    def start(self, command: Sequence[str]) -> None:
        """Run a command on the other machine; its output is ours. Raises UsageError `no-machine`, TargetError."""
        if self._elsewhere is None:
            raise UsageError("no-machine", "this is the local kernel: start the command yourself, with subprocess")
        self._elsewhere.start(command)

    @property
    def status(self) -> int | None:
        """The exit status of that command, once it has ended; that is noticed while a session is polled."""
        return self._elsewhere.status if self._elsewhere is not None else None

    def close(self) -> None:
        """Let go of the machine; one of the lab ends with that."""
        self.target.link.close()
        if self._elsewhere is not None:
            self._elsewhere.close()


def kernel(machine: str | lab.Machine = "") -> Kernel:
    """This machine's kernel, or another's: ``ssh:HOST``, or ``lab`` or a ``gilk.lab.Machine``, a fresh virtual one."""
    return Kernel(*kernel_at(machine))
