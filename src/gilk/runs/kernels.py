# SPDX-License-Identifier: LGPL-2.1-or-later
"""The kernel that a run needs, if any. The modules that reach kernels are imported only then, since runs of processes
need not wait for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gilk.errors import UsageError

if TYPE_CHECKING:
    from gilk import lab
    from gilk.runs.clause_request import ClauseRequest
    from gilk.runs.elsewhere import Elsewhere
    from gilk.runs.strategy import Chosen
    from gilk.session.request import Request
    from gilk.targets.kernel.target import KernelTarget


def kernel_at(machine: str | lab.Machine) -> tuple[KernelTarget, Elsewhere | None]:
    """This machine's kernel, if ``machine`` is '', or another machine's, with the connection to it. Raises UsageError,
    TargetError."""
    from gilk.targets.kernel.target import KernelTarget

    if not machine:
        from gilk.targets.kernel.link import LocalLink

        return KernelTarget(LocalLink()), None
    from gilk.runs.elsewhere import reach

    elsewhere = reach(machine)
    return KernelTarget(elsewhere.link), elsewhere


def kernel_of(
    requests: Sequence[Request | Chosen | ClauseRequest], processes: bool, machine: str
) -> tuple[KernelTarget | None, Elsewhere | None]:
    """The kernel that requests are about, and the connection to its machine; each is None if there is none.

    ``processes``: whether processes were chosen, too. Raises UsageError, TargetError.
    """
    if machine and (processes or not all(request.of_kernel for request in requests)):
        raise UsageError("remote-kernel-only", f"on {machine}, points are kernel:FUNCTION:WHERE")
    if machine or any(request.of_kernel for request in requests):
        return kernel_at(machine)
    return None, None
