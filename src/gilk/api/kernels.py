# SPDX-License-Identifier: LGPL-2.1-or-later
"""Kernels, of this machine and of others, and sessions in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from gilk.engines.scan.kernel import KernelSubject
from gilk.errors import UsageError
from gilk.runs.elsewhere import Elsewhere
from gilk.runs.kernels import kernel_at
from gilk.runs.live import KernelLiveRun
from gilk.session import places
from gilk.session.kernel_session import KernelSession
from gilk.session.places import FunctionView
from gilk.session.request import Request
from gilk.targets.kernel.channel import Sink
from gilk.targets.kernel.target import KernelTarget

if TYPE_CHECKING:
    from gilk import lab

__all__ = ["Kernel", "KernelSession", "KernelSubject", "kernel"]


class Kernel:
    """A kernel to put probes in. Use it as a context manager, or call close()."""

    def __init__(self, target: KernelTarget, elsewhere: Elsewhere | None) -> None:
        self.target = target
        self._elsewhere = elsewhere
        self._subject: KernelSubject | None = None

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

    @property
    def subject(self) -> KernelSubject:
        """The kernel for scans, which read it once."""
        if self._subject is None:
            self._subject = KernelSubject(self.target.link, self.target)
        return self._subject

    def refresh(self) -> bool:
        """Have the kernel read anew when it is next needed, if modules were loaded or unloaded since; returns whether
        that is so. No session may be in it, since the code would be read with what the session has put there."""
        now = KernelSubject(self.target.link)
        changed = self._subject is not None and now.identity != self._subject.identity
        if changed:
            self.target, self._subject = KernelTarget(self.target.link), None
        return changed

    @property
    def console(self) -> str:
        """What the other machine's kernel has printed; '' for this machine, and for one that is reached over ssh."""
        return self._elsewhere.console() if self._elsewhere is not None else ""

    def watch(self, descriptors: Sequence[int]) -> None:
        """Wait until one of the descriptors can be read. Raises MachineGone as soon as the other machine ends."""
        if self._elsewhere is None:
            raise _no_machine("this is the local kernel: it does not end before its machine")
        self._elsewhere.watch(descriptors)

    def live(self, requests: Sequence[Request], command: Sequence[str], take: Sink) -> KernelLiveRun:
        """A run that is watched, and leaves the kernel when it ends; no probe is in yet. ``command`` runs on the other
        machine, if it is not empty, and its output is given to ``take``."""
        return KernelLiveRun(
            [], list(requests), command=tuple(command), kernel=self.target, elsewhere=self._elsewhere, take=take
        )

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
            raise _no_machine("this is the local kernel: start the command yourself, with subprocess")
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


def _no_machine(why: str) -> UsageError:
    return UsageError("no-machine", why)


def kernel(machine: str | lab.Machine = "") -> Kernel:
    """The kernel of this machine for '', or that of another.

    ``machine``: ``ssh:HOST``, or, for a fresh virtual machine, ``lab`` or a ``gilk.lab.Machine``. Raises UsageError,
    TargetError.
    """
    return Kernel(*kernel_at(machine))
